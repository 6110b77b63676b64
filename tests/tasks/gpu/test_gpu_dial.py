"""The generated file with a length dial: every row gets its own deltas, and no parameter can stop a server."""

from __future__ import annotations

import ast
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_run import RUN
from test_processor import HASH, HOSTILE, PLAIN, STAND_IN, labels_of, run

from tasks.dial import Dial, Knot
from tasks.gpu.cluster import pack_labels
from tasks.gpu.dial import dial_job, render_dial
from tasks.job import Job
from tasks.store.store import Store
from workers.steering.request import check_params, is_cluster_bias

KNOTS = (
    Knot("zero", 0.0, 90.5, 0.7, (0.0, 0.0, 0.0, 0.0)),
    Knot("a", 0.25, 70.0, 0.6, (0.75, -0.1, 0.3, 1 / 3)),
    Knot("b", 1.0, 8.5, 0.5, (3.1, 0.2, -1.7, 2 / 3)),
)
DIAL = Dial(HASH, 'Say "no more".\u202e\n', (1.5, -0.0078125, 0.1, -2.75e-3), KNOTS)
LOAD = """
import json, pickle, sys, numpy, torch
text, params, out, dtype = sys.argv[1:]
made = pickle.loads(bytes.fromhex(json.loads(text)["callable"]))()
params = [json.loads(line, parse_constant=float) for line in json.loads(params)]
given = torch.zeros(len(params), 64, dtype=getattr(torch, dtype))
answer = made(given, params)
assert answer.dtype == given.dtype and not given.any()
assert torch.equal(made(given)[0], made(given, [None])[0])
numpy.save(out, answer.float().numpy())
"""


def steered(folder: Path, dial: Dial, params: list[Any], dtype: str = "float32") -> np.ndarray:
    """Logits [rows, 64] of zeros as the file steers them for rows of these parameters."""
    package = folder / "sglang" / "srt" / "sampling"
    package.mkdir(parents=True)
    (package / "custom_logit_processor.py").write_text(STAND_IN)
    (folder / "processor_dial.py").write_text(render_dial(dial, labels_of(50, 4), PLAIN), encoding="utf-8")
    string = run(folder, "-I", "processor_dial.py", "--string").stdout.strip()
    lines = json.dumps([json.dumps(row) for row in params])
    done = run(folder, "-c", LOAD, string, lines, "out.npy", dtype)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "out.npy")


def expected(deltas: tuple[float, ...]) -> list[float]:
    return [*np.asarray(deltas, np.float32)[labels_of(50, 4)].tolist(), *[0.0] * 14]


def test_each_row_gets_the_deltas_of_its_own_dial(tmp_path: Path) -> None:
    dials = [0.0, 0.1, 0.25, 0.6, 1.0]
    tokens = [90.5, 80.25, 70.0, 40.0, 8.5]
    rows = [{"dial": dial} for dial in dials] + [{"target_tokens": number} for number in tokens]
    got = steered(tmp_path, DIAL, rows)
    for row, dial in zip(got, [*dials, *map(DIAL.dial_of, tokens)], strict=True):
        assert row.tolist() == expected(DIAL.deltas_at(dial))


def test_values_beyond_the_ends_count_as_the_ends(tmp_path: Path) -> None:
    low = [{"dial": -3}, {"dial": float("-inf")}, {"target_tokens": 10**400}]
    high = [{"dial": 7}, {"dial": 10**400}, {"target_tokens": -1}, {"dial": 1, "target_tokens": 90}]
    got = steered(tmp_path, DIAL, [*low, *high])
    assert all(row.tolist() == expected(KNOTS[0].deltas) for row in got[: len(low)])
    assert all(row.tolist() == expected(KNOTS[-1].deltas) for row in got[len(low) :])


def test_what_is_no_number_leaves_the_default_and_raises_nothing(tmp_path: Path) -> None:
    # given rows of which one chooses a dial and all others choose nothing that can be understood
    odd = [None, {}, [1], "x", {"dial": None}, {"dial": "0.5"}, {"dial": True}, {"dial": [0.5]}, {"other": 1}]
    got = steered(tmp_path, DIAL, [{"dial": 1}, *odd, {"dial": float("nan")}])
    assert got[0].tolist() == expected(KNOTS[-1].deltas)
    assert all(row.tolist() == expected(DIAL.default) for row in got[1:])


def test_dialled_logits_keep_their_type(tmp_path: Path) -> None:
    assert steered(tmp_path, DIAL, [{}], "bfloat16")[0, 0] == 1.5


