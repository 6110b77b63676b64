"""`deploy/` in the folder of a finished run: all that a server needs to answer as the winner does.

`system.json`, the labels of its clusters and the plugin beside it make a SGLang server answer all chat completions so
(docs/export.md).  `processor.py` is for a server that does not load the plugin.
"""

from __future__ import annotations

import shutil
from typing import Any

from orchestrator.evolve.systems import PLAIN, System
from orchestrator.export.serving import FILE, files_beside, system_text
from orchestrator.export.steering import read_steering
from orchestrator.export.targets import TARGETS
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings import Settings
from orchestrator.settings.value_checks import EMBEDDED
from tasks.common.text import fill
from tasks.queues import PROCESSOR_FILE
from tasks.records import Example
from workers.embedded.models import FOLDER as EMBEDDED_MODEL
from workers.embedded.models import cache_folder

FOLDER = "deploy"
FILES = tuple(f"{FOLDER}/{name}" for name in (PROCESSOR_FILE, "system_prompt.txt", FILE, "request.json", "README.md"))
README = """\
# {name}: what goes to the server

Found for {model} by the run {run}.  `system.json` says what is served, with the hashes of the model and its tokenizer.

In this folder, with SGLang:

    PYTHONPATH=. WHETSTONE_SYSTEM=system.json python -m sglang.launch_server --model-path {model} --host 127.0.0.1
    curl http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' -d @request.json

Clients change nothing: the server adds the system prompt where a client sends none{steers}
"""
STEERS = """, and steers.
`python processor.py` says how a server without the plugin is steered, `orchestrator export` writes other engines'."""
NO_STEERING = """.
Any other server answers so too: nothing is steered, and `request.json` has the system prompt."""


def clear_deploy(output: OutputFolder) -> None:
    """Remove what an earlier end of the run has written: the run may have another winner."""
    shutil.rmtree(output.path / FOLDER, ignore_errors=True)


def write_deploy(
    output: OutputFolder, run_id: str, settings: Settings, winner: System, cap: int, example: Example
) -> None:
    """Write the winner's files; where the plain model stays, there are none.

    `cap`: the most tokens of an answer; `example` is the request's question.
    """
    if winner.name == PLAIN:
        return
    steering = read_steering(output.path, winner.name)
    for name, content in files_beside(steering).items():
        output.write(f"{FOLDER}/{name}", content)
    output.write(f"{FOLDER}/{FILE}", system_text(steering))
    output.write(f"{FOLDER}/system_prompt.txt", winner.system_prompt)
    output.write_json(f"{FOLDER}/request.json", request_of(winner, settings, cap, example))
    if winner.deltas:
        output.write(f"{FOLDER}/{PROCESSOR_FILE}", TARGETS["sglang"].render(steering))
    about = STEERS if winner.deltas else NO_STEERING
    model = cache_folder() / EMBEDDED_MODEL if settings.target_model == EMBEDDED else settings.target_model
    text = README.format(name=winner.name, model=model, run=run_id, steers=about)
    output.write(f"{FOLDER}/README.md", text)


def request_of(winner: System, settings: Settings, cap: int, example: Example) -> dict[str, Any]:
    """The body of a request to `/v1/chat/completions`, as the run has asked it."""
    question = fill(settings.target_prompt_template, {"context": example.context, "query": example.question})
    system = [{"role": "system", "content": winner.system_prompt}] if winner.system_prompt else []
    return {
        "model": settings.target_model,
        "messages": [*system, {"role": "user", "content": question}],
        "temperature": settings.target_temperature,
        "max_tokens": cap,
    }
