"""The YAML of a collection: every key is mandatory, and everything that is wrong is told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from dotted_values import with_value, without_key

from orchestrator.collect.settings import collect_settings_from, read_collect_settings
from orchestrator.settings import SettingsError
from orchestrator.settings.documents import flatten

SHIPPED = Path(__file__).parents[3] / "configs" / "collect.yaml"
# All keys of the file, written down here a second time, so that a key cannot be dropped by mistake.
KEYS = """
seed device output_dir log_level
target.model_id target.sglang.base_url target.sglang.timeout_s target.sglang.max_retries target.temperature
target.top_p target.max_new_tokens target.seed target.prompt_template
reflector.model_id reflector.api reflector.temperature reflector.top_p reflector.max_new_tokens reflector.seed
reflector.compress_prompt_template reflector.api_base reflector.api_key_env
data.financebench_path data.split_ratios.train data.split_ratios.val data.split_ratios.test
phase0.verbose_num_samples phase0.k phase0.filters.drop_special_tokens phase0.filters.drop_whitespace_only
phase0.filters.drop_digit_only phase0.output_path phase0.correctness.metric phase0.correctness.threshold
phase0.correctness.tolerance phase0.correctness.evaluator_model phase0.correctness.evaluator_api_base
phase0.correctness.evaluator_api_key_env phase0.correctness.qualitative_forgiving
phase0.correctness.evaluator_temperature phase0.correctness.evaluator_top_p
phase0.correctness.evaluator_max_new_tokens phase0.correctness.evaluator_seed
phase0.target_concurrency phase0.reflector_concurrency phase0.judge_concurrency
""".split()  # noqa: SIM905  # as the specification lists them, and readable


NOT_SENT_WHEN_NULL = {
    "reflector.temperature", "reflector.top_p", "reflector.seed", "phase0.correctness.evaluator_temperature",
    "phase0.correctness.evaluator_top_p", "phase0.correctness.evaluator_seed",
}  # fmt: skip


VALUES: dict[str, Any] = yaml.safe_load(SHIPPED.read_text())


def problems(values: dict[str, Any]) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        collect_settings_from(values)
    return list(refused.value.problems)


def test_the_shipped_file_has_each_of_them_and_is_read_as_it_is_written() -> None:
    assert sorted(flatten(VALUES)) == sorted(KEYS)
    settings = read_collect_settings(SHIPPED)
    assert settings.phase0.correctness.tolerance == VALUES["phase0"]["correctness"]["tolerance"]
    assert settings.target.prompt_template == "Context:\n{context}\n\nQuestion:\n{query}"


def test_a_key_that_is_missing_null_empty_or_of_another_type_is_named() -> None:
    for name, value in flatten(VALUES).items():
        given = [without_key(VALUES, name), with_value(VALUES, name, " ")]
        given.append(with_value(VALUES, name, 7 if isinstance(value, str | bool) else "seven"))
        given += [] if name in NOT_SENT_WHEN_NULL else [with_value(VALUES, name, None)]
        for changed in given:
            [line] = problems(changed)
            assert line.startswith(f"{name}: ")


def test_a_value_out_of_its_range_is_named() -> None:
    for name, value in (
        ("target.top_p", 0), ("target.temperature", -0.1), ("reflector.top_p", 1.1), ("phase0.verbose_num_samples", 0),
        ("target.sglang.max_retries", -1), ("target.sglang.timeout_s", float("nan")), ("seed", True),
        ("target.prompt_template", "{query}"), ("reflector.compress_prompt_template", "{prev_answer}"),
        ("target.sglang.base_url", "localhost:30000"), ("data.split_ratios.train", 1.5),
        ("phase0.correctness.evaluator_api_base", "https://api.openai.com/v1"),
    ):  # fmt: skip
        [line] = problems(with_value(VALUES, name, value))
        assert line.startswith(f"{name}: ")
    # The ratios add up to one within a millionth
    collect_settings_from(with_value(VALUES, "data.split_ratios.train", 0.7000009))
    [line] = problems(with_value(VALUES, "data.split_ratios.train", 0.700002))
    assert line.startswith("data.split_ratios: ")
    # All that is wrong is told at once
    both = with_value(without_key(VALUES, "seed"), "reflector.flavour", "vanilla")
    assert [line.split(":")[0] for line in problems(both)] == ["seed", "reflector.flavour"]
