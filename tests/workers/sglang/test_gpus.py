"""Which GPU a worker claims, and that no two workers claim the same one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workers.sglang.gpus import Gpu, GpuUnavailable, claim, eligible

GPUS = [Gpu(index, f"GPU {index}") for index in range(4)]


@pytest.mark.parametrize(
    ("environment", "indices"),
    [
        ({}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"WHETSTONE_GPU": "3"}, [3]),
        ({"WHETSTONE_GPU": "1", "CUDA_VISIBLE_DEVICES": "2,0"}, [1]),
    ],
)
def test_the_environment_selects_the_gpus_of_a_worker(environment: dict[str, str], indices: list[int]) -> None:
    assert [gpu.index for gpu in eligible(GPUS, environment)] == indices


@pytest.mark.parametrize("environment", [{"WHETSTONE_GPU": "4"}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_gpu_that_does_not_exist_is_an_error_that_names_the_variable(environment: dict[str, str]) -> None:
    [(name, value)] = environment.items()
    with pytest.raises(GpuUnavailable, match=rf"^{name} is '{value}', and the GPUs of this machine are 0 \(GPU 0\), 1"):
        eligible(GPUS, environment)


def test_a_process_sees_its_own_gpu_alone() -> None:
    assert GPUS[2].environment() == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2"}


def test_workers_of_one_host_claim_different_gpus(tmp_path: Path) -> None:
    first, second = claim(GPUS, tmp_path), claim(GPUS, tmp_path)
    assert (first.gpu.index, second.gpu.index) == (0, 1)
    # A released GPU can be claimed again
    first.release()
    assert claim(GPUS, tmp_path).gpu.index == 0
    second.release()


def test_workers_with_different_folders_for_temporary_files_claim_different_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.sglang.gpus.HOST_FOLDER", tmp_path)
    first = claim(GPUS[:1])
    monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(GpuUnavailable, match="in use by another worker"):
        claim(GPUS[:1])
    first.release()


def test_a_gpu_is_free_when_the_worker_and_its_server_have_ended(tmp_path: Path) -> None:
    # Given a worker whose server holds the claim too
    claimed = claim(GPUS[:1], tmp_path)
    lock = claimed.lock.fileno()
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, pass_fds=(lock,)):
        # When the worker has ended and the server has not, then no other worker gets the GPU
        claimed.release()
        with pytest.raises(
            GpuUnavailable, match=r"^GPU 0 of this machine is in use by another worker; WHETSTONE_GPU names another"
        ):
            claim(GPUS[:1], tmp_path)
    claim(GPUS[:1], tmp_path).release()
