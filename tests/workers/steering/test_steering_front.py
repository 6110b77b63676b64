"""The deltas that a request chooses from a front by a dial, and the values that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.dial import Dial, Knot
from workers.steering.deltas import check_deltas
from workers.steering.front import MOST_FRONT_BYTES, load_front
from workers.steering.request import check_params

HASH = "0123456789abcdef"
DIAL = Dial(
    HASH,
    "Be concise.",
    (0.5, -0.25, 0.1),
    (
        Knot("zero", 0.0, 90.0, 0.7, (0.0, 0.0, 0.0)),
        Knot("a", 0.3, 66.0, 0.65, (0.7, -0.1, 0.3)),
        Knot("b", 1.0, 10.0, 0.5, (3.1, 0.2, -1.7)),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / f"{HASH}.npy", np.asarray([0, 1, 2, 2, 1], dtype=np.uint8))
    (tmp_path / f"{DIAL.front}.json").write_text(json.dumps(DIAL.document()))
    return tmp_path


def chosen(folder: Path, **params: Any) -> list[float]:
    return check_params({"front": DIAL.front, **params}, folder).deltas.tolist()


@pytest.mark.parametrize("dial", [0, 0.0, 0.1, 0.3, 0.55, 0.999, 1, 1.0])
def test_a_dial_gives_exactly_the_deltas_that_would_be_sent(folder: Path, dial: float) -> None:
    # Given the deltas that a client interpolates with dial.json, and the same dial sent to the server
    sent = check_deltas(list(DIAL.deltas_at(dial)))
    # Then the server has the same float32 numbers, of the front's clustering
    assert chosen(folder, dial=dial) == sent.tolist()
    steering = check_params({"front": DIAL.front, "dial": dial}, folder)
    assert steering.clustering == HASH and steering.labels.tolist() == [0, 1, 2, 2, 1]


def test_knots_are_met_exactly(folder: Path) -> None:
    for knot in DIAL.knots:
        expected = np.asarray(knot.deltas, np.float32).tolist()
        assert chosen(folder, dial=knot.dial) == expected
        assert chosen(folder, target_tokens=knot.mean_tokens) == expected


@pytest.mark.parametrize(
    ("tokens", "dial"), [(1000, 0.0), (10**400, 0.0), (90, 0.0), (78, 0.15), (38, 0.65), (10, 1.0), (0.5, 1.0)]
)
def test_a_number_of_tokens_is_a_dial_and_beyond_the_knots_the_nearest_one(
    folder: Path, tokens: float, dial: float
) -> None:
    assert chosen(folder, target_tokens=tokens) == pytest.approx(chosen(folder, dial=dial), abs=1e-6)


def test_without_a_choice_the_default_steers(folder: Path) -> None:
    assert chosen(folder) == np.asarray(DIAL.default, np.float32).tolist()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"dial": -0.01}, "from 0 to 1, not -0.01"),
        ({"dial": 1.01}, "from 0 to 1"),
        ({"dial": float("nan")}, "from 0 to 1"),
        ({"dial": "0.5"}, "from 0 to 1"),
        ({"dial": True}, "from 0 to 1"),
        ({"dial": [0.5]}, "from 0 to 1"),
        ({"dial": 10**400}, "from 0 to 1"),
        ({"target_tokens": 0}, "above 0"),
        ({"target_tokens": float("inf")}, "above 0"),
        ({"target_tokens": "60"}, "above 0"),
        ({"dial": 0.5, "target_tokens": 60}, "either dial or target_tokens"),
        ({"dial": 0.5, "deltas": [0, 0, 0]}, "unknown keys: deltas"),
        ({"front": "../labels"}, "front must be 16 to 64"),
        ({"front": "f" * 32}, "no front"),
    ],
)
def test_what_is_no_choice_is_refused_in_a_sentence(folder: Path, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        chosen(folder, **params)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"knots": []}, "at least two knots"),
        ({"knots": [{"dial": 0}, {"dial": 1}]}, "is no front: 'deltas'"),
        ({"knots": None}, "at least two knots"),
        ({"default": [0.0, 0.0]}, "one number for each cluster"),
        ({"default": [0.0, 0.0, 2000.0]}, "must be from -1000 to 1000"),
        ({"knots": [*DIAL.document()["knots"][:2]]}, "rise from 0 to 1"),
        ({"knots": [*DIAL.document()["knots"][::-1]]}, "rise from 0 to 1"),
        ({"knots": [{**knot, "mean_tokens": 5.0} for knot in DIAL.document()["knots"]]}, "must fall"),
        ({"knots": [{**knot, "mean_tokens": "5"} for knot in DIAL.document()["knots"]]}, "must be numbers"),
        ({"clustering": "../x"}, "clustering must be"),
        ({"clustering": 5}, "needs a clustering"),
    ],
)
def test_a_file_that_is_no_front_is_refused(folder: Path, change: dict[str, Any], said: str) -> None:
    (folder / f"{'ab' * 8}.json").write_text(json.dumps({**DIAL.document(), **change}))
    with pytest.raises(ValueError, match=said):
        check_params({"front": "ab" * 8, "dial": 0.5}, folder)


LARGE = {"deep": "[" * 100_000, "long": " " * (MOST_FRONT_BYTES + 1)}


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"knots": 3}', *LARGE])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / f"{HASH}.json").write_text(LARGE.get(text, text))
    with pytest.raises(ValueError, match=HASH):
        load_front(tmp_path, HASH)


def test_a_front_of_other_clusters_is_refused(folder: Path) -> None:
    np.save(folder / f"{HASH}.npy", np.asarray([0, 1, 2, 3], dtype=np.uint8))
    with pytest.raises(ValueError, match="3 numbers, but the clustering has 4 clusters"):
        chosen(folder, dial=0.5)
