"""Tables of judged tickets: what learned experiences gain, and what a gate does with edits of known worth."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.gpu.guide_conditions import (
    Learned,
    condition_rows,
    experiences_under,
    gain_rows,
    gains,
    join,
    possible_share,
    read_learned,
)
from benchmarks.gpu.guide_gate_model import class_rows, decisions, edits_of, gate_bounds, records_of
from benchmarks.gpu.guide_judging import (
    clustered_mean,
    generated,
    greedy_scores,
    plan_of,
    sampled_scores,
)
from benchmarks.gpu.guide_prompts import messages_for
from benchmarks.gpu.guide_verdicts import scores
from orchestrator.guide.tickets.missions import CABINET, SOLAR
from tasks.guide.ticket import Ticket

LABELS = "pfpf"
BLIND = {"labels": LABELS, "greedy": "pppp", "sampled": "pppppppp" * 2 + "pppppppf" + "pppppppp"}
SEEING = {"labels": LABELS, "greedy": "pfpf", "sampled": "pppppppp" + "ffffffff" + "pppppppp" + "fffffffp"}
WORSE = {"labels": LABELS, "greedy": "fppf", "sampled": "ffffffff" + "pppppppp" + "pppppppp" + "fffffffp"}


def test_the_letters_are_split_into_greedy_and_sampled_candidates() -> None:
    assert [t.candidates for t in greedy_scores(SEEING)] == [("pass",), ("fail",), ("pass",), ("fail",)]
    assert sampled_scores(SEEING)[3].candidates == (*["fail"] * 7, "pass")
    assert sampled_scores({**SEEING, "sampled": ""}) == ()


def test_learned_is_compared_with_each_other_condition_by_ticket() -> None:
    places = [(11, 0), (11, 1), (12, 0)]
    judged = {
        "none": dict.fromkeys(places, BLIND),
        "initial": dict.fromkeys(places, BLIND),
        "learned": {places[0]: SEEING, places[1]: SEEING, places[2]: WORSE},
        "planted": dict.fromkeys(places, SEEING),
    }
    none, _, learned, planted = condition_rows(judged)
    assert none[1:8] == ["3", "12", "50.0", "50.0", "50.0", "50.0", "100.0"]
    assert learned[:8] == ["learned", "3", "12", "83.3", "83.3", "83.3", "83.3", "16.7"]
    assert planted[3] == "100.0" and planted[9].startswith("+50.0 (+")
    assert [sum(group) / len(group) for group in gains(judged["learned"], judged["none"], "greedy")] == [0.5, 0.5, 0.0]
    rows = list(gain_rows(judged))
    assert rows[0][:3] == ["greedy", "learned - none", "3"] and rows[0][3].startswith("+33.3 (")
    assert possible_share(judged, "greedy") == pytest.approx(2 / 3)
    assert possible_share({**judged, "planted": judged["none"]}, "greedy") is None


def test_runs_are_clusters_of_the_interval() -> None:
    one = clustered_mean([[1.0] * 50, [0.0] * 50])
    assert (one.value, one.low, one.high, one.count) == (0.5, 0.0, 1.0, 2)
    assert clustered_mean([]).value is None


def test_controls_have_as_many_texts_as_were_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = {"G0": CABINET.first, "G2": "a", "G3": "b", "G4": "c", "G5": "d"}
    runs = {"11": {"missions": {CABINET.name: {"experiences": learned}, SOLAR.name: {"experiences": {"G0": "s"}}}}}
    (tmp_path / "one.json").write_text(json.dumps({"shape": "half", "prompt": "plain", "runs": runs}))
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    shape, prompt, found = read_learned(["one"])
    assert (shape, found[1]) == ("half", Learned(11, 1, {"G0": "s"}))
    under = {name: experiences_under(name, found[0], found, shape) for name in ("none", "tips", "other", "learned")}
    assert under["none"] == {} and under["other"] == {"G0": "s"} and under["learned"] == learned
    assert len(under["tips"]) == 5 and len(set(under["tips"].values())) == 5
    plan = plan_of(shape, 0)
    ticket_messages = messages_for(plan, under["none"], ticket := _ticket(), prompt)
    assert (
        "## Experiences\nnone\n" in ticket_messages[1]
        and messages_for(plan, learned, ticket, prompt) != ticket_messages
    )


def _ticket() -> Ticket:
    return generated("half", 0, 2, 1, "test")[0]


def test_each_edit_adds_one_text_that_the_base_has_not() -> None:
    edits = edits_of("full", 2, 5)
    assert len(edits) == 4 * (6 + 4) and all(edit.text not in edit.before for edit in edits)
    assert [edit.base for edit in edits] == [0] * 24 + [1] * 16
    assert {len(edit.before) for edit in edits if edit.base} == {3}


def test_the_gate_decides_on_each_third_and_the_others_say_what_an_edit_is_worth() -> None:
    before = scores("pf" * 48, "pppppppp" * 96)
    after = scores("pf" * 48, ("pppppppp" + "ffffffff") * 48)
    found = list(decisions(before, after, gate_bounds(), 1))
    assert [(one["fold"], one["worth"], one["apply"]) for one in found] == [(fold, 0.5, True) for fold in range(3)]
    back = list(decisions(after, before, gate_bounds(), 1))
    assert all(one["reason"] == "uplift" and one["worth"] == -0.5 for one in back)
    about = {"mission": 0, "base": 0, "kind": "rule", "name": "rule-wire"}
    rows = {row[0]: row[1:] for row in class_rows([about | one for one in [*found, *back]])}
    assert rows["worth 5 points or more"][:5] == ["1", "3", "3", "+50.0", "100.0"]
    assert rows["costs 5 points or more"][:5] == ["1", "3", "0", "-50.0", "0.0"]
    assert rows["0 to 5 points"] == ["0", "0", "0", "-", "-", "-"]


def test_an_edit_is_decided_on_when_both_sides_are_judged() -> None:
    options = argparse.Namespace(shape="full", prompt="plain", seed=1, tickets=4)
    edit = edits_of("full", 1, 1)[0]
    names = [edit.unit(options, is_edited=one).name for one in (False, True)]
    assert records_of(edit, {names[0]: BLIND}, gate_bounds(), options) == []
    assert len(records_of(edit, {names[0]: BLIND, names[1]: SEEING}, gate_bounds(), options)) == 3


def test_results_of_several_runs_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    for seed, found in ((11, SEEING), (12, WORSE)):
        units = [
            {"unit": {"name": name, "seed": seed, "mission": 0}, "found": one}
            for name, one in (("none", BLIND), ("learned", found))
        ]
        (tmp_path / f"part-{seed}.json").write_text(json.dumps({"command": f"c {seed}", "model": "m", "units": units}))
    judged = join(["part-11", "part-12"], "whole")
    assert judged["learned"] == {(11, 0): SEEING, (12, 0): WORSE}
    whole = json.loads((tmp_path / "whole.json").read_text())
    assert whole["command"] == ["c 11", "c 12"] and len(whole["units"]) == 4 and whole["model"] == "m"
    assert whole["tables"]["conditions"][1][:3] == ["learned", "2", "8"]
