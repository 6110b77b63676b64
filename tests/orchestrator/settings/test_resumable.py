"""What changed between two settings is named, and what may change decides no answer and no draw."""

from __future__ import annotations

from typing import Any

from orchestrator.settings import RESUMABLE, changed_options, load_settings
from orchestrator.settings.options import options


def test_nothing_changed_between_equal_settings(sound: Any) -> None:
    assert changed_options(load_settings(sound.path), load_settings(sound.path)) == []


def test_what_changed_is_named_in_the_order_of_kconfig(sound: Any) -> None:
    before, after = load_settings(sound.path), load_settings(sound.path, ["SEED=7", "NGEN=9"])

    assert changed_options(before, after) == ["NGEN", "SEED"]


def test_what_may_change_are_options_that_no_answer_and_no_draw_depends_on() -> None:
    names = [option.name for option in options()]

    assert [name for name in names if name in RESUMABLE] == list(RESUMABLE)
    assert {"NGEN", "REDIS_URL", "BUDGET_USD", "OUTPUT_DIR", "EMBEDDED_FAULTS", "EVALUATION_CACHE"} <= set(RESUMABLE)
    assert {"REFLECTOR_MODEL", "REFLECTOR_MAX_COMPLETION_TOKENS", "JUDGE_MODEL", "OPENAI_BASE_URL"} <= set(RESUMABLE)
    assert "REFLECTOR_CONTEXT_TOKENS" in RESUMABLE, "it is a limit of the reflector, which may be another one"
    assert not {"SEED", "POPULATION_SIZE", "TARGET_MODEL", "JUDGE_TOLERANCE", "TRAINING_INDICES"} & set(RESUMABLE)
