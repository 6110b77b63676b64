"""From YAML or JSON to frozen dataclasses: everything that is wrong is reported at once, by dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import Document, Text, read_document


@dataclass(frozen=True)
class Inner(Document):
    low: StrictFloat
    high: StrictFloat
    on: StrictBool = True


@dataclass(frozen=True)
class Outer(Document):
    name: Text
    count: Annotated[StrictInt, Field(ge=1, lt=10)]
    limit: Annotated[StrictFloat, Field(gt=0)] | None
    inner: Inner


def low_before_high(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "inner.low" in values and "inner.high" in values and values["inner.low"] > values["inner.high"]:
        yield "inner.low", "is more than inner.high"


def read(folder: Path, text: str, suffix: str = "yaml") -> Outer:
    path = folder / f"document.{suffix}"
    path.write_text(text)
    return read_document(path, Outer, [low_before_high])


def problems(folder: Path, text: str, suffix: str = "yaml") -> list[str]:
    with pytest.raises(SettingsError) as refused:
        read(folder, text, suffix)
    return list(refused.value.problems)


def test_both_formats_give_the_same_document(tmp_path: Path) -> None:
    expected = Outer("a", 3, None, Inner(0.001, 2.0))
    assert read(tmp_path, '{"name": "a", "count": 3, "limit": null, "inner": {"low": 1e-3, "high": 2}}', "json") == (
        expected
    )
    assert read(tmp_path, "name: a\ncount: 3\nlimit: null\ninner:\n  low: 0.001\n  high: 2\n") == expected


def test_everything_is_reported_at_once_in_the_order_of_the_fields(tmp_path: Path) -> None:
    text = "inner: {low: x, high: 2.0, extra: 1, 7: x}\ncount: 10\nlimit: 0\nother: 1\n"
    named = [line.partition(":")[0] for line in problems(tmp_path, text)]
    assert named == ["name", "count", "limit", "inner.low", "inner.extra", "inner.7", "other"]
    assert problems(tmp_path, "name: a\ncount: 0\nlimit: 1\ninner: {low: 3, high: 2}\n") == [
        "count: 0 must be at least 1",
        "inner.low: is more than inner.high",
    ]


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('{"name": "a", "count": 1, "limit": 1, "inner": {"low": 1, "high": 2, "high": 3}}', "json"),
        ("name: a\ncount: 1\nlimit: 1\ninner: {low: 1, high: 2, high: 3}\n", "yaml"),
    ],
)
def test_a_key_that_is_repeated_is_named(tmp_path: Path, text: str, suffix: str) -> None:
    [line] = problems(tmp_path, text, suffix)
    assert "'high' occurs twice" in line


def test_a_key_that_overrides_a_merged_one_is_no_repetition(tmp_path: Path) -> None:
    text = "name: a\ncount: 1\nlimit: 1\ninner:\n  <<: {low: 1, high: 2}\n  low: 0\n"
    assert read(tmp_path, text).inner == Inner(0.0, 2.0)


@pytest.mark.parametrize(("text", "suffix"), [("{", "json"), ("[" * 100_000, "json"), (": :", "yaml")])
def test_what_cannot_be_parsed_is_one_line(tmp_path: Path, text: str, suffix: str) -> None:
    [line] = problems(tmp_path, text, suffix)
    assert line.startswith(f"{tmp_path / 'document'}.{suffix}: not {suffix.upper()}: ") and "\n" not in line
