"""`deploy/` in the folder of a finished run: all that a server needs to answer as the winner does.

`system.json`, the labels of its clusters and the plugin beside it make a SGLang server steer all chat completions
(docs/export.md).  `processor.py`, for servers that load no plugin, is made by a worker
(orchestrator/runs/artifacts.py).  A winner without deltas needs neither.
"""

from __future__ import annotations

import shutil
from typing import Any

from orchestrator.evolve.systems import PLAIN, Book, System
from orchestrator.export.serving import files_beside, system_document
from orchestrator.export.steering import read_check, read_steering
from orchestrator.output import OutputError, OutputFolder
from orchestrator.runs.sameness import read_servers
from orchestrator.settings import Settings
from tasks.exports import PROCESSOR_FILE
from tasks.gpu.processor_template import NO_CHECK
from tasks.models import Example
from tasks.template import fill

FOLDER = "deploy"
PROCESSOR = f"{FOLDER}/{PROCESSOR_FILE}"
SYSTEM_PROMPT = f"{FOLDER}/system_prompt.txt"
FILES = (PROCESSOR, SYSTEM_PROMPT, f"{FOLDER}/system.json", f"{FOLDER}/request.json", f"{FOLDER}/README.md")
README = """\
# {name}: what goes to the server

Found for {model} by the run {run}.  `system.json` has all of it, with the hashes of the model and its tokenizer.

In this folder, with SGLang:

    {variables}python -m sglang.launch_server --model-path {model} --host 127.0.0.1
    curl http://127.0.0.1:30000/v1/chat/completions -H 'Content-Type: application/json' -d @request.json

{about}
"""
STEERED = """\
The server steers all chat completions; it adds the system prompt where a client sends none, and clients change nothing.
`python processor.py` says how a server without the plugin is steered, `orchestrator export` writes other engines'."""
NOT_STEERED = "Each request has the system message and the limit of tokens of `request.json`; nothing is steered."


def clear_deploy(output: OutputFolder) -> None:
    """Remove what an earlier end of the run has written: the run may have another winner."""
    shutil.rmtree(output.path / FOLDER, ignore_errors=True)


def write_deploy(output: OutputFolder, run_id: str, settings: Settings, book: Book, example: Example) -> None:
    """Write the winner's files; where the plain model stays, there are none.  `example` is the request's question."""
    winner = book.system(book.winner)
    if winner.name == PLAIN:
        return
    found, beside = system_of(output, winner)
    for name, content in beside.items():
        output.write(f"{FOLDER}/{name}", content)
    output.write(SYSTEM_PROMPT, winner.system_prompt)
    output.write_json(f"{FOLDER}/system.json", found)
    output.write_json(f"{FOLDER}/request.json", request_of(winner, settings, book.cap, example))
    text = README.format(
        name=winner.name,
        model=settings.target_model,
        run=run_id,
        variables="PYTHONPATH=. WHETSTONE_SYSTEM=system.json " if winner.deltas else "",
        about=STEERED if winner.deltas else NOT_STEERED,
    )
    output.write(f"{FOLDER}/README.md", text)


def system_of(output: OutputFolder, winner: System) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The content of `system.json`, and the files that a server needs beside it.

    The hashes are "" where no worker could read the model.
    """
    servers = read_servers(output)
    about = {"kind": winner.kind, "weights": servers[-1].get("weights", "") if servers else ""}
    try:
        if winner.deltas:
            steering = read_steering(output.path, winner.name)
            return {**system_document(steering), **about}, dict(files_beside(steering))
        check = read_check(output.path)
    except OutputError:  # no worker could make the processor, which a warning has said
        check = NO_CHECK
    found = {
        "name": winner.name,
        "system_prompt": winner.system_prompt,
        "max_tokens": winner.max_tokens,
        "deltas": list(winner.deltas),
        "model": check.name,
        "config_sha256": check.config,
        "tokenizer_sha256": check.tokenizer,
    }
    return {**found, **about}, {}


def request_of(winner: System, settings: Settings, cap: int, example: Example) -> dict[str, Any]:
    """The body of a request to `/v1/chat/completions`, as the run has asked it."""
    question = fill(settings.target_prompt_template, {"context": example.context, "query": example.question})
    system = [{"role": "system", "content": winner.system_prompt}] if winner.system_prompt else []
    return {
        "model": settings.target_model,
        "messages": [*system, {"role": "user", "content": question}],
        "temperature": settings.target_temperature,
        "max_tokens": winner.max_tokens or cap,
    }
