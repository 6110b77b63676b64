"""The output folder of a run: what outlives Redis, written whole and checked when it is read again."""

from __future__ import annotations

import fcntl
import itertools
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NotRequired, TextIO, TypeVar

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from tasks.envelope import parse_sealed, sealed_text
from tasks.files import FileTooLarge, open_atomic, read_limited, write_atomic
from tasks.limits import HISTORY_BYTES, STATE_BYTES
from tasks.message import RunId
from tasks.validation import InvalidData, checked_json, parse_json

T = TypeVar("T")

LOCK_WAIT_S = 0.5  # longer than `orchestrator status` holds the lock of a run


class OutputError(Exception):
    """A folder that cannot be used for this run; says why in one line."""


class OutputNotWritable(OutputError):
    """The disk is full, read-only or not mounted.  Its files are complete; a run can be resumed afterwards."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around whatever writes `path`.  Raises: OutputNotWritable for every OSError."""
    try:
        yield
    except OSError as error:
        raise OutputNotWritable(f"{path} cannot be written: {error.strerror or error}") from None


def write_output(path: Path, data: bytes | str) -> None:
    """Replace a file whole (tasks/files.py).  Raises: OutputNotWritable; the old content is left."""
    with writing(path):
        write_atomic(path, data)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """As `write_output`, for content that is written piece by piece; after any exception the old content is left."""
    with writing(path), open_atomic(path) as out:
        yield out


class ScoredIndividual(TypedDict):
    node: str
    fitness: FiniteFloat
    shortness: FiniteFloat
    correctness: FiniteFloat
    mean_tokens: FiniteFloat


class WallTime(TypedDict):
    wall: FiniteFloat


class TokenCounts(TypedDict):
    target: FiniteFloat
    prompt: FiniteFloat
    cached: FiniteFloat
    completion: FiniteFloat


class EvaluationCounts(TypedDict):
    computed: int
    cached: int
    carried: int


class GenerationRecord(TypedDict):
    """A line of history.jsonl: what is read of it again."""

    generation: int
    best: FiniteFloat
    mean: FiniteFloat
    best_ever: FiniteFloat
    validation: NotRequired[dict[str, FiniteFloat]]
    population: Annotated[list[ScoredIndividual], Field(min_length=1)]
    offspring: list[ScoredIndividual]
    evaluations: EvaluationCounts
    seconds: WallTime
    tokens: TokenCounts
    calls: FiniteFloat
    answered: NotRequired[dict[str, list[str]]]
    cost_usd: FiniteFloat | None  # None: the prices are not known


class RunFile(TypedDict):
    """run.json; `kind` is one of orchestrator/runs/kinds.py."""

    id: RunId
    kind: str


# Names of a run's files.  Some come from the store, which a worker writes, and no name may lead out of the folder.
_NAME = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}/)?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,150}")


