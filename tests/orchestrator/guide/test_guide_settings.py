"""The YAML of `guide`: what is missing, unknown, of the wrong type or out of range is told at once, by dotted name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from dotted_values import with_value, without_key
from guide_values import setting_problems

from orchestrator.guide.settings import GuideSettings, guide_settings_from, read_guide_settings, settings_hash
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten

# The keys that a file must have, written down a second time, so that none can be dropped by mistake.
MANDATORY = """
stage_a_paths missions model.model_name_or_path guidance.path guidance.retention output.root
sampler.group_batch_size sampler.samples_per_decode sampler.grid sampler.constrain
signals.store_confidence signals.enable_consistency
critic.backend critic.prompt_path critic.temperature critic.top_p critic.max_new_tokens critic.max_candidates
critic.summary_max_chars critic.critique_max_chars
reflection.backend reflection.prompt_path reflection.batch_size reflection.apply_if_delta reflection.allow_uncertain
reflection.max_operations reflection.change_cap_per_epoch reflection.eligibility_policy reflection.all_wrong_strategy
reflection.temperature reflection.top_p reflection.max_new_tokens
holdout.fraction holdout.seed holdout.max_false_pass_rise holdout.min_probability
selection.policy selection.tie_break runner.epochs runner.shuffle_seed
""".split()  # noqa: SIM905  # as the specification lists them, and readable
OPTIONAL = {
    "model.torch_dtype": None, "model.device_map": None, "output.fail_if_exists": True,
    "sampler.enforce_three_line": True, "signals.weights": None, "critic.enabled": True, "critic.prefilter": None,
    "reflection.rapid_mode": False, "verifier": None, "endpoint.seed": None,
}  # fmt: skip


@pytest.mark.parametrize("name", MANDATORY)
def test_a_key_that_is_missing_or_null_is_named(values: dict[str, Any], name: str) -> None:
    assert setting_problems(without_key(values, name)) == [f"{name}: is missing"]
    assert setting_problems(with_value(values, name, None)) == [f"{name}: is null"]


def test_what_may_be_left_out_has_the_value_of_the_specification(values: dict[str, Any]) -> None:
    values = with_value(values, "sampler.group_batch_size", 32)
    for name in OPTIONAL:
        values = without_key(values, name)
    found = flatten(dataclasses.asdict(guide_settings_from(values)))
    assert {name: found[name] for name in OPTIONAL} == OPTIONAL


def test_a_file_is_read_as_it_is_written(tmp_path: Path, values: dict[str, Any]) -> None:
    path = tmp_path / "my guide.yaml"
    path.write_text(yaml.safe_dump(values, allow_unicode=True))
    settings = read_guide_settings(path)
    again = yaml.safe_load(yaml.safe_dump(dataclasses.asdict(settings), allow_unicode=True))
    assert guide_settings_from(again) == settings
    assert [(cell.seed, cell.stop) for cell in settings.cells] == [(None, ()), (7, ("\n\n",))]


def test_everything_wrong_is_told_at_once_in_the_order_of_the_keys(values: dict[str, Any]) -> None:
    broken = with_value(without_key(values, "runner.epochs"), "critic.max_candidates", 7)
    broken = with_value(with_value(broken, "critic.taste", 1), "sampler.grid", [{"temperature": -1, "top_p": "x"}])
    broken = with_value(with_value(broken, "holdout.fraction", 1.0), "missions", {})
    broken = with_value(with_value(broken, "selection.tie_break", "dice"), "reflection.rapid_mode", "yes")
    assert setting_problems(broken) == [
        "missions: is empty",
        "sampler.group_batch_size: 2 is not 32 or 64, and reflection.rapid_mode is not true",
        "sampler.grid.0.temperature: -1 must be at least 0",
        "sampler.grid.0.top_p: 'x' is not a number (YAML reads 1e-3 as text and 1.0e-3 as a number)",
        "sampler.grid.0.max_new_tokens: is missing",
        "critic.max_candidates: 7 must be at most 6",
        "critic.taste: is not a key of this file",
        "reflection.rapid_mode: 'yes' is not true or false",
        "holdout.fraction: 1.0 must be less than 1",
        "selection.tie_break: 'dice' is not 'confidence' or 'temperature'",
        "runner.epochs: is missing",
    ]


def test_of_a_section_that_is_missing_only_the_keys_that_it_must_have_are_named(values: dict[str, Any]) -> None:
    for section in ("model", "output", "runner", "critic"):
        needed = [f"{name}: is missing" for name in MANDATORY if name.startswith(f"{section}.")]
        assert setting_problems(without_key(values, section)) == needed
        assert setting_problems(with_value(values, section, None)) == needed


def test_a_key_of_a_cell_that_occurs_twice_is_named(tmp_path: Path, values: dict[str, Any]) -> None:
    path = tmp_path / "guide.yaml"
    text = yaml.safe_dump({**values, "sampler": {**values["sampler"], "grid": 0}})
    path.write_text(text.replace("grid: 0", "grid: [{temperature: 0, temperature: 1, top_p: 1, max_new_tokens: 9}]"))
    with pytest.raises(SettingsError) as refused:
        read_guide_settings(path)
    assert list(refused.value.problems) == ["sampler.grid.0.temperature: occurs twice"]


def test_a_run_without_a_name_is_called_after_its_file_and_what_it_says(values: dict[str, Any], tmp_path: Path) -> None:
    unnamed = without_key(values, "output.run_id")
    one = guide_settings_from(unnamed, "my guide")
    assert one.output.run_id == f"my-guide-{settings_hash(one)[:8]}"
    assert one.folder == tmp_path / "outputs" / f"my-guide-{settings_hash(one)[:8]}"
    elsewhere = guide_settings_from(with_value(unnamed, "output.root", "other"), "my guide")
    assert elsewhere.output.run_id == one.output.run_id
    other = guide_settings_from(with_value(unnamed, "runner.shuffle_seed", 12), "my guide")
    assert other.output.run_id != one.output.run_id
    assert setting_problems(with_value(values, "output.run_id", "../out"))[0].startswith(
        "output.run_id: is no name of a folder"
    )


def test_only_a_run_with_held_out_tickets_has_a_gate(values: dict[str, Any]) -> None:
    def is_gated(**changes: Any) -> bool:
        found: GuideSettings = guide_settings_from(
            {**values, "holdout": {**values["holdout"], "fraction": changes["fraction"]},
             "sampler": {**values["sampler"], "group_batch_size": 32},
             "reflection": {**values["reflection"], "rapid_mode": changes["rapid"]}}
        )  # fmt: skip
        return found.is_gated

    assert is_gated(fraction=0.25, rapid=False)
    assert not is_gated(fraction=0.25, rapid=True)
    assert not is_gated(fraction=0, rapid=False)
