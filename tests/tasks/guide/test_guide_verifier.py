"""A verifier of the user's own adds a score and tags, and its faults are named in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from guide_records import answers, ticket

from tasks.guide.jobs import VerifyInput
from tasks.guide.verifier import VerifierError, load_verifier, verified

SOURCE = """
def lengths(ticket, candidate):
    return len(candidate["reason"] or ""), ["malformed"] if candidate["verdict"] is None else []

def labels(ticket, candidate):
    return 0.5, [ticket["label"], *ticket["per_image"]]

def fails(ticket, candidate):
    raise KeyError("no such key\\nat all")

def returns(value):
    return lambda ticket, candidate: value

just_a_number = returns(1.0)
not_finite = returns((float("nan"), []))
no_score = returns((True, []))
tags_are_none = returns((1.0, [7]))
number = 7
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_verifiers", raising=False)
    path = tmp_path / "my_verifiers.py"
    path.write_text(SOURCE)
    return path


def asked(name: str, identity: str = "") -> VerifyInput:
    return VerifyInput(name, identity or load_verifier(name).identity, ticket(), answers(("pass", 0.5), None))


def test_each_candidate_gets_a_score_and_tags() -> None:
    assert verified(asked("my_verifiers:lengths")) == [
        {"verifier_score": float(len("as the images show")), "verifier_tags": []},
        {"verifier_score": 0.0, "verifier_tags": ["malformed"]},
    ]
    assert verified(asked("my_verifiers:labels"))[0]["verifier_tags"] == ["pass", "image_1", "image_2"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fails", "the verifier my_verifiers:fails failed: KeyError: 'no such key"),
        *(
            (name, f"the verifier my_verifiers:{name} returned no finite score")
            for name in ("just_a_number", "not_finite", "no_score", "tags_are_none")
        ),
        ("number", "is no function"),
        ("nobody", "cannot be loaded"),
    ],
)  # fmt: skip
def test_a_verifier_that_cannot_be_used_is_named(name: str, said: str) -> None:
    with pytest.raises(VerifierError, match=said) as error:
        verified(asked(f"my_verifiers:{name}"))
    assert "\n" not in str(error.value)


def test_another_source_is_another_verifier(module: Path) -> None:
    """Given a worker whose file differs from that of the command, then nothing is kept under the command's key."""
    before = load_verifier("my_verifiers:lengths").identity
    module.write_text(SOURCE.replace("0.5", "0.6"))
    assert load_verifier("my_verifiers:lengths").identity != before
    with pytest.raises(VerifierError, match="is not that of the command's machine"):
        verified(asked("my_verifiers:lengths", before))
