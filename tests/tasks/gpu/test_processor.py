"""The generated processor: loads by itself, adds exactly the deltas, and no description can make it do anything else.

SGLang cannot be installed where these tests run, so a module with its name and its abstract class stands in for it, on
the path of the child process alone.  Everything else is the generated file, run as a server would run it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks.gpu.processor import render_processor

HASH = "5485e325ff4026217d30e6516416a3f9"
DELTAS = {"0": 1.5, "1": -0.0078125, "2": 0.1, "3": -2.75e-3}
PLAIN = [{"id": i, "description": f"Tokens of kind {i}"} for i in range(4)]
HOSTILE = [
    'ends""" + __import__("os").abort() + """',
    "one line\nimport os; os.abort()",
    "another\rimport os; os.abort()\r\nraise SystemExit(9)",
    "form feed\x0cpage\x0bvertical\x00nul\x1a \x85 \u2028import os\u2029os.abort()",
    "'; DELTAS = {}; '''\\",
    "}\nDELTAS.clear()\n{ $deltas ${labels} %s {0} \\N{BULLET} \\x0a import os",
    "right to left \u202e)(troba.so \u2066 and a lone \ud800 surrogate",
    "# -*- coding: utf-16 -*- " + "long " * 2000,
]
STAND_IN = """
from abc import ABC, abstractmethod

class CustomLogitProcessor(ABC):
    @abstractmethod
    def __call__(self, logits, custom_param_list=None): ...
