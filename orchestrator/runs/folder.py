"""The output folder of a run: what outlives Redis, written whole and checked when it is read again.

Files that grow have lines of JSON, each synced to disk: whatever a kill or a power cut left, whole lines are read.
"""

from __future__ import annotations

import datetime
import fcntl
import itertools
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NotRequired, TypeVar

from typing_extensions import TypedDict

from orchestrator.console import command_line
from tasks.common.files import NO_ROOM, open_regular, write_atomic
from tasks.common.text import escape_control
from tasks.common.validation import InvalidData, RunId, checked_json, parse_json

T = TypeVar("T")

RUN_FILE = "run.json"
LOCK = ".lock"
LOCK_WAIT_S = 0.5  # longer than `orchestrator status` holds the lock of a run
LONGEST_HOLDER = 200  # characters


class OutputError(Exception):
    """A folder that cannot be used for this run; says why in one line."""


class RunInUse(OutputError):
    """Another process works on the run; nothing was changed."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(
            f"{folder} is in use: {owner} works on this run; wait for it, stop it with "
            f"`{command_line('cancel', folder)}`, or give another output folder"
        )


class OutputNotWritable(OutputError):
    """The disk is full (`is_full`), read-only or not mounted.  Its files are complete; a run can be resumed."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


class RunFile(TypedDict):
    """run.json; `kind` is one of orchestrator/runs/kinds.py, `folder` the output folder: a copy has another one."""

    id: RunId
    kind: str
    folder: NotRequired[str]


# Some names come from the store, which a worker writes, and none may lead out of the folder.
_NAME = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}/){0,2}[A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}")


class OutputFolder:
    """The files of one run, by name.  `open` makes the folder and holds it for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BinaryIO | None = None

    # names that more than one module uses
    config = property(lambda self: self.path / "config")
    state = property(lambda self: self.path / "evolution_state.json")
    history = property(lambda self: self.path / "history.jsonl")
    individuals = property(lambda self: self.path / "individuals.jsonl")
    answers = property(lambda self: self.path / "answers.json")
    prompts = property(lambda self: self.path / "reflector_prompts")
    log = property(lambda self: self.path / "run.log")

    def open(self) -> None:
        """Make the folder and keep other runs out of it."""
        if self._lock is not None:
            return
        try:
            while self._lock is None:
                self.path.mkdir(parents=True, exist_ok=True)
                # The owner could replace each file, and see all that is written; a folder of root's is the machine's.
                if (owner := self.path.stat().st_uid) not in (os.getuid(), 0):
                    raise OutputError(f"{self.path} belongs to another user ({owner}); give another output folder")
                self._lock = lock_folder(self.path)
        except BlockingIOError:
            raise RunInUse(self.path, holder_of(self.path)) from None
        except OSError as error:
            if error.errno in NO_ROOM:
                raise _not_writable(self.path, error) from None
            raise OutputError(f"{self.path}: {error.strerror}") from None

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def holds_run(self) -> bool:
        return (self.path / RUN_FILE).exists()

    def check_kind(self, kind: str) -> None:
        """Before anything is written into the folder."""
        if self.holds_run and (other := run_file(self.path)["kind"]) != kind:
            raise OutputError(f"{self.path} holds a run of {other!a}; give another folder")

    def run_id(self, kind: str) -> str:
        """The id of this folder's run, made at its first start.  A folder that was moved keeps it."""
        here = self.path.resolve()
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", here.name)[:40] or "run"
        self.check_kind(kind)
        run_id = own_run_id(self.path) if self.holds_run else f"{stem}-{secrets.token_hex(4)}"
        self.write_json(RUN_FILE, RunFile(id=run_id, kind=kind, folder=str(here)))
        return run_id

    def rotate(self) -> Path | None:
        """Move the run that is here to `<name>.1`, `<name>.2`, ..., and open the new folder."""
        if not self.holds_run:
            return None
        self.open()
        asides = (self.path.with_name(f"{self.path.name}.{number}") for number in itertools.count(1))
        with writing(self.path):
            aside = self.path.rename(next(path for path in asides if not path.exists()))
        moved, self._lock = self._lock, None
        try:
            self.open()
        finally:
            if moved is not None:
                moved.close()  # not earlier: a process that waits for it finds that the folder was moved
        return aside

    def write(self, name: str, data: bytes | str) -> None:
        """Write one of the run's files."""
        if not _NAME.fullmatch(name):
            raise OutputError(f"{name!a} is no name of a file in {self.path}")
        write_output(self.path / name, data)

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def remove(self, name: str) -> None:
        """Remove one of the run's files, if it is there."""
        path = self.path / name
        with writing(path):
            path.unlink(missing_ok=True)


# What is read, and what is written.


def run_file(folder: Path) -> RunFile:
    """What names the run in a folder."""
    try:
        return read_json(folder / RUN_FILE, RunFile)
    except FileNotFoundError:
        raise OutputError(f"{folder} holds no run (there is no run.json in it)") from None


