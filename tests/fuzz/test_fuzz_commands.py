"""The command line: invalid arguments give an exit status and a few lines, never a traceback, and change no file."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click
import pytest
from fuzz_cases import PATHS, TEXT, cases
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import cli
from tasks.store.address import ENVIRONMENT_VARIABLE

# `flower` serves until it is stopped, whatever its arguments are.
COMMANDS = sorted(set(cli.COMMANDS) - {"flower"})
# The system passes a command line without NUL, and bytes that are not UTF-8 as surrogates.
WORDS = (PATHS | TEXT).map(lambda word: "".join(c for c in word if c != "\0" and not "\ud800" <= c <= "\udc7f"))
SETTINGS = st.builds("{}={}".format, st.sampled_from(["NGEN", "CXPB", "FARM", "CONFIG_SEED", "X"]), WORDS)
FILES = st.sampled_from(["broken.config", "folder", "rows.jsonl", "run", "nothing", "binary"])
VALUES = WORDS | FILES | SETTINGS | st.integers().map(str) | st.floats().map(str) | st.just("\udcff\udcfe")


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its options and hostile values."""
    command = draw(st.sampled_from(COMMANDS))
    context = click.Context(cli.orchestrator)
    found = cli.orchestrator.get_command(context, command)
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
def place(tmp_path: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with invalid files, and the address of a farm without workers."""
    (tmp_path / "here" / "run").mkdir(parents=True)
    (tmp_path / "here" / "folder").mkdir()
    (tmp_path / "here" / "run" / "run.json").write_text(json.dumps({"id": "../../x", "kind": "evolve"}))
    (tmp_path / "here" / "broken.config").write_text('CONFIG_NGEN="many"\nnonsense\n')
    (tmp_path / "here" / "rows.jsonl").write_text('{"question": 1}\n[]\n')
    (tmp_path / "here" / "binary").write_bytes(b"\xff\xfe\x00")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, valkey_url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def orchestrate(place: Path) -> Callable[[list[str]], tuple[int, str, str]]:
    """Run a command in this process; its output refuses what a terminal cannot encode."""

    def run(words: list[str]) -> tuple[int, str, str]:
        raw = io.BytesIO(), io.BytesIO()
        out = io.TextIOWrapper(raw[0], "utf-8", "strict", write_through=True)
        err = io.TextIOWrapper(raw[1], "utf-8", "backslashreplace", write_through=True)
        with redirect_stdout(out), redirect_stderr(err):
            status = cli.main(words)
        return status, raw[0].getvalue().decode(), raw[1].getvalue().decode()

    return run


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@cases
@given(words=command_lines())
def test_no_arguments_end_in_a_traceback(place: Path, orchestrate: Any, words: list[str]) -> None:
    before = contents(place)

    status, out, err = orchestrate(words)

    assert status in (0, 1, 2), (words, err)
    assert "Traceback" not in out + err
    if status:
        assert out or 1 <= len(err.splitlines()) <= 20, err
        assert all(c.isprintable() or c == "\n" for c in err), repr(err)
        assert contents(place) == before
