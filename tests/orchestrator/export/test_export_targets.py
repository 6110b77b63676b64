"""The engines of `orchestrator export`: every file explains itself with the standard library alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from exported_run import CHECK, NODE, rendered, write_run

from orchestrator.export.targets import TARGETS, default_file, known_target
from orchestrator.output import OutputError
from tasks.gpu.processor_template import ModelCheck

ENGINES = {
    "sglang": {"torch", "sglang.srt.sampling.custom_logit_processor"},
    "vllm": {"torch"},
    "transformers": {"torch", "transformers"},
    "llama-cpp": {"numpy"},
}


@pytest.mark.parametrize("target", sorted(ENGINES))
def test_each_file_says_how_it_is_used_where_its_engine_is_not_installed(tmp_path: Path, target: str) -> None:
    file = default_file(write_run(tmp_path), target, "")
    file.parent.mkdir()
    text = rendered(target, tmp_path)
    file.write_text(text)
    # when it is run with Python alone
    told = subprocess.run([sys.executable, "-I", "-S", str(file)], capture_output=True, text=True, check=False)
    # then it prints its head, and names its module
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(ast.get_docstring(ast.parse(text), clean=False) or "?")
    assert "--verify" in told.stdout and f"The module to import is {file.stem}" in told.stdout
    assert all(len(line) <= 120 for line in text.splitlines())
    # and what it does not understand, such as --verify where a script's variable is empty, is never a success
    refused = subprocess.run([sys.executable, str(file), "--verify"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"--verify: not understood; {file.name} --help says what is\n"


@pytest.mark.parametrize(
    ("target", "setting"),
    [
        ("sglang", '"min_new_tokens": 14'),
        ("vllm", '"min_tokens": 14'),
        ("transformers", "min_new_tokens=14"),
        ("llama-cpp", "MinTokensLogitsProcessor(14, model.token_eos())"),
        ("logit-bias", '\\"min_tokens\\": 14'),
    ],
)
def test_each_file_says_the_least_number_of_tokens_of_an_answer(tmp_path: Path, target: str, setting: str) -> None:
    run = write_run(tmp_path, ModelCheck(**{**CHECK, "min_new_tokens": 14}))
    text = rendered(target, run)
    assert setting in " ".join(text.split()) and "answers of at least 14 tokens" in text
    assert target == "logit-bias" or all(len(line) <= 120 for line in text.splitlines())
    # and nothing of it where a run had none
    assert "answers of at least" not in rendered(target, write_run(tmp_path))


@pytest.mark.parametrize("target", sorted(ENGINES))
def test_each_file_imports_its_engine_and_the_standard_library_only(tmp_path: Path, target: str) -> None:
    tree = ast.parse(rendered(target, write_run(tmp_path)))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names} == ENGINES[target]


def test_the_sglang_file_is_the_runs_own(tmp_path: Path) -> None:
    assert rendered("sglang", write_run(tmp_path)) == (tmp_path / "processor_best.py").read_text()


def test_a_file_of_an_individual_has_its_name(tmp_path: Path) -> None:
    file = default_file(tmp_path, "llama-cpp", NODE)
    assert file == tmp_path / "exports" / "processor_llama_cpp_g0_child1_pre.py"
    TARGETS["llama-cpp"].check_name(file)


@pytest.mark.parametrize("name", ["openai", "logit-bias"])
def test_the_command_for_a_list_of_biases_is_one_that_a_shell_can_run(tmp_path: Path, name: str) -> None:
    # given a file in a folder with a space, and programs that stand in for jq and curl and print their arguments
    file = tmp_path / "my runs" / TARGETS[name].file_name
    for program in ("jq", "curl"):
        (tmp_path / program).write_text('#!/bin/sh\ncat >/dev/null\nprintf "%s\\n" "$0" "$@" >&2\n')
        (tmp_path / program).chmod(0o755)
    # when a shell reads the command
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["sh", "-c", TARGETS[name].command_for(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, input="", check=False)
    # then jq gets the filter and the file, and curl the address
    assert done.returncode == 0 and str(file) in done.stderr.splitlines()
    assert '{model: "MODEL", messages: [{role: "user", content: "..."}], logit_bias}' in done.stderr
    assert "http://127.0.0.1:8000/v1/chat/completions" in done.stderr.splitlines()


def test_the_command_names_the_file_as_a_shell_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "my runs" / "processor_vllm.py"
    command = TARGETS["vllm"].command_for(file)
    assert f"PYTHONPATH='{file.parent}' " in command and command.endswith(" processor_vllm:DeltaProcessor")


@pytest.mark.parametrize("name", ["processor-best.py", "best.json", "best"])
def test_a_name_that_python_cannot_import_is_refused(name: str) -> None:
    with pytest.raises(OutputError, match="as a Python module, such as processor_vllm"):
        TARGETS["vllm"].check_name(Path(name))


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        OutputError, match="'tgi' is no engine; the engines are sglang, vllm, transformers, llama-cpp, openai"
    ):
        known_target("tgi")
