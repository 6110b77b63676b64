"""The page docs/settings.md, written from Kconfig and the rules of `Settings`."""

from __future__ import annotations

import inspect
from typing import Literal, get_args, get_origin

import kconfiglib

from orchestrator.settings.kconfig import PREFIX, Kconfig
from orchestrator.settings.options import Option, options

_HEAD = r"""# Settings

Every option of Whetstone, as `make menuconfig` shows it. This page is written from `Kconfig` by
`python -m orchestrator.settings document`; change it there.

A `.config` holds one `CONFIG_NAME=VALUE` a line. Whole numbers stand bare, switches are `y` or `n` (or
`# CONFIG_NAME is not set`), everything else stands in double quotes, numbers with a fraction too. In a string, `\n` is
a new line, `\\n` as well (menuconfig writes it so), and `\\\\` is a backslash. Of two lines for one option the last
counts. `--set NAME=VALUE` puts another value in place of one option, without the quotes. Relative paths start at the
working directory. An option that a file leaves out has its default; one without a default must be set. Whatever is
wrong is told before anything starts, one line an option.
"""


def document() -> str:
    """The page, in Markdown."""
    kconfig = Kconfig()
    known = {option.name: option for option in options()}
    parts = [_HEAD]
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
    return {bool: "switch", int: "whole number", float: "number", str: "string"}.get(option.kind, "path")


def _default(symbol: kconfiglib.Symbol, option: Option) -> str:
    if option.rule.sentinel is not None:
        when = option.rule.needed_when
        return "no default, must be set" + (f' when `{PREFIX}{when[0].upper()}` is `"{when[1]}"`' if when else "")
    shown = symbol.str_value
    bare = option.kind in (int, bool)
    return f"default `{shown if bare else chr(34) + shown + chr(34)}`"


def _escape(text: str) -> str:
    """Markdown for plain text: no character of it is a mark."""
    return "".join("\\" + character if character in "\\`*_<>" else character for character in text)