def test_the_file_writes_what_the_plugin_reads(tmp_path: Path) -> None:
    # given the file on a machine without torch and SGLang
    labels = labels_of(50, 4)
    (tmp_path / "processor_dial.py").write_text(render_dial(DIAL, labels, PLAIN), encoding="utf-8")
    # when it writes the plugin's files
    told = run(tmp_path, "-s", "processor_dial.py", "--plugin", "labels")
    assert told.returncode == 0, told.stderr
    # then the parameters that it prints are good ones, and choose the same deltas
    request = json.loads(told.stdout)
    assert is_cluster_bias(request["custom_logit_processor"])
    steering = check_params(request["sampling_params"]["custom_params"], tmp_path / "labels")
    assert steering.labels.tolist() == labels.tolist()
    assert steering.deltas.tolist() == np.asarray(DIAL.deltas_at(0.5), np.float32).tolist()
    assert sorted(path.name for path in (tmp_path / "labels").iterdir()) == sorted(
        [f"{HASH}.npy", f"{DIAL.front}.json"]
    )


def test_requests_need_the_least_number_of_tokens_of_the_run(tmp_path: Path) -> None:
    # given a run whose steered answers have at least fourteen tokens
    for least, sent in ((14, {"min_new_tokens": 14}), (0, {})):
        text = render_dial(DIAL, labels_of(50, 4), PLAIN, min_new_tokens=least)
        (tmp_path / "processor_dial.py").write_text(text, encoding="utf-8")
        # then the head of the file says it, and what a request to the plugin sends has it
        told = run(tmp_path, "-I", "processor_dial.py").stdout
        assert ('Each request needs "min_new_tokens": 14' in " ".join(told.split())) == bool(least)
        request = json.loads(run(tmp_path, "-s", "processor_dial.py", "--plugin", "labels").stdout)
        assert request["sampling_params"] == {**sent, "custom_params": {"front": DIAL.front, "dial": 0.5}}


def test_requests_without_steering_have_no_least_number_of_tokens_as_none_was_measured(tmp_path: Path) -> None:
    def head(dial: Dial, least: int = 14) -> str:
        text = render_dial(dial, labels_of(50, 4), PLAIN, min_new_tokens=least)
        (tmp_path / "processor_dial.py").write_text(text, encoding="utf-8")
        return " ".join(run(tmp_path, "-I", "processor_dial.py").stdout.split())

    # given a dial of which the longest knot is the zero vector
    assert "Leave it out at dial 0: those answers were measured without it." in head(DIAL)
    # and one whose default is the model as it is
    unsteered = dataclasses.replace(DIAL, default=(0.0,) * 4)
    assert "Leave it out at dial 0 and without dial and target_tokens: " in head(unsteered)
    # where each setting steers, or there is no such number, nothing is left out
    assert "Leave it out" not in head(dataclasses.replace(DIAL, knots=KNOTS[1:])) + head(DIAL, least=0)


def test_texts_of_others_cannot_change_the_dials_program() -> None:
    labels = labels_of(100, len(HOSTILE))
    knots = tuple(Knot(str(d), d, 9.0 - d, 0.5 - d / 10, (d,) * len(HOSTILE)) for d in (0.0, 1.0))
    plain = Dial(HASH, "", (0.5,) * len(HOSTILE), knots)
    hostile = [{"id": i, "description": text} for i, text in enumerate(HOSTILE)]
    assert ast.dump(ast.parse(render_dial(plain, labels, hostile))) == ast.dump(
        ast.parse(render_dial(plain, labels, []))
    )
    for prompt in HOSTILE:
        text = render_dial(Dial(HASH, prompt, plain.default, knots), labels, [])
        [value] = [line for line in text.splitlines() if line.startswith("SYSTEM_PROMPT = ")]
        assert ast.literal_eval(value.removeprefix("SYSTEM_PROMPT = ")) == prompt and value.isascii()


def test_the_dial_imports_the_standard_library_numpy_torch_and_sglang_only() -> None:
    tree = ast.parse(render_dial(DIAL, labels_of(9, 4), PLAIN))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"numpy", "torch", "sglang.srt.sampling.custom_logit_processor"}


def test_a_dial_of_other_clusters_is_refused() -> None:
    with pytest.raises(ValueError, match="below 4"):
        render_dial(DIAL, labels_of(50, 5), [])


def test_the_job_makes_the_file_of_a_recorded_dial(store: Store) -> None:
    # given a run with its clustering, and the arguments as a message's record has them
    labels = labels_of(50, 4)
    store.put_run(RUN)
    store.clusterings.put(RUN.id, HASH, pack_labels(labels), json.dumps(PLAIN))
    store.put_metadata(RUN.id, "clustering", HASH)
    arguments = json.loads(json.dumps({"name": "processor_dial.py", "dial": dataclasses.asdict(DIAL)}))
    # when the job runs, then the file that it has made is the dial's
    assert dial_job(Job(store, RUN.id, "file:k", arguments)) == {"file": "processor_dial.py"}
    assert store.file(RUN.id, "file:k") == render_dial(DIAL, labels, PLAIN).encode()
    # and its requests need what those of the run had
    sampling = dataclasses.replace(RUN.target.sampling, steered_min_new_tokens=4)
    store.put_run(dataclasses.replace(RUN, target=dataclasses.replace(RUN.target, sampling=sampling)))
    dial_job(Job(store, RUN.id, "file:k", arguments))
    assert b"\nMIN_NEW_TOKENS = 4\n" in (store.file(RUN.id, "file:k") or b"")
