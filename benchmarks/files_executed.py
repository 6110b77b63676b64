"""How large the three packages are, and how many of their files one evaluation needs, in every process of a run.

`python benchmarks/files_executed.py [--tree DIR]`: of another checkout too, with that checkout's own .venv where it
has one.  Runs the smallest `orchestrator evolve` on the embedded farm (two individuals, one question; the clusters of
its vocabulary are made beforehand) with a hook in every Python process: PYTHONPATH begins with a folder whose
sitecustomize.py notes our files.

A file is *imported* when its module's body runs.  It is *executed* when a function of it, or its body as the main
program, is called while no import is in progress; what runs only because a module is being imported (decorators,
class bodies, constants) is not counted.  So a file of dataclasses without methods is imported and never executed.
"to the first fitness" counts until the driver sends its second plan: settings, farm, plan, answers, verdicts and
scores of the first population, without reflection, merge and the closing report.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from figures import table, write

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "tasks", "workers")
SMALL = {
    "DATA_PATH": str(ROOT / "configs/data/sample.jsonl"),
    "TRAINING_INDICES": "0",
    "VALIDATION_INDICES": "",
    "TARGET_MAX_NEW_TOKENS": "8",
    "POPULATION_SIZE": "2",
    "ELITISM_SIZE": "1",
    "SELECTION": "tournament",
    "TOURNAMENT_SIZE": "2",
    "NGEN": "1",
}
# Notes each file once a process, at the first function call of it, with the time.  The tracer is called for function
# calls alone (it returns None: no line is traced).  Lines are written at once, because workers end by os._exit.
HOOK = """
import os, sys, threading, time

TREE = os.environ["WHETSTONE_TREE"]
ROOTS = tuple(os.path.join(TREE, name, "") for name in ("orchestrator", "tasks", "workers"))
IMPORT = "<frozen importlib._bootstrap>"
noted = set()


def importing(frame):
    while frame is not None:
        if frame.f_code.co_filename == IMPORT:
            return True
        frame = frame.f_back
    return False


def trace(frame, event, argument):
    code = frame.f_code
    path = code.co_filename
    if path.startswith(ROOTS):
        imported = ("imported", path)
        if imported not in noted and code.co_name == "<module>":
            note(imported)
        executed = ("executed", path)
        if executed not in noted and not importing(frame):
            note(executed)


def note(line):
    noted.add(line)
    text = "\\t".join((repr(time.time()), " ".join(sys.orig_argv), *line)) + "\\n"
    with open(os.path.join(os.environ["WHETSTONE_NOTES"], str(os.getpid())), "a") as out:
        out.write(text)


threading.settrace(trace)
sys.settrace(trace)
"""
# What a process is, by its command line, in the order in which a run needs them.
KINDS = (
    ("workers.embedded.supervisor", "supervisor"),
    ("tasks.gpu.clustering", "clustering"),
    ("workers.embedded.target", "target server"),
    ("workers.embedded.endpoint", "endpoint"),
    ("workers gpu", "gpu worker"),
    ("workers openai", "openai worker"),
    ("workers cpu", "cpu worker"),
    ("orchestrator evolve", "orchestrator"),
)


@dataclass(frozen=True)
class Note:
    """That a process of a kind imported or executed a file; `at` in seconds since 1970."""

    at: float
    process: str
    what: str
    path: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to count (default: this one)")
    parser.add_argument("--files", action="store_true", help="list the executed files of each process too")
    options = parser.parse_args()
    tree = options.tree.resolve()
    sizes = {package: size(tree, package) for package in PACKAGES}
    sizes["all"] = size(tree, *PACKAGES)
    print(table(["package", "modules", "median lines", "under 60 lines", "lines", "import lines"],
                [[name, *map(str, row)] for name, row in sizes.items()]))  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="files-") as folder:
        notes, first_fitness = run(tree, Path(folder))
    counts = count(notes, first_fitness)
    print()
    print(table(["process", "imported", "executed", "executed to the first fitness"],
                [[name, *map(str, row)] for name, row in counts.items()]))  # fmt: skip
    if options.files:
        for process, files in grouped(notes, "executed", first_fitness).items():
            print(f"\n{process}", *sorted(files), sep="\n    ")
    head = ("imported", "executed", "executed_to_first_fitness")
    columns = ("modules", "median_lines", "under_60_lines", "lines", "import_lines")
    write(
        "files_executed" if tree == ROOT else f"files_executed_{tree.name}",
        {
            "commit": commit_of(tree),
            "packages": {name: dict(zip(columns, row, strict=True)) for name, row in sizes.items()},
            "processes": {name: dict(zip(head, row, strict=True)) for name, row in counts.items()},
        },
    )


def commit_of(tree: Path) -> str:
    """The short hash of the commit that is checked out; "" outside a repository."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def size(tree: Path, *packages: str) -> tuple[int, float, int, int, int]:
    """Modules (but for __init__.py), their median length, those under 60 lines; all lines and all lines of imports."""
    files = [path for package in packages for path in sorted((tree / package).rglob("*.py"))]
    texts = {path: path.read_text() for path in files}
    lengths = [len(text.splitlines()) for path, text in texts.items() if path.name != "__init__.py"]
    return (
        len(lengths),
        statistics.median(lengths),
        sum(length < 60 for length in lengths),
        sum(len(text.splitlines()) for text in texts.values()),
        sum(map(import_lines, texts.values())),
    )