"""
LOAD = """
import json, pickle, sys, numpy, torch
text, logits, out, dtype = sys.argv[1:]
made = pickle.loads(bytes.fromhex(json.loads(text)["callable"]))()
given = torch.from_numpy(numpy.load(logits)).to(getattr(torch, dtype))
before = given.clone()
answers = [made(given, None), type(made)()(given, [{}] * len(given)), made(given)]
assert all(torch.equal(answers[0], other) for other in answers) and torch.equal(given, before)
numpy.save(out, answers[0].float().numpy())
"""


def labels_of(size: int, clusters: int, kind: type = np.uint8) -> np.ndarray:
    labels = np.random.default_rng(5).integers(0, clusters, size).astype(kind)
    labels[:clusters] = np.arange(clusters)
    return labels


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-I" if "-I" in arguments else "-s", *(a for a in arguments if a != "-I")],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def steered(folder: Path, text: str, logits: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """Logits as the file steers them, loaded by the string that it gives for itself."""
    package = folder / "sglang" / "srt" / "sampling"
    package.mkdir(parents=True)
    (package / "custom_logit_processor.py").write_text(STAND_IN)
    (folder / "processor_best.py").write_text(text, encoding="utf-8")
    np.save(folder / "logits.npy", logits)
    asked = run(folder, "processor_best.py", "--string")
    assert asked.returncode == 0, asked.stderr
    done = run(folder, "-c", LOAD, asked.stdout.strip(), "logits.npy", "out.npy", dtype)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "out.npy")


def test_it_adds_each_tokens_delta_and_nothing_to_the_padding(tmp_path: Path) -> None:
    # given a vocabulary of 49,152 tokens in four clusters, and logits 128 wider
    labels = labels_of(49152, 4)
    logits = np.random.default_rng(1).normal(0, 8, (3, 49152 + 128)).astype(np.float32)
    # when the file, alone in its folder, steers them
    got = steered(tmp_path, render_processor(DELTAS, labels, HASH, PLAIN), logits)
    # then every logit is exactly what plain arithmetic gives
    table = np.array([1.5, -0.0078125, 0.1, -2.75e-3], dtype=np.float32)
    expected = logits.copy()
    for token, cluster in enumerate(labels.tolist()):
        expected[:, token] += table[cluster]
    assert np.array_equal(got, expected)


def test_more_than_256_clusters(tmp_path: Path) -> None:
    labels = labels_of(2000, 700, np.uint16)
    deltas = {str(i): i / 7 for i in range(700)}
    logits = np.zeros((2, 2000), dtype=np.float32)
    got = steered(tmp_path, render_processor(deltas, labels, HASH, []), logits)
    assert np.array_equal(got[1], (labels / 7).astype(np.float32))


def test_logits_keep_their_type(tmp_path: Path) -> None:
    # given a server that samples in bfloat16
    labels = labels_of(50, 4)
    got = steered(tmp_path, render_processor(DELTAS, labels, HASH, PLAIN), np.zeros((1, 64), np.float32), "bfloat16")
    assert got[0, 0] == 1.5
    assert got[0, 50:].tolist() == [0.0] * 14


def test_a_model_with_a_smaller_vocabulary_is_refused(tmp_path: Path) -> None:
    labels = labels_of(50, 4)
    with pytest.raises(AssertionError, match="50 labels do not fit 49 logits"):
        steered(tmp_path, render_processor(DELTAS, labels, HASH, PLAIN), np.zeros((1, 49), np.float32))


def test_hostile_descriptions_stay_comments(tmp_path: Path) -> None:
    # given clusters whose descriptions try to end the comment, the file, or the line
    labels = labels_of(100, len(HOSTILE))
    deltas = {str(i): 0.25 * i for i in range(len(HOSTILE))}
    hostile = [{"id": i, "description": text} for i, text in enumerate(HOSTILE)]
    text = render_processor(deltas, labels, HASH, hostile)
    # then the program is the same as without any descriptions
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(render_processor(deltas, labels, HASH, [])))
    assert all(len(line) <= 120 for line in text.splitlines())
    # and runs as it should
    got = steered(tmp_path, text, np.zeros((1, 100), np.float32))
    assert np.array_equal(got[0], labels * np.float32(0.25))


def test_the_deltas_are_there_to_be_read() -> None:
    text = render_processor(DELTAS, labels_of(9, 4), HASH, PLAIN)
    assert '    # Tokens of kind 3\n    "3": -0.00275,\n' in text
    assert f'CLUSTERING = "{HASH}"' in text
    tree = ast.parse(text)
    values = {
        t.id: n.value for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    }
    assert ast.literal_eval(values["DELTAS"]) == DELTAS


def test_it_imports_the_standard_library_torch_and_sglang_only() -> None:
    tree = ast.parse(render_processor(DELTAS, labels_of(9, 4), HASH, PLAIN))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"torch", "sglang.srt.sampling.custom_logit_processor"}


def test_equal_input_gives_equal_bytes() -> None:
    first = render_processor(DELTAS, labels_of(5000, 4), HASH, PLAIN)
    backwards = dict(reversed(DELTAS.items()))
    assert render_processor(backwards, labels_of(5000, 4, np.int64), HASH, list(reversed(PLAIN))) == first


def test_it_says_how_to_use_it_where_sglang_is_not_installed(tmp_path: Path) -> None:
    # given the file on a machine with Python alone (isolated mode: no module path but the standard one)
    (tmp_path / "processor_best.py").write_text(render_processor(DELTAS, labels_of(9, 4), HASH, PLAIN))
    # then it explains itself, and its string names its module and its class and carries no code
    told = run(tmp_path, "-I", "processor_best.py")
    assert told.returncode == 0, told.stderr
    assert "--enable-custom-logit-processor" in told.stdout
    assert str(tmp_path) in told.stdout
    pickled = bytes.fromhex(json.loads(run(tmp_path, "-I", "processor_best.py", "--string").stdout)["callable"])
    assert pickled == b"\x80\x04cprocessor_best\nDeltaProcessor\n."
    # and under a name that cannot be imported it says so
    (tmp_path / "processor-best.py").write_text((tmp_path / "processor_best.py").read_text())
    refused = run(tmp_path, "-I", "processor-best.py", "--string")
    assert refused.returncode == 1
    assert "rename this file" in refused.stderr
