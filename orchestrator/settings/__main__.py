"""`python -m orchestrator.settings`: Kconfig's tools for this project's options, and the page docs/settings.md."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import kconfiglib

from orchestrator.settings.kconfig import PREFIX, Kconfig
from orchestrator.settings.options import Option, options
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


def page(given: argparse.Namespace) -> None:
    """Write the page that documents all settings."""
    given.out.write_text(settings_page(), "utf-8")
    print(f"Settings documented in '{given.out}'")


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


_PAGE_HEAD = r"""# Settings

Every option of Whetstone, as `make menuconfig` shows it. This page is written from `Kconfig` by
`python -m orchestrator.settings document`; change it there. `orchestrator init` writes a `.config` from
four answers ([start.md](start.md)).

A `.config` has one `CONFIG_NAME=VALUE` on each line. Whole numbers are written without quotes. Switches are `y` or `n`
(or `# CONFIG_NAME is not set`). All other values are in double quotes, also numbers with a fraction. In a string, `\n`
is a new line, and so is `\\n`, which menuconfig writes; `\\\\` is a backslash. If an option occurs twice, the last line
counts. `--set NAME=VALUE` replaces the value of one option; VALUE is written without the quotes. Relative paths start
at the working directory. An option that is not in the file has its default; an option without a default must be set.
All errors are reported before a run starts, one line for each option.
"""


def settings_page() -> str:
    """docs/settings.md, in Markdown."""
    kconfig = Kconfig()
    known = {option.name: option for option in options()}
    parts = [_PAGE_HEAD]
    for node in kconfig.node_iter():
        if node.item is kconfiglib.MENU:
            parts.append(f"{'#' * (1 + _depth(node))} {node.prompt[0]}\n")
        elif node.item is kconfiglib.COMMENT:
            parts.append(node.prompt[0] + "\n")
        else:
            parts.append(_describe(node, known[node.item.name]))
    return "\n".join(parts)


def _depth(node: kconfiglib.MenuNode) -> int:
    return 0 if node.parent is None else 1 + _depth(node.parent)


def _describe(node: kconfiglib.MenuNode, option: Option) -> str:
    facts = [_kind(option)]
    if bounds := option.rule.bounds():
        facts.append(bounds)
    facts.append(_default(node.item, option))
    text = inspect.cleandoc(node.help).replace("  ", " ")
    return f"**`{PREFIX}{option.name}`** — {node.prompt[0]}\n({'; '.join(facts)})\n\n{_escape(text)}\n"


def _kind(option: Option) -> str:
    if get_origin(option.kind) is Literal:
        return " or ".join(f'`"{word}"`' for word in get_args(option.kind))
    names = {bool: "switch", int: "whole number", float: "number", str: "string"}
    empty = " or empty" if option.kind in (int | None, float | None) else ""
    kind = get_args(option.kind)[0] if empty else option.kind
    return names.get(kind, "path") + empty


def _default(symbol: kconfiglib.Symbol, option: Option) -> str:
    if option.rule.sentinel is not None:
        when = option.rule.needed_when
        return "no default, must be set" + (f' when `{PREFIX}{when[0].upper()}` is `"{when[1]}"`' if when else "")
    shown = symbol.str_value
    bare = option.kind in (int, bool)
    return f"default `{shown if bare else chr(34) + shown + chr(34)}`"


def _escape(text: str) -> str:
    """Plain text as Markdown, with every mark escaped."""
    return "".join("\\" + character if character in "\\`*_<>" else character for character in text)


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
