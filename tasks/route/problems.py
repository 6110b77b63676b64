"""Programming problems: a text, a function to write, tests, and a reference solution; JSONL, one problem a line.

A problem belongs to one part: `train`, `pairs` (authored pairs), `pool` (teacher rows) or `evaluation`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from annotated_types import Ge, Le, MinLen

from tasks.common.validation import InvalidData, parse_json
from tasks.dataset import DatasetError, malformed

T = TypeVar("T")


def parse_lines(
    text: str,
    name: str,
    kind: type[T],
    unique: Sequence[str],
    faults_of: Callable[[T], Iterable[str]],
) -> list[T]:
    """The objects, in the order of the lines; `name` is that of the file.  Blank lines are passed over.

    unique: fields whose value no earlier line may have; faults_of: what else is wrong with an object.
    """
    found: list[T] = []
    bad: list[str] = []
    seen: dict[tuple[str, Any], int] = {}
    for number, line in enumerate(text.encode().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            one = parse_json(kind, line)
        except InvalidData as error:
            bad.append(f"line {number}: {error}")
            continue
        faults = list(faults_of(one))
        for field in unique:
            earlier = seen.setdefault((field, getattr(one, field)), number)
            if earlier != number:
                faults.append(f"{field} is that of line {earlier}")
        if faults:
            bad.append(f"line {number}: {'; '.join(faults)}")
        found.append(one)
    if bad:
        raise malformed(name, bad)
    return found


Part = Literal["train", "pairs", "pool", "evaluation"]
Text = Annotated[str, MinLen(1)]
_BLOCK = re.compile(r"^```(?:python|py)?[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
LEVELS = (1, 2, 3, 4)
EXAMPLES = 2
"""Tests that the prompt shows: the first ones."""
FEWEST_TESTS = 6
CHECKED = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True)
class Test:
    """One call: JSON values as arguments, and the JSON value that a right function returns."""

    __test__: ClassVar[bool] = False  # pytest takes classes of this name for tests
    __pydantic_config__: ClassVar[dict[str, Any]] = CHECKED

    arguments: list[Any]
    expected: Any


@dataclass(frozen=True)
class Problem:
    """One problem.  `level` is 1 (a line or two) to 4 (several rules that interact)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = CHECKED

    id: Text
    part: Part
    level: Annotated[int, Ge(LEVELS[0]), Le(LEVELS[-1])]
    text: Text
    signature: Text
    """As in `double(number: int) -> int`."""
    tests: Annotated[list[Test], MinLen(FEWEST_TESTS)]
    reference: Text

    @cached_property
    def entry(self) -> str:
        """The name of the function to write."""
        return self.signature.partition("(")[0]

    @property
    def examples(self) -> list[Test]:
        """The tests that the prompt shows."""
        return self.tests[:EXAMPLES]


def parse_problems(text: str, name: str) -> list[Problem]:
    """Every problem of a file, in the order of its lines; `name` is that of the file."""
    problems = parse_lines(text, name, Problem, ("id", "text", "reference"), _faults)
    if not problems:
        raise DatasetError(f"{name}: no problems")
    return problems


def in_part(problems: Sequence[Problem], part: Part, levels: Collection[int] = LEVELS) -> list[Problem]:
    """The problems of a part and of these levels."""
    return [problem for problem in problems if problem.part == part and problem.level in levels]


def code_of(completion: str) -> str | None:
    """The content of the first closed code block that is marked as Python or not at all; None without one."""
    found = _BLOCK.search(completion.replace("\r\n", "\n"))
    return found[1] if found and found[1].strip() else None


def defined_functions(code: str) -> dict[str, ast.FunctionDef]:
    """The functions that a module defines at its top level."""
    return {node.name: node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}


def _faults(problem: Problem) -> Iterator[str]:
    """What the types of the fields do not say."""
    try:
        declared = defined_functions(f"def {problem.signature}: ...").get(problem.entry)
        if declared is None or any((declared.args.kwonlyargs, declared.args.vararg, declared.args.kwarg)):
            raise SyntaxError
        parameters = len(declared.args.args)
    except (SyntaxError, ValueError):
        yield f"signature {problem.signature!r} is not one of a plain function"
        return
    try:
        if problem.entry not in defined_functions(problem.reference):
            yield f"reference defines no function {problem.entry}"
    except (SyntaxError, ValueError) as error:
        yield f"reference is not Python: {error}"
    for index, test in enumerate(problem.tests):
        if len(test.arguments) != parameters:
            yield f"tests[{index}] has {len(test.arguments)} arguments, and the function takes {parameters}"
    calls = {json.dumps(test.arguments) for test in problem.tests}
    if len(calls) < len(problem.tests):
        yield "two tests have the same arguments"
    if len({json.dumps(test.expected) for test in problem.tests}) == 1:
        yield "all tests expect the same value"
