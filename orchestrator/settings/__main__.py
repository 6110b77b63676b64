"""`python -m orchestrator.settings`: Kconfig's tools on this project's options, and the page that documents them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kconfiglib

from orchestrator.settings.docs import document
from orchestrator.settings.kconfig import Kconfig

HELP_COLUMNS = 100  # what a line of Kconfig's help may have


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 with one line on stderr when it could not."""
    given = _parser().parse_args(arguments)
    # menuconfig and guiconfig take the file from the environment only.
    os.environ["KCONFIG_CONFIG"] = str(given.config)
    try:
        command: Callable[[argparse.Namespace], None] = given.run
        command(given)
    except (OSError, kconfiglib.KconfigError, Unavailable) as error:
        print(f"{given.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


class Unavailable(Exception):
    """What the command needs is not there."""


def menuconfig(_: argparse.Namespace) -> None:
    """Walk the options in a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Unavailable("needs a terminal; edit the file by hand, then run olddefconfig")
    try:
        import curses

        import menuconfig as terminal
    except ImportError as error:
        raise Unavailable(f"needs Python's curses ({error})") from error
    try:
        terminal.menuconfig(Kconfig())
    except curses.error as error:
        raise Unavailable(f"this terminal cannot show menus ({error}; TERM={os.environ.get('TERM', '')!r})") from error


def guiconfig(_: argparse.Namespace) -> None:
    """Walk the options in a window."""
    try:
        import tkinter

        tkinter.Tk().destroy()
        import guiconfig as window
    except ImportError as error:
        raise Unavailable(f"needs Python's tkinter ({error}); menuconfig needs only a terminal") from error
    except tkinter.TclError as error:
        raise Unavailable(f"needs a display ({error}); menuconfig needs only a terminal") from error
    window.Tk = _wide_root(tkinter.Tk)
    window.menuconfig(Kconfig())


def _wide_root(root: Any) -> Any:
    """Makes a window in which help is not cut off: kconfiglib's own has 80 columns and does not wrap."""

    def make() -> Any:
        made = root()
        made.option_add("*Text.width", HELP_COLUMNS)
        return made

    return make


def olddefconfig(given: argparse.Namespace) -> None:
    """Give new options their defaults and drop those that are gone."""
    kconfig = _load(given.config)
    print(kconfig.write_config(str(given.config)))


def savedefconfig(given: argparse.Namespace) -> None:
    """Write only what differs from the defaults."""
    if not given.config.exists():
        raise Unavailable(f"there is no {given.config}")
    print(_load(given.config).write_min_config(str(given.out)))


def page(given: argparse.Namespace) -> None:
    """Write the page of all settings."""
    given.out.write_text(document(), "utf-8")
    print(f"Settings documented in '{given.out}'")


def _load(config: Path) -> Kconfig:
    """The options as `config` has them; what Kconfig drops or replaces is told on stderr."""
    kconfig = Kconfig(warn=True)
    kconfig.warn_to_stderr = False
    kconfig.warn_assign_undef = True
    print(kconfig.load_config(str(config) if config.exists() else None))
    for symbol in kconfig.unique_defined_syms:
        _ = symbol.str_value  # what is out of range shows only when it is asked for
    for warning in kconfig.warnings:
        print(" ".join(warning.split()), file=sys.stderr)
    return kconfig


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orchestrator.settings", description="Edit and document settings.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, out in (
        ("menuconfig", menuconfig, None),
        ("guiconfig", guiconfig, None),
        ("olddefconfig", olddefconfig, None),
        ("savedefconfig", savedefconfig, "defconfig"),
        ("document", page, "docs/settings.md"),
    ):
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument(
            "--config",
            type=Path,
            default=Path(kconfiglib.standard_config_filename()),
            help="the file to read and write (default: .config)",
        )
        if out:
            command.add_argument("--out", type=Path, default=Path(out), help=f"the file to write (default: {out})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
