"""The commands of a page are those that repeat its run, quoted for a shell."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from collected_folder import collected_folder

from orchestrator.commands import evolve, export
from orchestrator.output import OutputError, OutputFolder
from orchestrator.page.repeating import commands_of, forked_from
from orchestrator.results import RunResults
from orchestrator.runs.fork import find_fork


def words(command: str) -> list[str]:
    name, *arguments = shlex.split(command)
    assert name == "orchestrator"
    return arguments


def test_a_folder_with_any_name_is_one_word(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "it's $HOME")
    (folder / "deltas_best.json").write_text('{"0": 0.5}')
    (_, exported), (_, repeated) = commands_of(RunResults.open(folder))
    assert export.make_parser().parse_args(words(exported)[1:]).run == folder
    again = evolve.make_parser().parse_args(words(repeated)[1:])
    assert (again.config, again.output, again.fork) == (folder / "config", "outputs/again", None)


def test_what_each_request_needs_is_said_with_the_export(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    (folder / "deltas_best.json").write_text('{"0": 0.5}')
    assert "min_new_tokens" not in commands_of(RunResults.open(folder))[0][0]
    settings = (folder / "config").read_text()
    (folder / "config").write_text(settings.replace("STEERED_MIN_NEW_TOKENS=0", "STEERED_MIN_NEW_TOKENS=14"))
    assert commands_of(RunResults.open(folder))[0][0].endswith("; each request needs min_new_tokens 14:")
    (folder / "config").write_text("CONFIG_STEERED_MIN_NEW_TOKENS=-1\n")
    with pytest.raises(OutputError, match="CONFIG_STEERED_MIN_NEW_TOKENS is '-1', and no number"):
        commands_of(RunResults.open(folder))


def test_a_fork_is_repeated_from_its_origin(finished_run: Path, tmp_path: Path) -> None:
    for place, at in (("@1", "generation 1"), ("@g1_pop0", "g1_pop0"), ("", "the end of 2 generations")):
        folder = shutil.copytree(finished_run, tmp_path / f"fork{place}")
        fork = find_fork(f"{finished_run}{place}")
        fork.write(OutputFolder(folder))
        results = RunResults.open(folder)
        assert forked_from(results) == f"{results.run} at {at}"
        again = evolve.make_parser().parse_args(words(commands_of(results)[-1][1])[1:])
        assert find_fork(again.fork).population == fork.population
    assert forked_from(RunResults.open(finished_run)) == ""


def test_a_run_without_a_vector_has_nothing_to_export(finished_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished_run, tmp_path / "run")
    (folder / "deltas_best.json").write_text('{"0": 0.0}')
    assert [words(command)[0] for _, command in commands_of(RunResults.open(folder))] == ["evolve"]
    collected = commands_of(RunResults.open(collected_folder(tmp_path / "collected")))
    assert [words(command)[0] for _, command in collected] == ["collect"]
