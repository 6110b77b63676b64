"""The text of `orchestrator compare`: rows without a figure are left out, and widths fit."""

from __future__ import annotations

from orchestrator.digest import Digest
from orchestrator.report.digests import digest_lines, flat_record

BEGUN = Digest(run="a\x1b", kind="evolve", folder="f", state="running", progress="0 of 2 generations", reason="")
ENDED = Digest(
    run="b", kind="evolve", folder="g", state="finished", progress="2 of 2 generations", reason="", verdict="A win.",
    tokens_before=52.15, tokens_after=24.7, token_change=-0.5264, token_change_interval=(-0.62, -0.39),
    right_change=0.0, questions=40, measured_on="test", cost_usd=0.5, calls=3,
)  # fmt: skip


def test_rows_that_no_run_has_are_left_out() -> None:
    lines = digest_lines([BEGUN], 80)
    assert lines[0] == "a\\x1b: running, 0 of 2 generations done"
    assert not any(line.startswith(("tokens an answer", "rival", "cost")) for line in lines)


def test_figures_stand_side_by_side() -> None:
    lines = digest_lines([BEGUN, ENDED], 80)
    rows = {line.split("  ")[0]: line.split()[-6:] for line in lines}
    assert "-52.6 % (-62.0 to -39.0)" in next(line for line in lines if line.startswith("change of tokens"))
    assert rows["tokens an answer"][-4:] == ["–", "52.1", "->", "24.7"]
    assert next(line for line in lines if line.startswith("cost")).endswith("$0.5000")


def test_three_runs_fit_a_terminal_of_eighty_columns() -> None:
    lines = digest_lines([BEGUN, ENDED, ENDED], 80)
    assert max(map(len, lines)) <= 80
    place = next(i for i, line in enumerate(lines) if line.startswith("change of tokens"))
    assert " ".join(" ".join(lines[place : place + 2]).split()) == (
        "change of tokens – -52.6 % (-62.0 to -52.6 % (-62.0 to -39.0) -39.0)"
    )


def test_a_record_for_csv_has_plain_values_only() -> None:
    begun, ended = flat_record(BEGUN), flat_record(ENDED)
    assert list(begun) == list(ended)
    assert (ended["token_change_interval_low"], begun["token_change_interval_low"]) == (-0.62, None)
    assert all(value is None or isinstance(value, str | int | float) for value in ended.values())