def own_run_id(folder: Path) -> str:
    """The id of the run in a folder, for what is done to the run: refused for a copy of its folder."""
    known = run_file(folder)
    original = Path(known.get("folder", folder))
    if (original / RUN_FILE).exists() and run_file(original)["id"] == known["id"] and not original.samefile(folder):
        raise OutputError(
            f"{folder} is a copy of {original}, where the run goes on; `evolve --fork` begins another one"
        )
    return known["id"]


def read_json(path: Path, kind: type[T], remedy: str = "", parse: Callable[[type[T], bytes], T] = parse_json) -> T:
    """A JSON file as a value of this type; `remedy` is what a person can do about one that cannot be used."""
    try:
        return parse(kind, path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, InvalidData) as error:
        raise OutputError(f"{path} cannot be read: {error}" + (remedy and f"; {remedy}")) from None


def find_json(
    path: Path, kind: type[T], remedy: str = "", parse: Callable[[type[T], bytes], T] = parse_json
) -> T | None:
    """As `read_json`; None where there is no file."""
    try:
        return read_json(path, kind, remedy, parse)
    except FileNotFoundError:
        return None


def read_output_text(path: Path) -> str:
    """The text of a file; what is no UTF-8 in it is replaced."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def load_lines(
    path: Path, kind: Any, name: str, *, repair: bool = False, is_whole: bool = False
) -> list[dict[str, Any]]:
    """The lines of a file, none where there is no file; `kind` is their type, `name` says what a line is.

    A last line that was cut short is dropped; with `repair` from the file as well, so that it can be added to; with
    `is_whole` it is refused.
    """
    try:
        raw = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    whole, _, torn = raw.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    found = list[dict[str, Any]]()
    for number, line in enumerate(lines, start=1):
        try:
            found.append(checked_json(kind, line))
        except InvalidData as error:
            if number < len(lines) or not repair:
                raise OutputError(f"{path}: line {number} is no {name}: {error}; correct it or remove it") from None
            torn = line  # a power cut may leave a line of zeros with its end
    if torn and is_whole:
        raise OutputError(f"{path}: the last line is no {name}; correct it or remove it")
    if torn and repair:
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines[: len(found)]))
            os.fsync(file.fileno())
    return found


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines; when this returns, a power cut does not take them away."""
    with writing(path), path.open("ab") as file:
        file.writelines(map(json_line, lines))
        file.flush()
        os.fsync(file.fileno())


def json_line(value: Mapping[str, Any]) -> bytes:
    """A value as one line of JSON in UTF-8, where half of a pair of UTF-16 is a question mark."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around whatever writes `path`."""
    try:
        yield
    except OSError as error:
        raise _not_writable(path, error) from None


def _not_writable(path: Path, error: OSError) -> OutputNotWritable:
    said = f"{path} cannot be written: {error.strerror or error}"
    return OutputNotWritable(said, is_full=error.errno in NO_ROOM)


def write_output(path: Path, data: bytes | str) -> None:
    """Replace a file whole."""
    with writing(path):
        write_atomic(path, data)


def check_inputs(option: str, output: Path, inputs: Mapping[str, Path]) -> None:
    """Whether a file to write is none that is read, by its path, by a link or by a hard link.  `inputs` have names."""
    for name, path in inputs.items():
        if output.resolve() == path.resolve() or (output.exists() and path.exists() and output.samefile(path)):
            raise OutputError(f"{option}: {output} is the same file as {name}, which it would overwrite")


# The lock.


def is_locked(folder: Path) -> bool:
    """Whether a process works on the run now."""
    path = folder / LOCK
    try:
        with open_regular(path) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise OutputError(f"{path} cannot be read, so whether a process works on the run is unknown: {error}") from None
    return False


def lock_folder(folder: Path) -> BinaryIO | None:
    """The folder's lock, held, with a line that says by which process; None when the folder was moved meanwhile."""
    path, until = folder / LOCK, time.monotonic() + LOCK_WAIT_S
    lock = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        while not _is_taken(lock, until):
            time.sleep(LOCK_WAIT_S / 20)  # flock waits for ever or not at all
        if not path.exists() or not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            lock.close()
            return None
        with suppress(OSError):  # a full disk; without a buffer, which would be written again when the file is closed
            now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            os.truncate(lock.fileno(), 0)
            os.write(lock.fileno(), f"process {os.getpid()} on host {socket.gethostname()} (since {now})\n".encode())
    except BaseException:
        lock.close()
        raise
    return lock


def _is_taken(lock: BinaryIO, until: float) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if time.monotonic() > until:
            raise
        return False
    return True


def holder_of(folder: Path) -> str:
    """Which process holds the folder's lock, as it has written there."""
    with suppress(OSError):
        return escape_control((folder / LOCK).read_text(errors="replace").strip()[:LONGEST_HOLDER]) or "another process"
    return "another process"
