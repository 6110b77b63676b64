"""Each command that prints a table has --json, in one way, with the keys that docs/start.md lists."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from farm_bench import Bench, until
from simulated_run import Driver

from orchestrator.cli import COMMANDS, main
from orchestrator.output import OutputFolder
from orchestrator.report.individual import ClusterDelta, ShownIndividual
from orchestrator.report.statistics import Comparison, JudgedAnswer
from orchestrator.runs.status import ParkedState, write_parked_state
from tasks.failure import Failure
from tasks.gpu.clustering.describe import Description
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.store.set_aside import SetAside
from workers.embedded.farm import ProcessStatus

ROOT = Path(__file__).parents[3]
WITHOUT_A_TABLE = {
    "cancel": "two lines about one run",
    "collect": "its results are a JSON file",
    "completion": "a script",
    "evolve": "its report is report.json",
    "export": "writes a file",
    "flower": "a web page",
    "route": "its results are files",
    "guide": "its results are files; its other forms say in a line for each mission what was changed",
    "report": "writes a file",
    "judge": "prints one JSON object a line",
    "retry": "goes on with `evolve` or `collect`, or says in a line what was sent",
}
BY_NAME = ("questions", "tokens", "figures", "paused", "queues", "workers", "removed")  # objects whose keys are names


def has_json(command: str) -> bool:
    parser = importlib.import_module(f"orchestrator.commands.{command}").make_parser()
    return any("--json" in action.option_strings for action in parser._actions)


def prints_a_list(command: str) -> bool:
    """Whether the command lays out a table, or prints in a loop or several lines at once."""
    tree = ast.parse((ROOT / "orchestrator" / "commands" / f"{command}.py").read_text())
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While, ast.ListComp))]
    printed = [node for loop in loops for node in ast.walk(loop) if is_call(node, "print")]
    joined = [n for n in ast.walk(tree) if is_call(n, "print") and any(is_call(m, "join") for m in ast.walk(n))]
    tables = [n for n in ast.walk(tree) if is_call(n, "format_table", "print_found")]
    return bool(printed or joined or tables)


def is_call(node: ast.AST, *names: str) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in names


def test_a_command_that_prints_a_table_has_json() -> None:
    assert {command for command in COMMANDS if not has_json(command)} == set(WITHOUT_A_TABLE)
    assert [command for command in WITHOUT_A_TABLE if prints_a_list(command)] == []


def test_those_with_json_print_in_one_way() -> None:
    for command in COMMANDS:
        text = (ROOT / "orchestrator" / "commands" / f"{command}.py").read_text()
        assert not has_json(command) or "print_found(" in text or command == "resume", command
        assert "json.dumps" not in text and ".json:" not in text, f"{command}: use common.print_found"


def paths(value: Any, at: str = "") -> Iterator[str]:
    """The paths of all that is no object and no list, such as "workers[].pid"."""
    if isinstance(value, dict) and at.rpartition(".")[2] in BY_NAME:
        yield f"{at}{{}}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for entry in value:
            yield from paths(entry, f"{at}[]")
    else:
        yield at


def documented() -> dict[str, set[str]]:
    """The paths of each command, from the page."""
    page = (ROOT / "docs" / "start.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[a-z]+.*?`) \| (.+) \|$", page.partition("## JSON")[2], re.MULTILINE)
    return {
        command: set(re.findall(r"`([^`]+)`", keys))
        for names, keys in rows
        for command in re.findall(r"`(.+?)`", names)
    }


FAILURE = Failure("r", "jobs", "n", "g0_child0_mut", "reflect", "refused", "task", 1, 1.0, 1)
ANSWER = JudgedAnswer("q1", 3, True, "4", "2 + 2?", "4", "equal")


@pytest.fixture
def folder(tmp_path: Path, simulated_farm: Bench, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A parked run with answers, in the only folder of runs; a farm with workers and a message that none can read.

    The farm has one other run, that of the driver.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, simulated_farm.url)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    output = OutputFolder(tmp_path / "outputs" / "one")
    output.run_id("evolve")
    output.write("config", (ROOT / "configs" / "embedded.config").read_text())  # whose farm is not up
    write_parked_state(output, ParkedState("refused", (FAILURE,)))
    output.write("answers.json", json.dumps([dataclasses.asdict(Comparison("test set", (ANSWER,), (ANSWER,)))]))
    simulated_farm.broker.lpush("cpu", "no message")
    until(lambda: SetAside(simulated_farm.broker).count() > 0)
    yield output.path
    SetAside(simulated_farm.broker).clear()


def test_the_keys_are_those_that_the_page_lists(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def found(*words: str) -> set[str]:
        with pytest.raises(SystemExit):
            main([*words, "--json"])
        return set(paths(json.loads(capsys.readouterr().out)))

    run = str(folder)
    keys = {
        words[0]: found(*words)
        for words in (
            ("answers", run), ("compare", run), ("doctor",), ("failed",), ("gc",), ("pause", "cpu"), ("refused",),
            ("resume", "cpu"), ("runs",), ("status", run), ("workers",),
            ("init", "--model", "embedded", "--data", "configs/data/sample_questions.jsonl", "--judge", "rules",
             "--budget", "20 evaluations", "--yes", "--no-measure"),
        )
    }  # fmt: skip
    keys["farm"] = found("farm", "status", "--set", f"FARM_DIR={folder.parent / 'farm'}") - {"processes"}
    keys["farm"] |= {f"processes[].{field.name}" for field in dataclasses.fields(ProcessStatus)}
    keys["show"] = {field.name for field in dataclasses.fields(ShownIndividual)} - {"clusters"}
    keys["show"] |= {f"clusters[].{field.name}" for field in dataclasses.fields(ClusterDelta)}
    keys["cluster"] = {"folder", *(f"clusters[].{key}" for key in get_type_hints(Description))}
    page = documented()
    page["runs"] = {f"[].{path}" for path in page["status"]}
    assert keys == {command: page[command] for command in keys}
    assert set(keys) == {command for command in COMMANDS if has_json(command)}
