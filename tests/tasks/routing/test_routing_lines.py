"""Every bad line of a file is told at once, with its number."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tasks.dataset import DatasetError
from tasks.routing.lines import numbered_lines, parse_lines


@dataclass(frozen=True)
class Named:
    name: str
    size: int


def small(one: Named) -> list[str]:
    return ["it is large"] if one.size > 9 else []


def test_objects_come_in_the_order_of_their_lines() -> None:
    lines = [(1, b'{"name": "b", "size": 1}'), (3, b'{"name": "a", "size": 1}')]
    assert [one.name for one in parse_lines(lines, "f", Named, ("name",), small)] == ["b", "a"]


def test_blank_lines_count_and_are_left_out() -> None:
    assert list(numbered_lines("a\n \r\nb")) == [(1, b"a"), (3, b"b")]


def test_all_bad_lines_are_told_by_number() -> None:
    text = '{"name": "a", "size": 1}\n{"name": "a", "size": 10}\nno JSON'
    with pytest.raises(DatasetError) as raised:
        parse_lines(numbered_lines(text), "things.jsonl", Named, ("name",), small)
    said = str(raised.value)
    assert "line 2: it is large; name is that of line 1" in said and "line 3: " in said and "things.jsonl" in said
