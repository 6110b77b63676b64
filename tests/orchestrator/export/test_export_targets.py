"""The engines of `orchestrator export`: every file explains itself with the standard library alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from exported_run import NODE, write_run

from orchestrator.export.steering import read_steering
from orchestrator.export.targets import TARGETS, default_file, known_target
from orchestrator.output import OutputError

ENGINES = {
    "sglang": {"torch", "sglang.srt.sampling.custom_logit_processor"},
    "vllm": {"torch"},
    "transformers": {"torch", "transformers"},
    "llama-cpp": {"numpy"},
}


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_each_file_says_how_it_is_used_where_its_engine_is_not_installed(tmp_path: Path, target: str) -> None:
    file = default_file(write_run(tmp_path), target, "")
    file.parent.mkdir()
    text = TARGETS[target].render(read_steering(tmp_path))
    file.write_text(text)
    # when it is run with Python alone
    told = subprocess.run([sys.executable, "-I", "-S", str(file)], capture_output=True, text=True, check=False)
    # then it prints its head, and names its module
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(ast.get_docstring(ast.parse(text), clean=False) or "?")
    assert "--verify" in told.stdout and f"The module to import is {file.stem}" in told.stdout
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_each_file_imports_its_engine_and_the_standard_library_only(tmp_path: Path, target: str) -> None:
    tree = ast.parse(TARGETS[target].render(read_steering(write_run(tmp_path))))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names} == ENGINES[target]


def test_the_sglang_file_is_the_runs_own(tmp_path: Path) -> None:
    steering = read_steering(write_run(tmp_path))
    assert TARGETS["sglang"].render(steering) == (tmp_path / "processor_best.py").read_text()


def test_a_file_of_an_individual_has_its_name(tmp_path: Path) -> None:
    file = default_file(tmp_path, "llama-cpp", NODE)
    assert file == tmp_path / "exports" / "processor_llama_cpp_g0_child1_pre.py"
    TARGETS["llama-cpp"].check_name(file)


def test_the_command_names_the_file_as_a_shell_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "my runs" / "processor_vllm.py"
    command = TARGETS["vllm"].command_for(file)
    assert f"PYTHONPATH='{file.parent}' " in command and command.endswith(" processor_vllm:DeltaProcessor")


@pytest.mark.parametrize("name", ["processor-best.py", "best.json", "best"])
def test_a_name_that_python_cannot_import_is_refused(name: str) -> None:
    with pytest.raises(OutputError, match="as a Python module, such as processor_vllm"):
        TARGETS["vllm"].check_name(Path(name))


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(OutputError, match="'tgi' is no engine; the engines are sglang, vllm, transformers, llama-cpp"):
        known_target("tgi")
