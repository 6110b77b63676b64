"""`orchestrator export`: it writes the file and prints the command; what it cannot export is one line and status 1."""

from __future__ import annotations

import ast
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from exported_run import ENDS, HASH, NODE, write_run
from measured_book import EVOLVED, ONE_SENTENCE, VECTOR, book

from orchestrator.cli import main
from orchestrator.runs.folder import OutputFolder
from tasks.gpu.model_files import reference
from workers.embedded.models import embedded_model
from workers.steering.serving import read_system


def export(*arguments: object) -> int:
    return main(["export", *map(str, arguments)])


@pytest.mark.parametrize("target", ["sglang", "vllm", "transformers", "llama-cpp"])
def test_it_writes_the_file_and_prints_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    run, file = write_run(tmp_path), tmp_path / "exports" / f"processor_{target.replace('-', '_')}.py"
    file = file.with_name("processor_best.py") if target == "sglang" else file
    assert export(run, "--to", target) == 0
    said, warned = capsys.readouterr()
    assert said.startswith(f"{file}\n") and str(file.parent) in said and warned == ""
    assert file.read_text().startswith('"""Steer a model that ')
    # and of an individual, to a file of one's own
    assert export(run, "--to", target, "--node", NODE, "--output", tmp_path / "mine.py") == 0
    assert (tmp_path / "mine.py").read_text() != file.read_text()
    assert f"not shown that {NODE}" in capsys.readouterr().err
    # and of a system of the front that did not pass
    assert export(run, "--to", target, "--system", VECTOR) == 0
    said, warned = capsys.readouterr()
    assert f"not shown that {VECTOR}" in warned
    assert (file.parent / f"{file.stem}_one_sentence_log_odds_x1.py").exists()


HOSTILE = 'Say """ \\ {x}\n\u202e$y\''
"""A system prompt that could end a head, a string or a line."""


@pytest.mark.parametrize("prompt", [f"Answer in {ONE_SENTENCE}.", HOSTILE])
@pytest.mark.parametrize("target", ["sglang", "sglang-server", "vllm", "transformers", "llama-cpp"])
def test_one_request_with_all_of_the_system_is_printed_and_is_in_the_head_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, prompt: str
) -> None:
    run = write_run(tmp_path, ends=ENDS)
    book(replace(book().system(EVOLVED), system_prompt=prompt)).write(OutputFolder(run))
    assert export(run, "--to", target) == 0
    file, said = capsys.readouterr().out.split("\n", 1)
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


def test_a_system_prompt_or_a_stop_alone_is_exported_to_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, ends=ENDS)
    stop = {"clustering": HASH, "deltas": [1000.0, 0.0, 0.0, 0.0, 0.0], "end": "sentence"}
    for name, prompt, params in (("80 words", "Answer in 80 words.", None), ("first sentence", "", stop)):
        file = tmp_path / f"{name}.json"
        assert export(run, "--to", "sglang-server", "--system", name, "--output", file) == 0
        assert f"WHETSTONE_SYSTEM={shlex.quote(str(file))}" in capsys.readouterr().out
        served = read_system(file, file.parent)
        assert (served.system_prompt, served.params) == (prompt, params)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN", "--to", "tgi"], "tgi"),
        (["nowhere", "--to", "vllm"], "holds no run"),
        (["RUN", "--to", "vllm", "--node", "g7_pop1_pre"], "has no individual 'g7_pop1_pre'"),
        (["RUN", "--to", "vllm", "--system", "three words"], "has no system 'three words'"),
        (["RUN", "--to", "vllm", "--system", "one sentance"], "did you mean 'one sentence'?"),
        (["RUN", "--to", "vllm", "--system", "80 words"], "'80 words' has nothing that vllm could add: --to"),
        (["RUN", "--to", "sglang-server", "--system", "max_tokens 24"], 'set "max_tokens": 24 in each request'),
        (["RUN", "--to", "sglang-server", "--system", "plain"], "'plain' has nothing that"),
        (["RUN", "--to", "vllm", "--system", "80 words", "--node", "g0_pop0_pre"], "exclude each other"),
        (["RUN", "--to", "vllm", "--output", "RUN/processor_best.py"], "which it would overwrite"),
        (["RUN", "--to", "vllm", "--output", "RUN/my-file.py"], "as a Python module"),
        (["COLLECTED", "--to", "vllm"], "a run of 'collect', which finds no system"),
        (["RUN"], "Missing option '--to'"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    places = {"RUN": str(write_run(tmp_path / "run")), "COLLECTED": str(write_run(tmp_path / "c", kind="collect"))}
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
    assert export(*arguments) == 1
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before
