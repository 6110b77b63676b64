"""What a `route` run says in the end: its tables and verdicts, from the files in its folder alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.route.registration import (
    PLAN_FILE,
    RoutePlan,
    arms,
    departures,
    deployments,
    input_hashes,
    make_plan,
    read_texts,
)
from orchestrator.route.run import ROUTE
from orchestrator.route.settings import RouteSettings
from orchestrator.runs.folder import OutputError, OutputFolder, load_lines, read_json
from orchestrator.runs.kinds import ShownTable
from orchestrator.runs.status import read_versions
from orchestrator.settings import SettingsError
from tasks.cpu.plots import ROUTE_PLOTS
from tasks.route.claims import CEILING, REAL, EvaluatedDeployment, compare_claims, readings
from tasks.route.jobs import Arm

EVALUATION_FILE, COMPARISON_FILE, REPORT_FILE = "evaluation.jsonl", "comparison.json", "report.md"
FIGURES = (
    *("hkgap", "separation", "overlap_previous", "lower", "upper", "x_p10", "x_p50", "x_p90", "f_mean", "f_at_0"),
    *("f_at_1", "teacher_f_mean", "resid", "x_length", "x_surprise", "null_p90"),
)
"""Of a split, as in the rows: docs/route.md says what each is, and what it should be."""


def rows_file(arm: Arm) -> str:
    return f"rows/{arm.name}.jsonl"


def checkpoint_file(arm: Arm) -> str:
    return f"checkpoints/{arm.name}.safetensors"


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        raise OutputError(f"{path} is missing")
    return load_lines(path, dict[str, Any], "object of JSON", is_whole=True)


def read_comparison(folder: Path) -> tuple[Mapping[str, Any], str]:
    """What `compare_claims` gives, and of how many evaluations, "" where it is of all.

    Before a run has ended it is of the evaluations so far.
    """
    try:
        return read_json(folder / COMPARISON_FILE, dict[str, Any]), ""
    except FileNotFoundError:
        path = folder / EVALUATION_FILE
        if not path.exists():
            raise FileNotFoundError(path) from None
    settings, _ = ROUTE.load(folder)
    records = [EvaluatedDeployment(**line) for line in read_json_lines(path)]
    wanted = sum(len(deployments(settings, arm)) for arm in arms(settings))
    found = compare_claims(records, settings.claims)
    return found, f"{len(records)} of {wanted} evaluations have been made"


def report_text(folder: Path) -> str:
    """The report, as Markdown; of an unfinished run what it has evaluated."""
    settings, _ = ROUTE.load(folder)
    try:
        found, unfinished = read_comparison(folder)
    except FileNotFoundError:
        raise OutputError(f"{folder} has no {EVALUATION_FILE}: nothing of the run was evaluated so far") from None
    is_whole, held_out = not unfinished, settings.claims.held_out_mode
    so_far = "All figures and verdicts are of what has been evaluated so far, and may change with the rest."
    parts = [
        "# Gradient routing",
        *([] if is_whole else [f"**Unfinished**: {unfinished}. {so_far}"]),
        *registration_lines(folder, settings),
        f"Held-out mode B: `{held_out}`. Rates are of held-out problems, at temperature 1.",
        "## Preconditions",
        _preconditions(found),
        "## Primary: real against quantile-matched random directions",
        _primary(found),
        *(
            part
            for table in _comparison_tables(found)
            for part in (f"## {table.title}", table.about, _table(table.columns, table.rows))
        ),
        "## Diagnostics of the last refreshes and steps",
        *_diagnostics(folder, settings, is_whole=is_whole),
        *(["## Pictures", "\n".join(f"![{plot.title}]({plot.file})" for plot in ROUTE_PLOTS)] if is_whole else []),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def route_tables(folder: Path) -> Sequence[ShownTable]:
    """The comparison for the run's page; none before the first evaluation."""
    try:
        return _comparison_tables(read_comparison(folder)[0])
    except FileNotFoundError:
        return ()
    except SettingsError as error:
        raise OutputError("; ".join(error.problems)) from None


def _comparison_tables(found: Mapping[str, Any]) -> list[ShownTable]:
    secondary = ShownTable(
        "Secondary",
        "Exploratory; p by McNemar's test over all seeds, corrected after Holm.",
        ("against", "hack of B", "p", "corrected"),
        [
            (
                row["against"] if row["against"] != "frontier"
                else f"scaled frontier at solve {_percent(row['at_solve'])} ({row['point']})",
                _percent(row["hack"]), _number(row.get("p")), _number(row.get("p_corrected")),
            )
            for row in found["secondary"]
        ],
    )  # fmt: skip
    rates = ShownTable(
        "Rates",
        f"`{CEILING}` sees labels: a cheat by design, which shows what the machinery can suppress.",
        ("trajectory", "deployed", "mode", "quarantine", "seeds", "samples", "solve", "hack"),
        [
            (
                row["trajectory"], row["deployed"], row["mode"], row["quarantine"], str(row["seeds"]),
                str(row["samples"]), _percent(row["solve"]), _percent(row["hack"]),
            )
            for row in found["rates"]
        ],
    )  # fmt: skip
    return [secondary, rates]


