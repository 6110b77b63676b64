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
    assert DeterminismProbe(counts).linears([cast(Linear, InexactLinear(by_row))], [ROWS]) is exact


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_laid_out_layer_computes_the_same_product(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    weight, bias, x = (torch.randn(*shape, generator=draw).to(dtype) for shape in ((96, 64), (96,), (5, 64)))
    expected = x.double() @ weight.double().T + bias.double()
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(Linear(weight, bias)(x).double(), expected, atol=tolerance, rtol=0.02)


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


def test_without_a_load_figure_all_threads_are_used(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    ThreadTuner(adaptive=True, load=tmp_path / "nothing", cores=2).choose()
    assert torch.get_num_threads() == 2


def test_where_threads_change_results_one_thread_is_used(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    _write_load(tmp_path / "loadavg", 1)
    tuner = ThreadTuner(adaptive=False, load=tmp_path / "loadavg", cores=2)
    tuner.choose()
    assert torch.get_num_threads() == 1
