"""The plot of a collection's most wasted tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import MaxNLocator

from tasks.cpu.plots import style

FAMILY = "DejaVu Sans Mono"  # comes with matplotlib
MOST, LONGEST_TOKEN = 30, 22  # tokens, and characters of one
_NAMES = {"\n": "⏎", "\r": "\\r", "\t": "⇥", " ": "␣", "\ufffd": "�"}


def wasted_png(v_steer: Sequence[Mapping[str, Any]]) -> bytes:
    """The first entries of token_selection.v_steer, {token_id, token_str, delta} each, as bars."""
    shown = v_steer[:MOST]
    figure = style.new_figure(7.6, max(2.6, 1.15 + 0.262 * len(shown)))
    axes = figure.subplots()
    measure = "Δ: share of verbose answers − share of compressed answers, percentage points"
    style.style_axes(axes, "Most wasted tokens", measure, grid="x")
    if not shown:
        axes.set_xticks([])
        axes.set_yticks([])
        style.show_empty(axes, "no token was discovered")
        return style.to_png(figure)
    values = [100 * entry["delta"] for entry in shown]
    colours = [style.DOT if value < 0 else style.BEST for value in values]
    bars = axes.barh(range(len(values)), values, height=0.66, color=colours)
    axes.bar_label(bars, [f"{value:.2f}" for value in values], padding=4, fontsize=8.5, color=style.MUTED)
    axes.axvline(0, color=style.AXIS, linewidth=1)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    labels = [readable(entry["token_str"]) for entry in shown]
    axes.set_yticks(range(len(shown)), labels, family=FAMILY, fontsize=9.5, color=style.INK, parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    return style.to_png(figure)


def readable(token: str) -> str:
    """A token's text so that all of it can be seen on one line: "␣the", "⏎⏎", "\\x07"."""
    shown = "".join(_character(c) for c in token)
    return shown if len(shown) <= LONGEST_TOKEN else shown[: LONGEST_TOKEN - 1] + "…"


def _character(character: str) -> str:
    if character in _NAMES:
        return _NAMES[character]
    # Other white space, control and format characters, lone surrogates, and what the font lacks: by their numbers.
    if unicodedata.category(character)[0] in "CZ" or not get_font(findfont(FAMILY)).get_char_index(ord(character)):
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    return character
