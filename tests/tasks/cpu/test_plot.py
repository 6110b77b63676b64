"""The table of plots: every line of it can be drawn, and a name that is not in it is an error."""

from __future__ import annotations

import pytest

from tasks.cpu.plot import PLOTS, draw

DATA = {
    "history": [],
    "tree": {"nodes": [], "edges": []},
    "baseline_tokens": None,
    "baseline_name": "zero deltas",
    "points": [],
    "rates": [],
    "held_out": "B",
    "rows": {},
    "v_steer": [{"token_id": 1, "token_str": "a", "delta": 0.5}],
}


@pytest.mark.parametrize("file", PLOTS)
def test_every_plot_of_the_table_is_drawn_as_a_png(file: str) -> None:
    assert draw(file, DATA).startswith(b"\x89PNG")
