"""Files of a user: any content is read or gives an error of a few readable lines, and the file stays as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz_cases import HOSTILE, TEXT, cases, damaged, files, written
from guided_world import guide_values, stage_a_row
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.collect.settings import read_collect_settings
from orchestrator.guide.inputs import ingest
from orchestrator.guide.settings import guide_settings_from, read_guide_settings
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import cluster_layout, read_discovered_tokens, read_population, read_sides
from orchestrator.settings.kconfig import load_settings
from tasks.questions import load_examples, read_answer_rows, read_questions
from tasks.tables import DatasetError

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "configs" / "embedded.config").read_text()
ASSIGNED = [line for line in CONFIG.splitlines() if line.startswith("CONFIG_")]
ROW = json.loads((ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()[0])
IDS = tuple(str(i) for i in range(4))
DELTAS = dict.fromkeys(IDS, 0.0)
LAYOUT = cluster_layout("meaning", len(IDS) - 2)
PAIR = {"verbose_answer": "It is so.", "compressed_answer": "Yes."}
YAML_TRICKS = (b"a: &a [*a]", b"? [a, b]\n: 1\n", b"!!python/object/apply:os.system ['true']", b"a: 1\na: 2")


def read_deltas(path: Path) -> None:
    read_population(path, LAYOUT)


def read_tickets(path: Path) -> None:
    ingest(guide_settings_from(guide_values(path.parent)))


def rows(valid: dict[str, Any]) -> st.SearchStrategy[bytes]:
    return st.lists(damaged(valid).map(written) | files(valid), min_size=1, max_size=3).map(b"".join)


def documents(valid: Any) -> st.SearchStrategy[bytes]:
    texts = damaged(valid).map(yaml.safe_dump).map(lambda text: text.encode("utf-8", "surrogatepass"))
    return texts | st.binary() | st.sampled_from(YAML_TRICKS)


@st.composite
def configs(draw: st.DrawFn) -> bytes:
    """A .config with one hostile value, or lines of one among others."""
    if draw(st.booleans()):
        return "\n".join(draw(st.lists(st.sampled_from(ASSIGNED) | TEXT))).encode()
    line, value = draw(st.sampled_from(ASSIGNED)), str(draw(HOSTILE)).replace("\n", " ")
    quoted = f'"{value}"' if draw(st.booleans()) else value
    return CONFIG.replace(line, f"{line.partition('=')[0]}={quoted}").encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    ("name", "contents", "read", "error"),
    [
        ("x.config", configs(), load_settings, SettingsError),
        ("questions.jsonl", rows(ROW), load_examples, DatasetError),
        ("table.jsonl", rows({"id": "a", "question": "q", "answer": "a"}), read_questions, DatasetError),
        ("rows.jsonl", rows({"question": "q", "gold": "g", "answer": "a"}), read_answer_rows, DatasetError),
        ("deltas.json", files(DELTAS), read_deltas, ValueError),
        ("deltas.json", files([DELTAS, {"deltas": DELTAS, "scratchpad": "s"}]), read_deltas, ValueError),
        ("phase0.json", files({"token_selection": {"v_steer_token_ids": [1, 2]}}), read_discovered_tokens, ValueError),
        ("phase0.json", files({"splits": {"train": [{"retained_pairs": [PAIR]}]}}), read_sides, ValueError),
        ("tickets.jsonl", rows(stage_a_row("t1")), read_tickets, SettingsError),
        ("collect.yaml", documents(yaml.safe_load((ROOT / "configs" / "collect.yaml").read_text())),
         read_collect_settings, SettingsError),
        ("guide.yaml", documents(yaml.safe_load((ROOT / "configs" / "guide.yaml").read_text())),
         read_guide_settings, SettingsError),
    ],
)  # fmt: skip
def test_a_file_is_read_or_refused_in_readable_lines(
    tmp_path: Path,
    name: str,
    contents: st.SearchStrategy[bytes],
    read: Callable[[Path], Any],
    error: type[Exception],
) -> None:
    path = tmp_path / name

    @cases
    @given(contents)
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read(path)
        except error as refused:
            lines = str(refused).splitlines()
            assert 1 <= len(lines) <= 130 and all(len(line) < 700 for line in lines), str(refused)[:2000]
        assert path.read_bytes() == content

    check()
