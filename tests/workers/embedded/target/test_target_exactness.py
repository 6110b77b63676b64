"""The probe sees what it must see, and the threads follow what the machine has free."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch

from workers.embedded.target.attention import Linear
from workers.embedded.target.exactness import DeterminismProbe
from workers.embedded.target.threads import ThreadTuner

ROWS = 8


class Careless:
    """A linear layer that rounds differently for the lower half of its rows, or for another number of threads."""

    inputs, dtype = 32, torch.float32

    def __init__(self, by_row: bool) -> None:
        self._weight = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))
        self._by_row = by_row

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.nn.functional.linear(x.double(), self._weight.double())
        if self._by_row:
            found[ROWS // 2 :] *= 1 + 1e-6
        elif torch.get_num_threads() == 1:
            found *= 1 + 1e-6
        return found.float()


@pytest.mark.parametrize(
    ("by_row", "counts", "exact"), [(True, (1,), False), (False, (1, 2), False), (False, (1,), True)]
)
def test_a_layer_that_mixes_rows_or_threads_is_found_out(by_row: bool, counts: tuple[int, ...], exact: bool) -> None:
    assert DeterminismProbe(counts).linears([cast(Linear, Careless(by_row))], ROWS) is exact


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_laid_out_layer_computes_the_same_product(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(1)
    weight, bias, x = (torch.randn(*shape, generator=draw).to(dtype) for shape in ((96, 64), (96,), (5, 64)))
    expected = x.double() @ weight.double().T + bias.double()
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(Linear(weight, bias)(x).double(), expected, atol=tolerance, rtol=0.02)


def _says(path: Path, running: int) -> None:
    path.write_text(f"0.50 0.40 0.30 {running}/123 4567\n")


def test_threads_are_given_up_while_others_run_and_taken_back_after(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    loadavg = tmp_path / "loadavg"
    cores = ThreadTuner(adaptive=True, running=loadavg, cores=2)
    taken = []
    for running in (1, 2, 3, 2, 1, 2):  # ours are among them: two while we use two, one while we use one
        _says(loadavg, running)
        cores.choose()
        taken.append(torch.get_num_threads())
    assert taken == [2, 2, 1, 1, 2, 2]


def test_a_machine_that_does_not_say_keeps_its_threads(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    ThreadTuner(adaptive=True, running=tmp_path / "nothing", cores=2).choose()
    assert torch.get_num_threads() == 2


def test_where_threads_change_results_one_is_used_for_good(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    _says(tmp_path / "loadavg", 1)
    cores = ThreadTuner(adaptive=False, running=tmp_path / "loadavg", cores=2)
    cores.choose()
    assert torch.get_num_threads() == 1
