"""`orchestrator export`: it writes the file and prints the command; what it cannot export is one line and status 1."""

from __future__ import annotations

import ast
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exported_run import ENDS, HASH, NODE, write_run
from measured_book import EVOLVED, ONE_SENTENCE, VECTOR, book

from orchestrator.runs.folder import OutputFolder
from tasks.gpu.model_files import reference
from workers.embedded.models import embedded_model
from workers.steering.serving import read_system

HOSTILE = 'Say """ \\ {x}\n\u202e$y\''
"""A system prompt that could end a head, a string or a line."""


def test_what_is_not_shown_to_be_safe_is_exported_with_a_warning(tmp_path: Path, run: Any) -> None:
    folder, mine = write_run(tmp_path), tmp_path / "mine.py"
    for which in ((), ("--node", NODE, "--output", mine), ("--system", VECTOR)):
        status, said = run("export", folder, "--to", "vllm", *which)
        assert status == 0 and ("not shown that" in said) == bool(which)
        assert not which or f"not shown that {which[1]}" in said
    assert mine.read_text() != (folder / "exports/processor_vllm.py").read_text()
    assert (folder / "exports/processor_vllm_one_sentence_log_odds_x1.py").exists()


@pytest.mark.parametrize("prompt", [f"Answer in {ONE_SENTENCE}.", HOSTILE])
@pytest.mark.parametrize("target", ["sglang", "sglang-server", "vllm", "transformers", "llama-cpp"])
def test_one_request_with_all_of_the_system_is_printed_and_is_in_the_head_of_the_file(
    tmp_path: Path, run: Any, target: str, prompt: str
) -> None:
    folder = write_run(tmp_path, ends=ENDS)
    book(replace(book().system(EVOLVED), system_prompt=prompt)).write(OutputFolder(folder))
    status, printed = run("export", folder, "--to", target)
    assert status == 0
    file, said = printed.split("\n", 1)
    # for the embedded model, whose folder is the name of what is served and of what is asked for
    asked = said.count(str(embedded_model()))
    assert asked == {"transformers": 1, "llama-cpp": 0}.get(target, 2) and (not asked or "MODEL " not in said)
    text, about = Path(file).read_text(), said[said.index("One complete request") :].split("\n\nmore: ")[0].strip()
    assert "+1.5 is added to the end of a turn after a token that ends a sentence only" in about
    if "curl" in about:
        body = json.loads(about[about.index("{") : about.rindex("}") + 1])
        assert body["messages"][0] == {"role": "system", "content": prompt} and body["max_tokens"] == 128
        assert body.get("custom_logit_processor") == (reference(Path(file).stem) if target == "sglang" else None)
        if target == "sglang-server":
            found = json.loads(text)
            assert found["request"] == body and about.startswith(found["about"])
            return
    else:
        program = ast.parse(about[about.index("from ") :])
        [messages] = [one.value for one in ast.walk(program) if isinstance(one, ast.Assign) and "role" in ast.dump(one)]
        assert ast.literal_eval(messages)[0]["content"] == prompt and "=128" in about and "DeltaProcessor()" in about
    assert about in (ast.get_docstring(ast.parse(text), clean=False) or "")


def test_a_system_prompt_or_a_stop_alone_is_exported_to_a_server(tmp_path: Path, run: Any) -> None:
    folder = write_run(tmp_path, ends=ENDS)
    stop = {"clustering": HASH, "deltas": [1000.0, 0.0, 0.0, 0.0, 0.0], "end": "sentence"}
    for name, prompt, params in (("80 words", "Answer in 80 words.", None), ("first sentence", "", stop)):
        file = tmp_path / f"{name}.json"
        status, said = run("export", folder, "--to", "sglang-server", "--system", name, "--output", file)
        assert status == 0 and f"WHETSTONE_SYSTEM={shlex.quote(str(file))}" in said
        served = read_system(file, file.parent)
        assert (served.system_prompt, served.params) == (prompt, params)


@pytest.mark.parametrize(
    ("target", "arguments", "named"),
    [
        ("tgi", [], "tgi"),
        ("vllm", ["--node", "g7_pop1_pre"], "has no individual 'g7_pop1_pre'"),
        ("vllm", ["--system", "one sentance"], "did you mean 'one sentence'?"),
        ("vllm", ["--system", "80 words"], "'80 words' has nothing that vllm could add: --to"),
        ("sglang-server", ["--system", "max_tokens 24"], 'set "max_tokens": 24 in each request'),
        ("sglang-server", ["--system", "plain"], "'plain' has nothing that"),
        ("vllm", ["--system", "80 words", "--node", "g0_pop0_pre"], "exclude each other"),
        ("vllm", ["--output", "RUN/processor_best.py"], "which it would overwrite"),
        ("vllm", ["--output", "RUN/my-file.py"], "as a Python module"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    tmp_path: Path, run: Any, target: str, arguments: list[str], named: str
) -> None:
    folder = str(write_run(tmp_path))
    before = sorted(tmp_path.iterdir())
    status, said = run("export", folder, "--to", target, *(one.replace("RUN", folder) for one in arguments))
    assert status == 1 and named in said and sorted(tmp_path.iterdir()) == before
