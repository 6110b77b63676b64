"""What is registered before the first job, and what a report has of it and of what was evaluated so far."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from page_reader import page_of
from route_values import SHIPPED, evaluated_arms, small_route

from orchestrator.route.registration import (
    arms,
    checked_inputs,
    deployments,
    input_hashes,
    keep_plan,
    make_plan,
    plan_lines,
    read_texts,
)
from orchestrator.route.report import (
    COMPARISON_FILE,
    EVALUATION_FILE,
    REPORT_FILE,
    json_lines,
    read_comparison,
    report_text,
    route_tables,
    rows_file,
    verdict_lines,
)
from orchestrator.route.run import ROUTE, keep_texts
from orchestrator.route.settings import RouteOptions, RouteSettings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.status import VERSIONS_FILE, Versions
from orchestrator.settings import SettingsError
from tasks.route.claims import Thresholds, compare_claims


def plan(settings: RouteSettings) -> dict[str, str]:
    return input_hashes(settings, read_texts(settings))


def written(settings: RouteSettings) -> OutputFolder:
    """The folder of a run whose jobs are done, but for the pictures."""
    output = ROUTE.open_for(settings, read_texts(settings), print, is_resumed=False)
    output.run_id("route")
    ROUTE.save(output, settings, RouteOptions())
    keep_texts(output, read_texts(settings))
    keep_plan(output, make_plan(settings, plan(settings)))
    figures = {"hkgap": 0.5, "lower": -0.1, "upper": 0.4, "x_p50": 0.2, "resid": None}
    for arm in arms(settings):
        rows = [{"step": 0, "events": ["real: collapse"], "splits": {"real": figures}, "log": []}]
        output.write(rows_file(arm), json_lines(rows))
    found = compare_claims(evaluated_arms(settings), Thresholds("sentinel", 0.3, 0.05, 0.5, 0.05))
    output.write_json(COMPARISON_FILE, found)
    output.write(REPORT_FILE, report_text(output.path))
    output.close()
    return output


def test_the_report_says_whether_the_run_is_as_registered(tmp_path: Path) -> None:
    settings = small_route(tmp_path, training__trajectories=["shared", "plain"])
    output = written(settings)
    text = (output.path / "report.md").read_text()
    assert "As registered in plan.json" in text and "Not as registered" not in text
    assert "Hack of B: real 25.0%, random 50.0%" in text
    assert "not measurable at this size: training_gains" in "\n".join(verdict_lines(output.path))
    assert "Not decided: not measurable at this size: training_gains" in text and "registered rule" not in text
    assert "step 0: real: collapse" in text
    # When the settings in the folder are changed, then it says so
    kept = (output.path / "settings.yaml").read_text()
    (output.path / "settings.yaml").write_text(kept.replace("none_hack: 0.3", "none_hack: 0.1"))
    changed = report_text(output.path)
    assert "**Not as registered**: settings is another one than in plan.json; the claims are others" in changed
    (output.path / "settings.yaml").write_text(kept)
    # and when the plan is
    sealed = json.loads((output.path / "plan.json").read_text())
    content = {name: sealed[name] for name in ("thresholds", "inputs", "hash")}
    OutputFolder(output.path).write_json("plan.json", {**content, "claims": {"primary": "anything"}})
    assert "plan.json was changed: its hash is not that of its content" in report_text(output.path)
    (output.path / "plan.json").unlink()
    assert "the run has no plan.json" in report_text(output.path)


def test_the_first_plan_stands_and_the_code_that_ran_decides_whether_a_run_is_as_registered(tmp_path: Path) -> None:
    settings = small_route(tmp_path)
    output = written(settings)
    first, here = (output.path / "plan.json").read_bytes(), Versions.here()
    assert keep_plan(output, make_plan(settings, plan(settings))) == []
    other = make_plan(settings, {**plan(settings), "code": "another"})
    assert keep_plan(output, other) == ["code is another one than in plan.json"]
    assert (output.path / "plan.json").read_bytes() == first
    for codes, said in (
        ([here.code], "As registered in plan.json"),
        ([here.code, "another"], "**Not as registered**: code is another one than in plan.json."),
    ):
        sessions = [dataclasses.asdict(dataclasses.replace(here, code=code)) for code in codes]
        output.write_json(VERSIONS_FILE, {"sessions": sessions})
        assert said in report_text(output.path)
    (output.path / "plan.json").write_text("{")
    with pytest.raises(OutputError, match="cannot be read"):
        keep_plan(output, other)


def unfinished(tmp_path: Path) -> Path:
    """The folder of a run of which the last trajectory is not evaluated."""
    settings = small_route(tmp_path, training__trajectories=["shared", "plain", "erase"])
    output = written(settings)
    (output.path / COMPARISON_FILE).unlink()
    kept = [dataclasses.asdict(each) for each in evaluated_arms(settings) if each.trajectory != "erase"]
    (output.path / EVALUATION_FILE).write_text(json_lines(kept))
    return output.path


def test_an_unfinished_run_has_the_figures_of_what_was_evaluated(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    said = "28 of 32 evaluations have been made"
    assert read_comparison(folder)[1] == said
    for path in (folder / "rows").iterdir():
        if path.name.startswith("erase"):
            path.unlink()  # its training has not ended
    text = report_text(folder)
    _, first, *_ = text.split("\n\n")  # below the title, before any verdict
    assert first.startswith(f"**Unfinished**: {said}. ") and "verdicts are of what has been evaluated so far" in first
    assert "Hack of B: real 25.0%, random 50.0%" in text and "### shared_seed0" in text
    assert "erase" not in text and "## Pictures" not in text
    assert [table.title for table in route_tables(folder)] == ["Secondary", "Rates"]
    (folder / "run.json").write_text(json.dumps({"id": "route-1", "kind": "route", "folder": str(folder)}))
    page = page_of(folder).seen
    assert all(table.title in page and str(table.rows[0][0]) in page for table in route_tables(folder))


def test_the_comparison_is_made_again_from_the_evaluations_alone(tmp_path: Path) -> None:
    every = ["shared", "plain", "erase", "ablated"]
    settings = small_route(tmp_path, training__trajectories=every, training__rollout_ablate_frac=0.25)
    folder = written(settings).path
    (folder / EVALUATION_FILE).write_text(json_lines(map(dataclasses.asdict, evaluated_arms(settings))))
    stored = json.loads((folder / COMPARISON_FILE).read_text())
    (folder / COMPARISON_FILE).unlink()
    found = json.loads(json.dumps(read_comparison(folder)[0]))
    assert found.items() <= stored.items()
    against = {row["against"] for row in found["secondary"]}
    assert {"trajectory erase", "trajectory ablated", "frontier"} <= against


def test_a_file_that_is_missing_or_was_cut_short_is_named(tmp_path: Path) -> None:
    folder = unfinished(tmp_path)
    for name in (EVALUATION_FILE, "rows/shared_seed0.jsonl"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-9])
        with pytest.raises(OutputError, match=f"{Path(name).name}: the last line"):
            report_text(folder)
        (folder / name).write_bytes(whole)
    finished = written(small_route(tmp_path, output__run_id="finished")).path
    (finished / "rows" / "shared_seed0.jsonl").unlink()
    with pytest.raises(OutputError, match=r"shared_seed0\.jsonl "):
        report_text(finished)


def test_a_run_goes_on_with_the_same_inputs_alone(tmp_path: Path) -> None:
    output = written(small_route(tmp_path))
    ROUTE.open_for(small_route(tmp_path), {}, print, is_resumed=False).close()
    with pytest.raises(SettingsError) as found:
        ROUTE.open_for(small_route(tmp_path, training__steps=5), {}, print, is_resumed=False)
    assert list(found.value.problems) == [f"training.steps: 5 here, but 4 in the run in {output.path}"]
    settings, options = ROUTE.load(output.path, ["farm.gpu_jobs=7"])
    assert (settings.folder.resolve(), options.gpu_jobs) == (output.path.resolve(), 7)
    for override in ("training.steps=5", "farm.gpu_jobs", "nothing=1"):
        with pytest.raises(SettingsError, match="--set"):
            ROUTE.load(output.path, [override])
    # and another run takes its place where the settings say so
    aside: list[str] = []
    again = small_route(tmp_path, training__steps=5, output__fail_if_exists=False)
    ROUTE.open_for(again, {}, aside.append, is_resumed=False).close()
    assert aside == [f"the earlier run is now in {output.path}.1"]


def test_a_plan_has_jobs_and_no_hours(tmp_path: Path) -> None:
    lines = plan_lines(small_route(tmp_path))
    assert "jobs          1 gpu.bases, 1 cpu.pool, 2 gpu.train, 2 gpu.evaluate" in lines
    assert any(line.startswith("hours         unknown for small") for line in lines)


def test_each_trajectory_is_evaluated_as_what_it_deploys(tmp_path: Path) -> None:
    settings = small_route(
        tmp_path, training__trajectories=["shared", "plain", "erase", "ablated"], training__rollout_ablate_frac=0.25
    )
    seeds = len(settings.training.seeds)
    # All seeds of a trajectory come before the next one: a run that is cut has what its primary claim needs.
    names = [{(d.deployed, d.quarantine) for d in deployments(settings, arm)} for arm in arms(settings)[::seeds]]
    shared = ("none", "untrained", "scaled_0.5", "real", "ceiling", "random_0")
    assert names == [
        {(name, "off") for name in shared},
        {("none", "off")},
        {("erase", "off")},
        {("real", "off"), ("real", "on")},
    ]


def refused(settings: RouteSettings) -> str:
    with pytest.raises(SettingsError) as found:
        checked_inputs(settings, is_planned=True)
    return "\n".join(found.value.problems)


def test_what_is_missing_or_wrong_in_the_data_is_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file")
    with pytest.raises(SettingsError) as found:
        checked_inputs(small_route(tmp_path, data__pairs="no/such/pairs.jsonl"))
    assert [line.partition(": ")[2] for line in found.value.problems] == [
        "no/such/pairs.jsonl: No such file or directory",
        f"{tmp_path / 'outputs'}: File exists",
    ]
    problems, pairs = tmp_path / "problems.jsonl", tmp_path / "pairs.jsonl"
    mine = small_route(tmp_path, data__problems=str(problems), data__pairs=str(pairs))
    problems.write_text("[]\n" + (SHIPPED / "problems.jsonl").read_text())
    pairs.write_text("{}\n" + (SHIPPED / "pairs.jsonl").read_text())
    said = refused(mine)
    assert "data.problems: " in said and "line 1: a list of 0 is not an object" in said
    assert "data.pairs: " in said and "line 1: prompt, cho, rej, mode: are missing" in said
    pairs.write_bytes(b"{}\n\xff\n")
    assert "pairs.jsonl: 'utf-8' codec can't decode byte 0xff in position 3" in refused(mine)
