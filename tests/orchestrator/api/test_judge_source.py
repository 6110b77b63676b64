"""A judge of a script or a notebook becomes a module that a worker imports."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.judge_source import JudgeSourceError, judge_module
from tasks.judging.user_function import load_function

SCRIPT = """
import math as m
import re
from fractions import Fraction

MOST, UNITS = 40, {"kg": 1000.0}
NUMBER = re.compile(r"\\d+", re.IGNORECASE)
opened = open

def numbers(text: str) -> list[str]:
    return [one for one in NUMBER.findall(text) if same(one, one)]

def same(a, b):
    return Fraction(a) == Fraction(b) or bool(numbers)

def short_and_right(question: str, gold: str, answer: str, most: int = MOST) -> tuple[bool, str]:
    scaled = [m.floor(float(one) * UNITS["kg"]) for one in numbers(answer)]
    return len(answer) <= most and gold in numbers(answer), f"{len(answer)} of {most} characters, {scaled}"

def outer(limit):
    def inner(question, gold, answer):
        return len(answer) < limit
    return inner

inner = outer(3)
nameless = lambda question, gold, answer: True

def uses_a_file(question, gold, answer):
    return answer in table
"""


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The names of a script as a notebook's cell has them: its source is known, and no module holds it."""
    name = f"<cell of {request.node.name}>"
    linecache.cache[name] = (len(SCRIPT), None, SCRIPT.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__", "table": object()}
    exec(compile(SCRIPT, name, "exec"), names)
    return names


def test_the_module_judges_as_the_function_does(cell: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "judge.py"
    path.write_text(judge_module(cell["short_and_right"]))
    judge = load_function(f"{path}:short_and_right").function
    for case in (("q", "5", "It is 5 kg."), ("q", "5", "It is 6 kg."), ("q", "5", "It is 5." + "x" * 40)):
        assert judge(*case) == cell["short_and_right"](*case)
    assert judge("q", "5", "It is 5 kg.") == (True, "11 of 40 characters, [5000]")


def test_equal_functions_give_equal_texts(cell: dict[str, Any]) -> None:
    assert judge_module(cell["short_and_right"]) == judge_module(cell["short_and_right"])


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("inner", "inner uses limit of the function around it; define it at the top level"),
        ("nameless", "a lambda has no name; define the judge with def"),
        ("uses_a_file", "uses_a_file uses table, a object, which cannot be written into a file of its own"),
        ("opened", "'open' is no function with a source; put the judge into a module"),
    ],
)
def test_what_cannot_be_written_down_is_refused(cell: dict[str, Any], name: str, fault: str) -> None:
    with pytest.raises(JudgeSourceError) as refused:
        judge_module(cell[name])
    assert fault in str(refused.value)


def test_a_function_without_a_source_is_refused() -> None:
    names: dict[str, Callable[..., Any]] = {}
    exec("def judge(question, gold, answer): return True", names)
    with pytest.raises(JudgeSourceError, match="the source of judge cannot be read"):
        judge_module(names["judge"])
    with pytest.raises(JudgeSourceError, match="'partial' is no function with a source"):
        judge_module(functools.partial(print))