def import_lines(text: str) -> int:
    """Lines that import statements take, those within functions and `if TYPE_CHECKING` among them."""
    statements = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom))
    return len({line for node in statements for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)})


def run(tree: Path, folder: Path) -> tuple[list[Note], float]:
    """One small evolution of `tree`.  Returns: what its processes noted, and when its first fitness was known."""
    hook, notes = folder / "hook", folder / "notes"
    hook.mkdir()
    notes.mkdir()
    (hook / "sitecustomize.py").write_text(HOOK)
    own = tree / ".venv/bin/python"
    python = str(own) if own.exists() else sys.executable
    output = folder / "output"
    chosen = {**SMALL, "FARM_DIR": str(folder / "farm"), "CLUSTERS_DIR": str(folder / "clusters")}
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    config = ["--config", str(tree / "configs/embedded.config"), *sets]
    plain = {**os.environ, "PYTHONPATH": str(tree)}
    hooked = {
        **plain,
        "PYTHONPATH": os.pathsep.join([str(hook), str(tree)]),
        "WHETSTONE_TREE": str(tree),
        "WHETSTONE_NOTES": str(notes),
    }
    for command, environment in (
        (["cluster"], plain),
        (["evolve", "--output", str(output), "--plain"], hooked),
    ):
        done = subprocess.run(
            [python, "-m", "orchestrator", *command, *config],
            cwd=tree, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stdout)
    lines = [line.split("\t") for path in notes.iterdir() for line in path.read_text().splitlines()]
    found = [Note(float(at), kind(line), what, str(Path(path).relative_to(tree))) for at, line, what, path in lines]
    return found, second_plan(output / "run.log")


def kind(command_line: str) -> str:
    return next((name for words, name in KINDS if words in command_line), "other")


def second_plan(log: Path) -> float:
    """When the driver sent the children of the first generation, in seconds since 1970, by the run's log."""
    line = next(line for line in log.read_text().splitlines() if "g0_child" in line)
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").timestamp()


def grouped(notes: Iterable[Note], what: str, until: float = float("inf")) -> dict[str, set[str]]:
    """The files of each kind of process, those of `orchestrator` first."""
    found: dict[str, set[str]] = defaultdict(set)
    for note in notes:
        if note.what == what and note.at <= until:
            found[note.process].add(note.path)
    return {name: found[name] for name in [*(name for _, name in reversed(KINDS)), "other"] if name in found}


def count(notes: Sequence[Note], first_fitness: float) -> dict[str, tuple[int, int, int]]:
    """Files of each kind of process, and of all, each file once: imported, executed, executed to the first fitness."""
    columns = [
        grouped(notes, "imported"), grouped(notes, "executed"), grouped(notes, "executed", first_fitness)
    ]  # fmt: skip
    rows = {name: tuple(len(column.get(name, ())) for column in columns) for name in columns[0]}
    rows["all, each file once"] = tuple(len(set().union(*column.values())) for column in columns)
    return rows  # type: ignore[return-value]  # one number a column, and there are three


if __name__ == "__main__":
    main()
