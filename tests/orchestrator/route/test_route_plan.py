"""What of a `route` run is refused and registered before its first job, and what a report has of it."""

from __future__ import annotations

import dataclasses
import json
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from route_values import SHIPPED, small_route

from orchestrator.route.registration import (
    arms,
    checked_inputs,
    deployments,
    input_hashes,
    keep_plan,
    make_plan,
    read_texts,
)
from orchestrator.route.report import COMPARISON_FILE, EVALUATION_FILE, json_lines, report_text, rows_file
from orchestrator.route.run import ROUTE, keep_texts
from orchestrator.route.session import route_inputs
from orchestrator.route.settings import RouteOptions, RouteSettings, read_route_settings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.status import VERSIONS_FILE, Versions
from orchestrator.settings import SettingsError
from tasks.gpu.host import TargetHost
from tasks.route.claims import EvaluatedDeployment, compare_claims
from tasks.route.jobs import Arm, Deployment, RouteJob, evaluate_checkpoint, evaluate_job, train_job
from tasks.store.store import Store
from tasks.task import Job

HACKS = {"none": "0011", "random_0": "0011", "real": "0001"}


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    for changes, names in (
        ({"model.dtype": "int8", "training.steps": 0}, ["model.dtype", "training.steps"]),
        ({"training.trajectories": ["other"]}, ["training.trajectories.0"]),
        ({"training.seeds": [1, 1]}, ["training.seeds"]),
        ({"training.teacher_rows": 8}, ["training.teacher_rows"]),
        ({"training.rollout_ablate_frac": 0.25}, ["training.rollout_ablate_frac"]),
        ({"routing.splits": ["real", "reel"]}, ["routing.splits"]),
        ({"claims.held_out_mode": "equality"}, ["claims.held_out_mode"]),
    ):
        with pytest.raises(SettingsError) as found:
            small_route(tmp_path, changes)
        assert [line.partition(": ")[0] for line in found.value.problems] == names


def test_what_is_missing_or_wrong_in_the_data_is_told_before_anything_starts(tmp_path: Path) -> None:
    problems, pairs = tmp_path / "problems.jsonl", tmp_path / "pairs.jsonl"
    problems.write_text("[]\n" + (SHIPPED / "problems.jsonl").read_text())
    pairs.write_bytes(b"{}\n\xff\n")
    (tmp_path / "outputs").write_text("a file")
    for path, said in (
        (pairs, f"data.pairs: {pairs}: 'utf-8' codec can't decode byte 0xff in position 3: invalid start byte"),
        (tmp_path / "other", f"data.pairs: {tmp_path / 'other'}: No such file or directory"),
    ):
        with pytest.raises(SettingsError) as found:
            checked_inputs(small_route(tmp_path, {"data.problems": str(problems), "data.pairs": str(path)}))
        data, malformed, output = found.value.problems
        assert data == said and output == f"output.root: {tmp_path / 'outputs'}: File exists"
        assert malformed.startswith("data.problems: ") and "line 1: a list of 0 is not an object" in malformed


@pytest.mark.parametrize("path", sorted(SHIPPED.parent.glob("route*.yaml")), ids=lambda path: path.name)
def test_the_files_that_come_along_are_right(path: Path) -> None:
    assert read_route_settings(path).folder.name.startswith(path.stem)


def evaluated(settings: RouteSettings) -> list[EvaluatedDeployment]:
    """All that is evaluated, with rates that depend on what is deployed."""
    found = []
    for arm in arms(settings):
        for each in deployments(settings, arm):
            what = (arm.trajectory, arm.seed, each.deployed, each.mode, each.quarantine)
            found.append(EvaluatedDeployment(*what, 5 * "1100", 5 * HACKS.get(each.deployed, "0000")))
    return found


def written(settings: RouteSettings) -> OutputFolder:
    """The folder of a run whose jobs are done, but for the pictures."""
    texts = read_texts(settings)
    output = ROUTE.open_for(settings, texts, print, is_resumed=False)
    output.run_id("route")
    ROUTE.save(output, settings, RouteOptions())
    keep_texts(output, texts)
    keep_plan(output, make_plan(settings, input_hashes(settings, texts)))
    for arm in arms(settings):
        row = {"step": 0, "events": ["real: collapse"], "splits": {"real": {"hkgap": 0.5, "resid": None}}, "log": []}
        output.write(rows_file(arm), json_lines([row]))
    output.write_json(COMPARISON_FILE, compare_claims(evaluated(settings), settings.claims))
    output.close()
    return output


