"""What may change of a collection that is resumed, and what is computed anew then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.collect.run import COLLECT, make_collection
from orchestrator.collect.settings import CollectOptions, CollectSettings, read_collect_settings
from orchestrator.runs.folder import OutputFolder
from orchestrator.settings import SettingsError
from tasks.records import Example

ROOT = Path(__file__).parents[3]
EXAMPLE = Example("q", "the pages", "why?", "so")
PRICES = ["farm.price_prompt=2.5", "farm.price_cached=1", "farm.price_completion=10"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    options = CollectOptions(farm_dir=str(tmp_path), requests_per_minute=10, tokens_per_minute=1000)
    COLLECT.save(OutputFolder(tmp_path), read_collect_settings(ROOT / "configs" / "collect.yaml"), options)
    return tmp_path


def resumed(folder: Path, changes: Sequence[str]) -> tuple[CollectSettings, CollectOptions]:
    return COLLECT.load(folder, changes)


def keys(folder: Path, changes: Sequence[str]) -> tuple[str, str, str]:
    """Those of a verbose answer, a compression and a verdict."""
    collection = make_collection(*resumed(folder, changes), "run")
    return (
        collection.sample_key(EXAMPLE, 0),
        collection.compression_key(EXAMPLE, "so it is"),
        collection.verdict_key(EXAMPLE, "so"),
    )


def test_prices_and_the_budget_may_change_and_alter_no_result(folder: Path) -> None:
    settings, options = resumed(folder, [*PRICES, "farm.budget_usd=20"])
    assert (options.prices, options.budget_usd) == ((2.5, 1.0, 10.0), 20.0)
    assert settings == resumed(folder, [])[0]
    assert keys(folder, [*PRICES, "farm.budget_usd=20"]) == keys(folder, [])
    with pytest.raises(SettingsError, match=r"farm\.budget_usd: needs the prices"):
        resumed(folder, ["farm.budget_usd=20"])


def test_another_reflector_compresses_anew_and_another_judge_judges_anew(folder: Path) -> None:
    before = keys(folder, [])
    for change in ("temperature=0.5", "top_p=null", "max_new_tokens=99", "seed=9"):
        sample, compression, verdict = keys(folder, [f"reflector.{change}"])
        assert (sample, verdict) == (before[0], before[2]) and compression != before[1]
        sample, compression, verdict = keys(folder, [f"phase0.correctness.evaluator_{change}"])
        assert (sample, compression) == before[:2] and verdict != before[2]


def test_what_would_make_it_another_collection_is_refused(folder: Path) -> None:
    for name in ("seed", "phase0.correctness.tolerance", "reflector.compress_prompt_template", "farm.is_fresh"):
        with pytest.raises(SettingsError) as error:
            resumed(folder, [f"{name}=7"])
        assert error.value.problems[0].startswith(f"--set {name}: it alters results, so it is another run;")