class OutputFolder:
    """The files of one run, by name.  `open` makes the folder and holds it for this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: TextIO | None = None

    # names that more than one module uses
    config = property(lambda self: self.path / "config")
    state = property(lambda self: self.path / "evolution_state.json")
    baselines = property(lambda self: self.path / "baselines.json")
    history = property(lambda self: self.path / "history.jsonl")
    tree = property(lambda self: self.path / "evolution_tree.json")
    individuals = property(lambda self: self.path / "individuals.jsonl")
    answers = property(lambda self: self.path / "answers.json")
    prompts = property(lambda self: self.path / "reflector_prompts")
    log = property(lambda self: self.path / "run.log")

    def open(self) -> None:
        """Make the folder and keep other runs out of it.

        Raises: OutputError when another run is in it, or a link in it leads out of it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_links()
            self._lock = (self.path / ".lock").open("a+")
            _hold(self._lock)
        except BlockingIOError:
            raise OutputError(f"{self.path} is in use by another run; wait for it, or give another --output") from None
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}") from None

    def _refuse_links(self) -> None:
        inside = self.path.resolve()
        for entry in (*self.path.iterdir(), *self.prompts.glob("*")):
            if entry.is_symlink() and not entry.resolve().is_relative_to(inside):
                raise OutputError(f"{entry} is a link that leads out of the folder; nothing is written through it")

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def run_id(self, kind: str) -> str:
        """The id of this folder's run, made at its first start.

        Raises: OutputError for a run of another kind.
        """
        path = self.path / "run.json"
        if path.exists():
            known = run_file(self.path)
            if known["kind"] != kind:
                raise OutputError(f"{self.path} holds a run of {known['kind']!a}; give another folder")
            return known["id"]
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.path.resolve().name)[:40] or "run"
        run_id = f"{stem}-{secrets.token_hex(4)}"
        self.write_state("run.json", RunFile(id=run_id, kind=kind))
        return run_id

    def rotate(self) -> Path | None:
        """Move the run that is here to `<name>.1`, `<name>.2`, ...  Raises: OutputError when a process works on it."""
        if not (self.path / "run.json").exists():
            return None
        self.open()  # such a process would write its next files into the new folder
        asides = (self.path.with_name(f"{self.path.name}.{number}") for number in itertools.count(1))
        try:
            return self.path.rename(next(path for path in asides if not path.exists()))
        finally:
            self.close()

    def write(self, name: str, data: bytes | str) -> None:
        """Write one of the run's files.  Raises: OutputError for a name that is none, OutputNotWritable."""
        if not _NAME.fullmatch(name):
            raise OutputError(f"{name!a} is no name of a file in {self.path}")
        write_output(self.path / name, data)

    def write_json(self, name: str, value: Any) -> None:
        self.write(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def write_state(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file that the program reads again, with version and checksum (tasks/envelope.py)."""
        self.write(name, sealed_text(content))

    def remove(self, name: str) -> None:
        """Remove one of the run's files, if it is there.  Raises: OutputNotWritable."""
        path = self.path / name
        with writing(path):
            path.unlink(missing_ok=True)

    def read_history(self) -> list[dict[str, Any]]:
        """The generations so far; a last line that a kill cut short is left out."""
        return read_history(self.history)

    def write_history(self, generations: Iterable[dict[str, Any]]) -> None:
        self.write("history.jsonl", "".join(json.dumps(g) + "\n" for g in generations))


def _hold(lock: TextIO) -> None:
    """Raises: BlockingIOError when another process holds it, and not only to see whether it is held."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(LOCK_WAIT_S / 20)  # flock waits for ever or not at all


def check_inputs(option: str, output: Path, inputs: Mapping[str, Path]) -> None:
    """Whether a file to write is none that is read, by its path, by a link or by a hard link.  `inputs` have names.

    Raises: OutputError.
    """
    for name, path in inputs.items():
        try:
            is_same = output.samefile(path)
        except OSError:  # one of them is not there yet
            is_same = output.resolve() == path.resolve()
        if is_same:
            raise OutputError(f"{option}: {output} is the same file as {name}, which it would overwrite")


def run_id_of(folder: Path) -> str:
    """The id of the run in a folder.  Raises: OutputError when the folder holds none."""
    return run_file(folder)["id"]


def run_file(folder: Path) -> RunFile:
    """What names the run in a folder.  Raises: OutputError when the folder holds no run."""
    try:
        return read_state(folder / "run.json", RunFile)
    except FileNotFoundError:
        raise OutputError(f"{folder} holds no run (there is no run.json in it)") from None


def read_json(path: Path, kind: type[T], parse: Callable[[type[T], bytes], T] = parse_json) -> T:
    """What a JSON file holds, as a value of this type (see `parse_json` and `checked_json`).

    Raises: FileNotFoundError; OutputError, with file, place and fault in one line, for everything else.
    """
    try:
        return parse(kind, read_limited(path, STATE_BYTES))
    except FileNotFoundError:
        raise
    except (OSError, InvalidData, FileTooLarge) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None


def read_state(path: Path, kind: type[T], remedy: str = "", parse: Callable[[type[T], bytes], T] = parse_sealed) -> T:
    """What a file that `write_state` has written holds, as a value of this type.

    `remedy` is what a person can do about a file that cannot be used.  Raises: FileNotFoundError; OutputError.
    """
    try:
        return read_json(path, kind, parse)
    except OutputError as error:
        raise OutputError(f"{error}; {remedy}" if remedy else str(error)) from None


def read_history(path: Path) -> list[dict[str, Any]]:
    """Raises: OutputError for a line that is no generation, but for a last one that was cut short."""
    try:
        whole, _, _ = read_limited(path, HISTORY_BYTES).rpartition(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from None
    except FileTooLarge as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    generations: list[dict[str, Any]] = []
    for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
        try:
            generations.append(checked_json(GenerationRecord, line))
        except InvalidData as error:
            raise OutputError(f"{path}: line {number} is no generation: {error}") from None
    return generations
