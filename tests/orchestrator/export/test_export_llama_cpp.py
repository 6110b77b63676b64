"""llama.cpp's file: the biases in each of its forms, and greedy answers of llama.cpp itself.

The answers need llama-cpp-python, which is compiled when it is installed, so it has an environment of its own:

    python -m venv llama && llama/bin/pip install llama-cpp-python==0.3.36 numpy
    WHETSTONE_LLAMA_PYTHON=llama/bin/python pytest -m long tests/orchestrator/export/test_export_llama_cpp.py
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from exported_run import DIGIT, ENDS, NODE, OTHER, POINT, STOP, WORD, asked_prompts, biases_of, rendered, write_run

from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.models import embedded_gguf, embedded_model

ANSWERS, TOKENS = 100, 24


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "processor_llama_cpp.py"
    path.write_text(rendered("llama-cpp", write_run(tmp_path), NODE))
    return path


def test_the_processor_adds_each_tokens_delta(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(file, monkeypatch)
    scores = np.random.default_rng(1).normal(0, 8, 49152 + 64).astype(np.float32)
    before, expected = scores.copy(), scores.copy()
    expected[:49152] += biases_of(OTHER)
    processor = module.DeltaProcessor()
    assert np.array_equal(processor(np.array([1, 2]), scores), expected) and np.array_equal(scores, before)
    with pytest.raises(ValueError, match="another model"):
        processor(np.array([1]), scores[:49151])


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "processor_llama_cpp.py"
    file.write_text(rendered("llama-cpp", write_run(tmp_path, ends=ENDS), NODE))
    processor, scores = imported(file, monkeypatch).DeltaProcessor(), np.zeros(49152, np.float32)
    # of an answer whose prompt ends a sentence, which does not count, nor does a "." behind a digit
    answer = (STOP, WORD, DIGIT, POINT, POINT)
    raised = []
    for length in range(len(answer) + 1):
        added = processor(np.array([7, STOP, *answer[:length]]), scores)
        assert np.array_equal(np.delete(added, 2), np.delete(biases_of(OTHER), 2))
        raised.append(float(added[2]))
    assert raised == [0, OTHER["0"], 0, 0, 0, OTHER["0"]]
    # and of the next one
    assert processor(np.array([STOP, STOP]), scores)[2] == 0
    # and a list of biases is refused, in one line
    done = subprocess.run([sys.executable, str(file), "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr


def test_the_printed_biases_change_the_logits_by_as_much_but_for_a_constant(file: Path) -> None:
    wanted = biases_of(OTHER)
    # Where nothing but Python is installed
    command = [sys.executable, "-I", "-S", str(file), "--json"]
    given = dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["logit_bias"])
    biases = np.zeros_like(wanted)
    biases[list(given)] = list(given.values())
    assert np.allclose(biases - biases[2], wanted - wanted[2], atol=1e-6)
    assert 0 < len(given) < len(wanted) * 0.6  # the half of the tokens that are in the largest cluster are left out


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_greedy_answers_are_those_of_llama_cpps_logits_plus_the_biases(file: Path, tmp_path: Path) -> None:
    # Given llama.cpp with the file from which the embedded model is made
    python = os.environ.get("WHETSTONE_LLAMA_PYTHON") or sys.executable
    if subprocess.run([python, "-c", "import llama_cpp"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{python} has no llama_cpp; WHETSTONE_LLAMA_PYTHON names a Python that has it")
    given = {"gguf": str(embedded_gguf(tmp_path)), "file": str(file), "tokens": TOKENS}
    given |= {"prompts": asked_prompts(ANSWERS), "stops": sorted(answer_ends(load_tokenizer(str(embedded_model()))))}
    # When it answers
    command = [python, str(Path(__file__).with_name("llama_answers.py"))]
    done = subprocess.run(command, input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    equal = {kind: sum(map(list.__eq__, found[kind], found["reference"])) for kind in ("steered", "native", "plain")}
    print(f"of {ANSWERS} answers so many equal the reference: {equal}")
    # Then the answers of each way are those of the reference, and steering changes answers
    assert len(found["reference"]) == equal["steered"] == equal["native"] == ANSWERS
    assert equal["plain"] < len(found["plain"]) / 2


def imported(file: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return importlib.import_module(file.stem)
