"""vLLM's file through the interfaces that vLLM documents, of model runner V1 and V2.

vLLM is not installed with these tests: modules with its names stand in for it, and the batches are of the shapes that
it documents.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from exported_run import DELTAS, DIGIT, ENDS, POINT, STOP, WORD, biases_of, rendered, write_run

MODULES = {"v1": "vllm.v1.sample.logits_processor", "v2": "vllm.v1.worker.gpu.sample.logits_processor"}
WIDTH, TOKENS = 64, 50  # of the logits, and of the vocabulary
CONFIG = SimpleNamespace(model_config=SimpleNamespace(model="a/model"))
BIASES = torch.zeros(WIDTH)
BIASES[:TOKENS] = torch.from_numpy(biases_of(DELTAS, TOKENS))

Direction = Enum("Direction", ("UNIDIRECTIONAL", "SWAP"))
Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """The class of the exported file, in a vLLM that has the interfaces of these model runners."""

    def loaded(*runners: str, ends: Mapping[int, int] | None = None) -> Any:
        for runner in runners:
            parts = MODULES[runner].split(".")
            for depth in range(1, len(parts) + 1):
                monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), module := ModuleType(parts[depth - 1]))
            module.LogitsProcessor = type(runner, (), {"apply_staged_writes": lambda self: None})  # type: ignore[attr-defined]
        path = tmp_path / "processor_vllm.py"
        path.write_text(rendered("vllm", write_run(tmp_path, size=TOKENS, ends=ends)))
        found = runpy.run_path(str(path))["DeltaProcessor"]
        assert [base.__name__ for base in found.__bases__] == [*runners]
        return found

    return loaded


def params(**extra: Any) -> Any:
    return SimpleNamespace(extra_args=extra or None)


def added(row: int, **extra: Any) -> tuple[int, Any, list[int], list[int]]:
    """A new request of model runner V1: its row, parameters, prompt and answer."""
    return row, params(**extra), [1, 2], []


def batch_update(size: int, removed: Any = (), added: Any = (), moved: Any = ()) -> Any:
    return SimpleNamespace(batch_size=size, removed=removed, added=added, moved=moved)


def steered_rows(changed: torch.Tensor) -> list[bool]:
    """Of logits that were zero: for each row whether it holds the biases; every other row is still zero."""
    assert all(torch.equal(row, BIASES) for row in changed if row.any())
    return [bool(row.any()) for row in changed]


def test_a_request_is_steered_unless_it_wants_no_steering_wherever_its_row_goes_in_v1(load: Load) -> None:
    processor = load("v1")(CONFIG, torch.device("cpu"), False)

    def after(size: int, **update: Any) -> list[bool]:
        processor.update_state(batch_update(size, **update))
        processor.update_state(None)
        return steered_rows(processor.apply(torch.zeros(size, WIDTH)))

    assert not processor.is_argmax_invariant()
    assert after(3, added=(added(0, steering=0), added(1, other="x"), added(2, steering=1))) == [False, True, True]
    assert after(3, moved=((0, 2, Direction.SWAP),)) == [True, True, False]
    # the last row takes the place of one that has left
    assert after(2, removed=(1,), moved=((2, 1, Direction.UNIDIRECTIONAL),)) == [True, False]
    # a new request takes the row of another
    assert after(2, added=(added(0, steering=0), added(1))) == [False, True]
    assert after(0, removed=(0, 1)) == []
    assert after(1, added=(added(0),)) == [True]


def test_requests_have_slots_in_v2(load: Load) -> None:
    processor = load("v1", "v2")(CONFIG, SimpleNamespace(device="cpu", max_num_reqs=8, vocab_size=WIDTH))
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
    others = torch.arange(WIDTH) != 2
    assert all(torch.equal(row[others], BIASES[others]) for row in changed)
    return (changed[:, 2] / DELTAS["0"]).tolist()


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence_in_v1(load: Load) -> None:
    processor = load("v1", ends={**ENDS, TOKENS - 1: ENDS[STOP]})(CONFIG, torch.device("cpu"), False)
    # in the last one vLLM does not know the token yet
    answers = [*(list(answer) for answer in ANSWERED), [-1]]
    # prompts that end a sentence do not count, and answers are as long as they are when the logits are steered
    arriving: list[list[int]] = [[] for _ in answers]
    new = tuple((row, params(), [STOP], arriving[row]) for row in range(len(answers)))
    processor.update_state(batch_update(len(answers), added=new))
    for filled, answer in zip(arriving, answers, strict=True):
        filled.extend(answer)
    assert raised(processor.apply(torch.zeros(len(answers), WIDTH))) == [*ANSWERED.values(), 0]


def test_the_end_of_a_turn_is_raised_where_the_answer_has_just_ended_a_sentence_in_v2(load: Load) -> None:
    prompt = [DIGIT, STOP]
    tokens = torch.zeros(8, 16, dtype=torch.int32)
    for slot, answer in enumerate(ANSWERED):
        tokens[slot, : len(prompt) + len(answer)] = torch.tensor([*prompt, *answer])
    buffers = {"prompt_len": torch.full((8,), len(prompt), dtype=torch.int32), "all_token_ids": tokens}
    state = SimpleNamespace(**{name: SimpleNamespace(gpu=buffer) for name, buffer in buffers.items()})
    processor = load("v1", "v2", ends=ENDS)(CONFIG, state)
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


def test_wrong_parameters_are_refused_when_a_request_arrives(load: Load) -> None:
    made = load("v1")
    for bad in (2, 0.5, "0", True, None, [1]):
        with pytest.raises(ValueError, match="steering must be 0 or 1"):
            made.validate_params(params(steering=bad))