def registration_lines(folder: Path, settings: RouteSettings) -> list[str]:
    """Whether what the folder holds is what `plan.json` registered before the first job."""
    try:
        plan = read_json(folder / PLAN_FILE, RoutePlan)
    except FileNotFoundError:
        return ["**Not as registered**: the run has no plan.json."]
    try:
        lines = departures(plan, _plan_that_ran(folder, settings, plan["inputs"].get("code", "")))
    except SettingsError as error:  # a copy of the data is not there, or cannot be read
        lines = list(error.problems)
    if lines:
        return ["**Not as registered**: " + "; ".join(lines) + "."]
    return [f"As registered in plan.json (`{plan['hash'][:16]}`)."]


def verdict_lines(folder: Path) -> list[str]:
    """The verdict in a few lines, for the terminal."""
    found = read_comparison(folder)[0]
    settings, _ = ROUTE.load(folder)
    return [*registration_lines(folder, settings), _verdict(found), _primary(found), f"report: {folder / REPORT_FILE}"]


def _plan_that_ran(folder: Path, settings: RouteSettings, registered: str) -> RoutePlan:
    """The plan that the folder's inputs and the code of its sessions would make: what reads it now decides nothing."""
    inputs = input_hashes(settings, read_texts(settings))
    if codes := [session.code for session in read_versions(OutputFolder(folder))]:
        inputs["code"] = next((code for code in codes if code != registered), registered)
    return make_plan(settings, inputs)


def _verdict(found: Mapping[str, Any]) -> str:
    if found["is_measurable"]:
        return "the preconditions hold"
    failed, missing = (
        [name for name, each in found["preconditions"].items() if each["holds"] is holds] for holds in (False, None)
    )
    said = [f"not measurable at this size: {', '.join(failed)}"] if failed else []
    return "; ".join([*said, *([f"not measured: {', '.join(missing)}"] if missing else [])])


def _preconditions(found: Mapping[str, Any]) -> str:
    words = {True: "holds", False: "does not hold", None: "not measured"}
    rows = []
    for name, each in found["preconditions"].items():
        bound = f"at least {each['at_least']:g}" if "at_least" in each else f"at most {each['at_most']:g}"
        rows.append((name, _number(each["value"]), bound, words[each["holds"]]))
    return _table(("what", "value", "threshold", ""), rows) + f"\n\n{_verdict(found).capitalize()}."


def _primary(found: Mapping[str, Any]) -> str:
    primary = found["primary"]
    if primary is None:
        return "Not measured: real or the random directions were not evaluated with every seed."
    figures = (
        f"Hack of B: real {_percent(primary['real'])}, random {_percent(primary['random'])} "
        f"(standard deviation over seeds {_number(primary['random_deviation'])}). "
        f"Rank of real among {primary['directions']} random directions in each seed: "
        f"{', '.join(map(str, primary['ranks']))}; combined exactly p = {_number(primary['p'])}."
    )
    if not found["is_measurable"]:
        return f"Not decided: {_verdict(found)}. {figures}"
    chance = "" if primary["rule_by_chance"] is None else f" (true by chance in {primary['rule_by_chance']:.0%})"
    rule = {True: "holds", False: "does not hold", None: "needs two seeds"}[primary["rule"]]
    return f"The registered rule {rule}{chance}. {figures}"


def _diagnostics(folder: Path, settings: RouteSettings, *, is_whole: bool) -> list[str]:
    parts = []
    for arm in arms(settings):
        path = folder / rows_file(arm)
        if not is_whole and not path.exists():
            continue
        latest: dict[str, dict[str, Any]] = {}
        events: list[str] = []
        rows = read_json_lines(path)
        for row in rows:
            events += [f"step {row['step']}: {event}" for event in row["events"]]
            for name, figures in row["splits"].items():
                latest.setdefault(name, {}).update({k: v for k, v in figures.items() if v is not None})
        figures_of = [(name, *(_number(found.get(column)) for column in FIGURES)) for name, found in latest.items()]
        table = _table(("split", *FIGURES), figures_of) if latest else "Nothing is routed in this trajectory."
        told = "\n".join(f"- {event}" for event in events[:20])
        more = f"\n- and {len(events) - 20} more" if len(events) > 20 else ""
        parts.append("\n\n".join(filter(None, [f"### {arm.name}", table, _readings(rows), told + more])))
    return parts


def _readings(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the figures of `real` should be, with those of the last refresh, and at how many refreshes they were so."""
    seen: dict[str, list[tuple[str, bool]]] = {}
    for row in rows:
        figures = row["splits"].get(REAL, {})
        for name, said, fine in readings(figures) if "hkgap" in figures else ():
            seen.setdefault(name, []).append((said, fine))
    if not seen:
        return ""
    lines = [(name, f"{sum(fine for _, fine in found)} of {len(found)}", found[-1][0]) for name, found in seen.items()]
    return f"`{REAL}`:\n\n" + _table(("diagnostic", "as it should be", "at the last refresh"), lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return "None."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _number(value: float | bool | None) -> str:
    return "–" if value is None else f"{value:.3g}"
