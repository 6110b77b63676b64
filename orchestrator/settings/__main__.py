"""`python -m orchestrator.settings`: Kconfig's tools for this project's options."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import kconfiglib

from orchestrator.settings.kconfig import Kconfig


def main() -> int:
    """Run one command.  Returns 0, or 1 with one line on stderr when it failed."""
    given = _parser().parse_args()
    os.environ["KCONFIG_CONFIG"] = str(given.config)  # menuconfig takes the file from the environment only
    try:
        if given.command == "menuconfig":
            menuconfig()
        elif given.command == "olddefconfig":
            print(_load(given.config).write_config(str(given.config)))
        else:
            print(_load(given.config).write_min_config(str(given.out)))
    except (OSError, UnicodeDecodeError, kconfiglib.KconfigError) as error:
        print(f"{given.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def menuconfig() -> None:
    try:
        import curses

        import menuconfig as terminal
    except ImportError as error:
        raise OSError(f"needs Python's curses ({error}); edit the file by hand, then run olddefconfig") from error
    try:
        terminal.menuconfig(Kconfig())
    except curses.error as error:
        raise OSError(f"needs a terminal ({error}); edit the file by hand, then run olddefconfig") from error


def _load(config: Path) -> Kconfig:
    """The options with the values of `config`; warnings about values that Kconfig drops or replaces go to stderr."""
    kconfig = Kconfig(warn=True)
    kconfig.warn_assign_undef = True
    print(kconfig.load_config(str(config) if config.exists() else None))
    for symbol in kconfig.unique_defined_syms:
        _ = symbol.str_value  # Kconfig warns of a value out of range only when it is read
    return kconfig


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m orchestrator.settings", description="Edit settings.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("menuconfig", "edit the options in a terminal"),
        ("olddefconfig", "add new options with their defaults and drop options that no longer exist"),
        ("savedefconfig", "write only what differs from the defaults"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--config", type=Path, default=Path(".config"), help="the file (default: .config)")
        command.add_argument("--out", type=Path, default=Path("defconfig"), help="what savedefconfig writes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
