"""The decoder finds out which rows and threads change bits; the number of threads follows the free cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from workers.embedded.target.decoder import Decoder, ThreadTuner

ROWS = 8


class InexactLinear:
    """A linear layer that rounds differently for the lower half of its rows, or for another number of threads."""

    def __init__(self, exact: Any, by_row: bool) -> None:
        self._exact, self._by_row = exact, by_row

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self._exact(x).clone()
        if self._by_row:
            result[len(x) // 2 :] *= 1.5 if len(x) > 1 else 1
        elif torch.get_num_threads() == 1:
            result *= 1.5
        return result


@pytest.mark.parametrize(("by_row", "rows", "adaptive"), [(True, 1, False), (False, ROWS, False), (None, ROWS, True)])
def test_a_layer_that_mixes_rows_or_threads_is_detected(
    by_row: bool | None, rows: int, adaptive: bool, wide_model: Path
) -> None:
    torch.set_num_threads(2)
    decoder: Any = Decoder(wide_model, torch.float32)
    if by_row is not None:
        decoder._head = InexactLinear(decoder._head, by_row)
    assert decoder.calibrate(ROWS) == rows
    assert decoder._tuner._adaptive == adaptive


def _write_load(path: Path, running: int) -> None:
    path.write_text(f"0.50 0.40 0.30 {running}/123 4567\n")


def test_one_thread_is_used_while_other_processes_run_and_all_afterwards(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    loadavg = tmp_path / "loadavg"
    tuner = ThreadTuner(adaptive=True, load=loadavg, cores=2)
    taken = []
    for running in (1, 2, 3, 2, 1, 2):  # own threads included: two while two are used, one while one is
        _write_load(loadavg, running)
        tuner.choose()
        taken.append(torch.get_num_threads())
    assert taken == [2, 2, 1, 1, 2, 2]
