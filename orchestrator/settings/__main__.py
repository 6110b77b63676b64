"""`python -m orchestrator.settings`: Kconfig's tools for this project's options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kconfiglib

from orchestrator.settings.kconfig import Kconfig
from orchestrator.streams import protect_streams

HELP_COLUMNS = 100  # the longest line of a help text in Kconfig


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.  Returns 0, or 1 with one line on stderr when it failed.

    What it prints is only a report: a file is written also where nobody reads the output.
    """
    protect_streams()
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
    """Something that the command needs is missing."""


def menuconfig(_: argparse.Namespace) -> None:
    """Edit the options in a terminal."""
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
    """Edit the options in a window."""
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
    """A Tk class whose windows do not cut off help texts: kconfiglib's own have 80 columns and do not wrap."""

    def make() -> Any:
        window = root()
        window.option_add("*Text.width", HELP_COLUMNS)
        return window

    return make


def olddefconfig(given: argparse.Namespace) -> None:
    """Add new options with their defaults and drop options that no longer exist."""
    kconfig = _load(given.config)
    print(kconfig.write_config(str(given.config)))


def savedefconfig(given: argparse.Namespace) -> None:
    """Write only what differs from the defaults."""
    if not given.config.exists():
        raise Unavailable(f"there is no {given.config}")
    print(_load(given.config).write_min_config(str(given.out)))


def _load(config: Path) -> Kconfig:
    """The options with the values of `config`; warnings about values that Kconfig drops or replaces go to stderr."""
    kconfig = Kconfig(warn=True)
    kconfig.warn_to_stderr = False
    kconfig.warn_assign_undef = True
    print(kconfig.load_config(str(config) if config.exists() else None))
    for symbol in kconfig.unique_defined_syms:
        _ = symbol.str_value  # Kconfig warns of a value out of range only when it is read
    for warning in kconfig.warnings:
        print(" ".join(warning.split()), file=sys.stderr)
    return kconfig


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orchestrator.settings", description="Edit settings.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run, out in (
        ("menuconfig", menuconfig, None),
        ("guiconfig", guiconfig, None),
        ("olddefconfig", olddefconfig, None),
        ("savedefconfig", savedefconfig, "defconfig"),
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
