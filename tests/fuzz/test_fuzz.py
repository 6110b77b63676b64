"""Invalid files and arguments, random ones and those that an attacker would write: refused in a few readable lines.

A few are tried in each test run, many with `make fuzz`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from guided_world import guide_values, stage_a_row
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import cli
from orchestrator.collect.settings import read_collect_settings
from orchestrator.guide.inputs import ingest
from orchestrator.guide.settings import guide_settings_from, read_guide_settings
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import cluster_layout, read_discovered_tokens, read_population, read_sides
from orchestrator.settings.kconfig import load_settings
from tasks.questions import load_examples, read_answer_rows, read_questions
from tasks.store.address import ENVIRONMENT_VARIABLE
from tasks.tables import DatasetError

FEW: dict[str, Any] = {"max_examples": 8, "derandomize": True}
cases = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    **({} if settings.get_current_profile_name() == "fuzz" else FEW),
)
Bytes = st.SearchStrategy[bytes]
TEXT = st.text(max_size=40)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**30, -1, 0, 1e308, float("nan"), float("inf")])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
PATHS = st.sampled_from(
    ["../../x", "/etc/passwd", "a/b", "..", ".", "", "a\nb", "a\x00b", "a\x1b[31mb", "*", "whetstone:run:a", "~",
     "$HOME", "a" * 5000, "\ud800", "\u202eabc", "CON", "file:///etc/passwd", "{context}", "%s",
     "<script>alert(1)</script>"]
)  # fmt: skip
HOSTILE: st.SearchStrategy[Any] = PATHS | JSON
ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "configs" / "embedded.config").read_text()
ASSIGNED = [line for line in CONFIG.splitlines() if line.startswith("CONFIG_")]
ROW = json.loads((ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()[0])
DELTAS = dict.fromkeys("0123", 0.0)
PAIR = {"verbose_answer": "It is so.", "compressed_answer": "Yes."}
YAML_TRICKS = (b"a: &a [*a]", b"? [a, b]\n: 1\n", b"!!python/object/apply:os.system ['true']", b"a: 1\na: 2")


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part replaced or removed, or any other value."""
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(damaged(value[0])), *value[1:]]
    if not isinstance(value, dict) or not value:
        return draw(HOSTILE)
    name = draw(st.sampled_from(sorted(value)))
    if draw(st.booleans()):
        return {**value, name: draw(damaged(value[name]))}
    return {key: one for key, one in value.items() if key != name}


def written(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass") + b"\n"


def files(valid: Any) -> Bytes:
    """A valid JSON file damaged or cut short, or random bytes."""
    whole = written(valid)
    cut = st.integers(0, len(whole)).map(lambda at: whole[:at])
    return damaged(valid).map(written) | cut | st.binary(max_size=60) | JSON.map(written) | st.just(b"[" * 100_000)


def rows(valid: dict[str, Any]) -> Bytes:
    return st.lists(damaged(valid).map(written) | files(valid), min_size=1, max_size=3).map(b"".join)


def documents(name: str) -> Bytes:
    valid = yaml.safe_load((ROOT / "configs" / name).read_text())
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


def read_deltas(path: Path) -> None:
    read_population(path, cluster_layout("meaning", len(DELTAS) - 2))


def read_tickets(path: Path) -> None:
    ingest(guide_settings_from(guide_values(path.parent)))


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
        ("collect.yaml", documents("collect.yaml"), read_collect_settings, SettingsError),
        ("guide.yaml", documents("guide.yaml"), read_guide_settings, SettingsError),
    ],
)
def test_a_file_is_read_or_refused_in_readable_lines_and_stays_as_it_was(
    tmp_path: Path, name: str, contents: Bytes, read: Callable[[Path], Any], error: type[Exception]
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


# The system passes a command line without NUL, and bytes that are not UTF-8 as surrogates.
WORDS = (PATHS | TEXT).map(lambda word: "".join(c for c in word if c != "\0" and not "\ud800" <= c <= "\udc7f"))
SETTINGS = st.builds("{}={}".format, st.sampled_from(["NGEN", "CXPB", "FARM", "CONFIG_SEED", "X"]), WORDS)
FILES = {
    "broken.config": b'CONFIG_NGEN="many"\nnonsense\n',
    "rows.jsonl": b'{"question": 1}\n[]\n',
    "binary": b"\xff\0",
}
NAMES = st.sampled_from([*FILES, "folder", "run", "nothing"])
VALUES = WORDS | NAMES | SETTINGS | st.integers().map(str) | st.floats().map(str) | st.just("\udcff\udcfe")
# `flower` serves until it is stopped, whatever its arguments are.
COMMANDS = sorted(set(cli.COMMANDS) - {"flower"})


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its options and hostile values."""
    command = draw(st.sampled_from(COMMANDS))
    found = cli.orchestrator.get_command(click.Context(cli.orchestrator), command)
    assert found is not None
    words = [command]
    for parameter in draw(st.lists(st.sampled_from(found.params), max_size=4)) if found.params else []:
        choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
        value = draw(st.sampled_from(sorted(map(str, choices))) | VALUES) if choices else draw(VALUES)
        is_flag = isinstance(parameter, click.Option) and parameter.is_flag
        named = parameter.opts[:1] if isinstance(parameter, click.Option) else []
        words += [*named, *([] if is_flag else [value])]
    return words + draw(st.lists(WORDS, max_size=1))


@pytest.fixture
def place(tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent of the working folder, which has invalid files; the farm at the address has no workers."""
    here = tmp_path / "here"
    (here / "run").mkdir(parents=True)
    (here / "folder").mkdir()
    (here / "run" / "run.json").write_text(json.dumps({"id": "../../x", "kind": "evolve"}))
    for name, content in FILES.items():
        (here / name).write_bytes(content)
    monkeypatch.chdir(here)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@cases
@given(words=command_lines())
def test_no_arguments_end_in_a_traceback_or_change_a_file(place: Path, words: list[str]) -> None:
    before, raw = contents(place), (io.BytesIO(), io.BytesIO())
    out = io.TextIOWrapper(raw[0], "utf-8", "strict", write_through=True)  # refuses what a terminal cannot encode
    err = io.TextIOWrapper(raw[1], "utf-8", "backslashreplace", write_through=True)
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main(words)
    printed, said = (each.getvalue().decode() for each in raw)
    assert status in (0, 1, 2), (words, said)
    assert "Traceback" not in printed + said
    if status:
        assert printed or 1 <= len(said.splitlines()) <= 20, said
        assert all(c.isprintable() or c == "\n" for c in said), repr(said)
        assert contents(place) == before
