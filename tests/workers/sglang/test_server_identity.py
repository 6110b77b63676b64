"""A server's identity: what it reports, in short; answers of servers that differ are never shared."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from answer_runs import Evaluation, embedded_target, evaluate, own_store, put_run
from server_target import server_target

from tasks.gpu.host import TargetUnavailable
from tasks.gpu.target import SERVER_STATS
from tasks.store.store import Store
from workers.sglang.host import DTYPE_VARIABLE, LocalTargetHost
from workers.sglang.identity import SAMPLE_BYTES, weights_fingerprint

QUESTIONS = ("Sales were 12.", "The sky is blue.", "Two and two")
VOCABULARY = 49152


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalTargetHost]:
    host = LocalTargetHost(tmp_path, "gpu", {**os.environ, "PYTHONPATH": ""})
    yield host
    host.close()


def evaluate_on(store: Store, run: str, model: Path, folder: Path, dtype: str) -> Evaluation:
    """One individual of a run, on an embedded server that computes in `dtype` because its farm says so."""
    put_run(store, run, embedded_target(model), np.arange(VOCABULARY) % 3, QUESTIONS)
    with ExitStack() as stack:
        host = LocalTargetHost(folder, "gpu", {**os.environ, DTYPE_VARIABLE: dtype})
        stack.callback(host.close)
        stack.enter_context(own_store())
        return evaluate(host, store, run, [[0.0, 0.5, -0.5]])[0]


def test_servers_of_different_arguments_never_share_answers(store: Store, small_model: Path, tmp_path: Path) -> None:
    # Given two runs with the same settings on one Redis, whose servers compute in different dtypes
    first = evaluate_on(store, "first", small_model, tmp_path / "a", "float32")
    second = evaluate_on(store, "second", small_model, tmp_path / "b", "bfloat16")
    # Then each has generated its own answers
    assert (first.generated, second.generated) == (len(QUESTIONS), len(QUESTIONS))
    assert not set(first.keys) & set(second.keys)
    # And a third server that is equal to the first one, in another folder, needs to generate nothing
    third = evaluate_on(store, "third", small_model, tmp_path / "c", "float32")
    assert (third.generated, third.keys) == (0, first.keys)


def test_a_server_that_comes_back_as_another_one_is_refused(host: LocalTargetHost, tmp_path: Path) -> None:
    # Given a server whose version changes while it is down
    version = tmp_path / "version"
    version.write_text("0.5.20")
    target = server_target(args=f"--version-file {version}")
    identity = host.identity(target)
    url = host.serve(target, "", identity)
    host.stop()
    SERVER_STATS.failed(url)
    version.write_text("0.5.21")
    # When a task needs the server that its keys name, then the error names the difference
    with pytest.raises(TargetUnavailable, match=r"version '0\.5\.20' is now '0\.5\.21'"):
        host.serve(target, "", identity)
    assert host.serve(target, "", host.identity(target))


def test_an_external_server_is_described_by_its_own_report(small_model: Path, tmp_path: Path) -> None:
    other = LocalTargetHost(tmp_path / "other", "gpu", {**os.environ, "SGLANG_API_KEY": ""})
    try:
        url = other.serve(embedded_target(small_model, args="--rows 1"))
        key = {"SGLANG_API_KEY": str(other.api_key(embedded_target(small_model)))}
        user = LocalTargetHost(tmp_path / "user", "gpu", {**os.environ, **key})
        identity = user.identity(embedded_target(small_model, url=url))
        assert identity["weights"] == weights_fingerprint(small_model)
        stranger = LocalTargetHost(tmp_path / "stranger", "gpu", {**os.environ, "SGLANG_API_KEY": "wrong"})
        with pytest.raises(TargetUnavailable, match="does not report its model: /server_info: HTTP 401"):
            stranger.identity(embedded_target(small_model, url=url))
    finally:
        other.close()


def test_a_fingerprint_differs_when_weights_or_settings_differ(tmp_path: Path) -> None:
    # Given a model with a file larger than all samples, and the same model in another folder
    random = np.random.default_rng(1)
    content = random.bytes(100 * SAMPLE_BYTES)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(content)
    (tmp_path / "second" / "README.md").write_text("text that does not count")
    first, second = (tmp_path / "first"), (tmp_path / "second")
    assert weights_fingerprint(first) == weights_fingerprint(second)
    # When all numbers change, or a setting, or the last bytes, then it is another model
    (second / "model.safetensors").write_bytes(random.bytes(100 * SAMPLE_BYTES))
    assert weights_fingerprint(first) != weights_fingerprint(second)
    (second / "model.safetensors").write_bytes(content[:-1] + b"x")
    assert weights_fingerprint(first) != weights_fingerprint(second)
    (second / "model.safetensors").write_bytes(content)
    (second / "config.json").write_text("[]")
    assert weights_fingerprint(first) != weights_fingerprint(second)
