"""The table of plots: every line of it can be drawn, and a name that is not in it is an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tasks.cpu.plot import COLLECTION_PLOTS, COMPARISON_PLOTS, EVOLUTION_PLOTS, PLOTS, ROUTE_PLOTS, draw

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


def test_each_plot_has_a_file_and_a_title_of_its_own() -> None:
    plots = (*EVOLUTION_PLOTS, *COMPARISON_PLOTS, *COLLECTION_PLOTS, *ROUTE_PLOTS)
    assert len(PLOTS) == len({plot.title for plot in plots}) == len(plots)


def test_a_plot_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"there is no plot 'pie\.png'"):
        draw("pie.png", DATA)


def test_reading_the_table_does_not_import_matplotlib() -> None:
    code = "import sys, tasks.cpu.plot; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
