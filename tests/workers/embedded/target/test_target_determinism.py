"""The probe detects rows and threads that change bits; the number of threads follows the free cores."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch

from workers.embedded.target.attention import Linear
from workers.embedded.target.determinism import DeterminismProbe, ThreadTuner

ROWS = 8


class InexactLinear:
    """A linear layer that rounds differently for the lower half of its rows, or for another number of threads."""

    inputs, dtype = 32, torch.float32

    def __init__(self, by_row: bool) -> None:
        self._weight = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))
        self._by_row = by_row

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.linear(x.double(), self._weight.double())
        if self._by_row:
            result[ROWS // 2 :] *= 1 + 1e-6
        elif torch.get_num_threads() == 1:
            result *= 1 + 1e-6
        return result.float()


@pytest.mark.parametrize(
    ("by_row", "counts", "exact"), [(True, (1,), False), (False, (1, 2), False), (False, (1,), True)]
)
def test_a_layer_that_mixes_rows_or_threads_is_detected(by_row: bool, counts: tuple[int, ...], exact: bool) -> None:
    probe = DeterminismProbe((2, 1, 16), torch.float32)
    assert probe.linears([cast(Linear, InexactLinear(by_row))], counts, [ROWS]) is exact


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
