"""Files of lines that several parts of a run append to; the checkpoints of collections show the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.runs.folder import OutputError, append_lines, load_lines

KIND = dict[str, Any]


def test_a_torn_line_is_dropped_from_the_file_only_to_add_to_it(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"a": 1}, {"b": "ü\u2028"}])
    path.write_bytes(path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    assert load_lines(path, KIND, "object") == [{"a": 1}, {"b": "ü\u2028"}]
    assert path.read_bytes() == before, "reading changes nothing"
    load_lines(path, KIND, "object", repair=True)
    append_lines(path, [{"c": 3}])
    assert [*load_lines(path, KIND, "object")][-1] == {"c": 3}


def test_a_broken_line_before_the_last_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "lines.jsonl").write_bytes(b'{}\n[]\n{"a": 1}\n')
    with pytest.raises(OutputError, match="line 2 is no object"):
        load_lines(path, KIND, "object")
    assert load_lines(tmp_path / "none.jsonl", KIND, "object") == []