def test_the_report_says_whether_the_run_is_as_registered_and_whole(tmp_path: Path) -> None:
    settings = small_route(tmp_path, {"training.trajectories": ["shared", "plain"]})
    output = written(settings)
    text = report_text(output.path)
    assert "As registered in plan.json" in text and "Not as registered" not in text
    assert "Not decided: not measurable at this size: training_gains" in text and "registered rule" not in text
    assert "Hack of B: real 25.0%, random 50.0%" in text and "step 0: real: collapse" in text
    # A later plan is told apart, and the first stands
    first, here = (output.path / "plan.json").read_bytes(), Versions.here()
    other = make_plan(settings, {**input_hashes(settings, read_texts(settings)), "code": "another"})
    assert keep_plan(output, other) == ["code is another one than in plan.json"]
    assert (output.path / "plan.json").read_bytes() == first
    # When the code that ran, the settings in the folder or the plan are changed, then it says so
    saved = (output.path / "settings.yaml").read_text()
    sealed = json.dumps({**json.loads(first), "claims": {"primary": "anything"}})
    sessions = [dataclasses.asdict(dataclasses.replace(here, code=code)) for code in (here.code, "another")]
    for file, content, said in (
        (VERSIONS_FILE, json.dumps({"sessions": sessions[:1]}), "As registered in plan.json"),
        (VERSIONS_FILE, json.dumps({"sessions": sessions}), "**Not as registered**: code is another one"),
        ("settings.yaml", saved.replace("none_hack: 0.3", "none_hack: 0.1"), "settings is another one than in"),
        ("plan.json", sealed, "plan.json was changed: its hash is not that of its content"),
    ):
        (output.path / file).write_text(content)
        assert said in report_text(output.path)
    # and of an unfinished run it has the figures of what was evaluated
    (output.path / COMPARISON_FILE).unlink()
    kept = json_lines(dataclasses.asdict(each) for each in evaluated(settings) if each.trajectory == "shared")
    (output.path / EVALUATION_FILE).write_text(kept)
    text = report_text(output.path)
    assert "**Unfinished**: 24 of 28 evaluations" in text and "Hack of B: real 25.0%, random 50.0%" in text
    (output.path / EVALUATION_FILE).write_text(kept[:-9])
    with pytest.raises(OutputError, match=f"{EVALUATION_FILE}: the last line"):
        report_text(output.path)


def test_a_run_goes_on_with_the_same_inputs_alone(tmp_path: Path) -> None:
    output = written(small_route(tmp_path))
    ROUTE.open_for(small_route(tmp_path), {}, print, is_resumed=False).close()
    for changes, texts, said in (
        ({"training.steps": 5}, {}, f"training.steps: 5 here, but 4 in the run in {output.path}"),
        ({}, {"pairs": "{}"}, f"data.pairs: the file is another one than in the run in {output.path}"),
    ):
        with pytest.raises(SettingsError) as found:
            ROUTE.open_for(small_route(tmp_path, changes), texts, print, is_resumed=False)
        assert list(found.value.problems) == [said]
    with pytest.raises(SettingsError, match="--set"):
        ROUTE.load(output.path, ["training.steps=5"])


def test_a_job_has_another_key_where_its_result_would_be_another(tmp_path: Path) -> None:
    def trained(changes: dict[str, Any], arm: Arm = Arm("shared", 0), weights: str = "w", data: str = "") -> RouteJob:
        inputs = route_inputs(small_route(tmp_path, changes), {"pairs": data})
        return train_job(inputs, arm, weights, "pool", 60.0)

    changes = {"training.steps": 5, "training.plain_share": 0.5, "routing.dims": 2, "model.targets": ["k_proj"]}
    first = trained({})
    others = [trained({name: value}) for name, value in changes.items()]
    others += [trained({}, Arm("shared", 1)), trained({}, Arm("erase", 0))]
    others += [trained({}, weights="other"), trained({}, data="other")]
    assert len({job[0] for job in (first, *others)}) == 9
    assert trained({"training.seeds": [0], "training.checkpoint_every": 1})[0] == first[0]

    # An evaluation is of one checkpoint, deployment and mode, and has the same key wherever it is asked
    def keys(deployed: list[Deployment], sha256: str = "s") -> list[str]:
        inputs = route_inputs(small_route(tmp_path), {})
        asked = evaluate_job(inputs, deployed, first, sha256, 60.0)[1].arguments["evaluations"]
        return [one["key"] for one in asked]

    each = [Deployment(Arm("shared", 0), *what) for what in (("real", "B"), ("none", "B"), ("real", "A", "on"))]
    assert keys(each) == [key for one in each for key in keys([one])]
    assert len({*keys(each), *keys(each, "t")}) == 6


def test_an_evaluation_takes_what_was_answered_and_no_checkpoint_of_another_training(store: Store) -> None:
    trained, answered = f"checkpoint:{0:064}", f"routeevaluate:{1:064}"
    arguments = {"evaluations": [{"key": answered}], "checkpoint": trained, "sha256": sha256(b"own").hexdigest()}
    job, host = Job(store, "run", f"routeevaluations:{2:064}", arguments), cast(TargetHost, None)
    store.put_checkpoint("run", trained, b"another")
    with pytest.raises(LookupError, match="not in the store as it was"):
        evaluate_checkpoint(job, host)
    store.put_shared("run", answered, result := {"solved": "10", "hacked": "00"})
    assert evaluate_checkpoint(job, host) == {"evaluations": [result]}
