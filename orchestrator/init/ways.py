"""The three ways to begin, for `orchestrator evolve` without a .config: asked at a terminal, an error elsewhere."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.farm.compose import unused_reason
from orchestrator.init.asking import WrongAnswer, ask, can_ask, confirm
from orchestrator.settings import SettingsError
from orchestrator.shell import command_line

CONFIGS = Path("configs")
EMBEDDED = CONFIGS / "cma.config"


def begin(missing: Path) -> Path | None:
    """The settings to run with, in place of those that are missing; None where nothing is to be started now.

    Raises: SettingsError where nobody can be asked; NoAnswer; what `initialise` of `orchestrator init` raises.
    """
    if not can_ask():
        raise SettingsError(_error_lines(missing))
    print(f"There is no {missing} here.  Three ways to begin:\n")
    if reason := unused_reason(Path.cwd()):
        print(f"  ({reason})\n")
    for line in _ways():
        print(f"  {line}")
    choice = ask("\n1, 2 or 3", _way, "1" if EMBEDDED.is_file() else "2")
    if choice == 1:
        return EMBEDDED
    if choice == 2:
        return _answered(missing)
    return _edited(missing)


def _ways() -> Sequence[str]:
    return (
        "1  run the embedded default: a small model on this machine, some minutes, free",
        "2  answer four questions (model, questions, judge, budget), as `orchestrator init` asks them",
        "3  start from a complete file, and edit it in a menu, as `make menuconfig` does",
    )


def _error_lines(missing: Path) -> list[str]:
    default = command_line("evolve", "--config", EMBEDDED)
    return [
        f"{missing}: cannot be read: there is no such file.  Three ways to begin:",
        f"  {default}   the embedded default: a small model on this machine, free",
        f"  {'orchestrator init':<{len(default)}}   four questions, then a complete {missing}",
        f"  {'make menuconfig':<{len(default)}}   every option; {CONFIGS}/ has complete files to copy to {missing}",
        *filter(None, [unused_reason(Path.cwd())]),
    ]


def _answered(target: Path) -> Path | None:
    from orchestrator.commands import init

    if init.initialise(init.make_parser().parse_args(["--config", str(target)])):
        return None  # nobody wanted it written
    return target if confirm("start the run now?", default=True) else None


def _edited(target: Path) -> Path | None:
    """Copy one of the complete files, and open it in the menu."""
    from orchestrator.settings.__main__ import main as settings_tool

    files = sorted(CONFIGS.glob("*.config"))
    if files:
        for number, file in enumerate(files, start=1):
            print(f"  {number}  {file}: {_about(file)}")
        shutil.copyfile(files[ask("which one", _number(len(files)), "1") - 1], target)
    settings_tool(["menuconfig", "--config", str(target)])
    if not target.exists():
        return None
    return target if confirm(f"{target} is written; start the run now?", default=False) else None


def _about(file: Path) -> str:
    """The first sentence of the comment at its beginning."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), file.read_text("utf-8").splitlines())
    sentence, dot, _ = " ".join(line.removeprefix("#").strip() for line in comment).partition(". ")
    return sentence + dot.strip()


def _way(text: str) -> int:
    choice = _number(3)(text)
    if choice == 1 and not EMBEDDED.is_file():
        raise WrongAnswer(f"{EMBEDDED} is not here: change to a checkout of Whetstone, or choose 2")
    return choice


def _number(most: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        if not text.isdigit() or not 1 <= int(text) <= most:
            raise WrongAnswer(f"a number from 1 to {most}")
        return int(text)

    return check
