"""Text laid out in the cells of a terminal.  Widths are in cells: an East Asian character takes two."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

from tasks.common.text import escape_control


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; line ends in `text` are kept.

    `width` is at least 2, the width of the widest character.  `text` has no control characters (`escape_control`).
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if cell_len(joined) <= width:
                line = joined
                continue
            if line:
                lines.append(line)
            pieces = chop_cells(word, width) or [""]
            lines += pieces[:-1]
            line = pieces[-1]
        lines.append(line)
    return lines


def pad(text: str, width: int) -> str:
    """`text` filled with spaces to `width` cells; longer text is returned as it is."""
    return text + " " * max(0, width - cell_len(text))


def truncate(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return (chop_cells(text, width - 1)[0] if width > 1 else "") + "…"


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line for each row; a column is as wide as its widest cell.  All rows have the same number of cells.

    Control characters, of a folder's name for example, are escaped.
    """
    rows = [[escape_control(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
