"""A collection by its settings: the split, what is refused, and what a resumed one may change and computes anew."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.collect.run import COLLECT, make_collection, split, start_collection
from orchestrator.collect.settings import CollectOptions, SplitRatios, read_collect_settings
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.runs.kinds import SETTINGS_FILE
from orchestrator.settings import SettingsError
from tasks.collect.collection import Collection
from tasks.records import Example

SHIPPED = Path(__file__).parents[3] / "configs" / "collect.yaml"
SERVER = {"engine": "sglang", "version": "0.5.20", "model_path": "some/model", "dtype": "bfloat16", "quantization": ""}
PRICES = ["farm.price_prompt=2.5", "farm.price_cached=1", "farm.price_completion=10"]


@given(st.integers(1, 150), st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_split_is_the_shuffle_of_the_sorted_ids_cut_at_the_floors(count: int, seed: int, rng: random.Random):
    rows = [Example(f"financebench_id_{i:05}", "page", "question?", "gold") for i in range(count)]
    wanted = list(rows)
    random.Random(seed).shuffle(wanted)
    rng.shuffle(rows)
    parts = split(rows, SplitRatios(0.70, 0.15, 0.15), seed)
    assert [*parts.train, *parts.val, *parts.test] == wanted
    assert (len(parts.train), len(parts.val)) == (int(count * 0.70), int(count * 0.15))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a collection with the shipped settings, by which rules compress and judge."""
    options = CollectOptions(farm_dir=str(tmp_path / "farm"), requests_per_minute=10, tokens_per_minute=100_000)
    COLLECT.save(OutputFolder(tmp_path), read_collect_settings(SHIPPED), options)
    return tmp_path


def collection_of(folder: Path, *changes: str, run: str = "run", is_fresh: bool = False) -> Collection:
    settings, options = COLLECT.load(folder, changes)
    made = make_collection(settings, dataclasses.replace(options, is_fresh=is_fresh), run)
    return dataclasses.replace(made, server=SERVER)


def changed(before: Collection, after: Collection) -> set[str]:
    """Which keys of results and of lines of the checkpoints differ."""
    example = Example("q", "the pages", "why?", "so")
    keys: dict[str, Callable[[Collection], str]] = {
        "sample": lambda one: one.sample_key(example, 0),
        "tokenizer": lambda one: one.tokenizer_key(),
        "tokens": lambda one: one.tokens_key([(1, "text", "text")]),
        "verbose line": lambda one: one.verbose_fingerprint(example),
        "pairs line": lambda one: one.pairs_fingerprint(example),
        "compression": lambda one: one.compression_key(example, "so it is"),
        "verdict": lambda one: one.verdict_key(example, "so"),
    }
    return {name for name, key in keys.items() if key(before) != key(after)}


def test_only_a_fresh_collection_has_keys_that_no_other_has(folder: Path) -> None:
    first = collection_of(folder, run="first")
    assert not changed(first, collection_of(folder, run="second"))
    fresh = [collection_of(folder, run=run, is_fresh=True) for run in ("first", "second")]
    for one, other in ((first, fresh[0]), (first, fresh[1]), (fresh[0], fresh[1])):
        assert {"sample", "compression", "verdict", "verbose line", "pairs line"} <= changed(one, other)


def test_the_keys_of_results_cover_all_that_determines_them(folder: Path) -> None:
    before = collection_of(folder)
    for change in ({"version": "0.5.23"}, {"lora_paths": ["a"]}, {"weights": "sha256:1"}):
        other = dataclasses.replace(before, server=SERVER | change)
        assert changed(before, other) == {"sample", "tokenizer", "tokens", "verbose line", "pairs line"}
    for change in ("temperature=0.5", "top_p=null", "max_new_tokens=99", "seed=9"):
        assert changed(before, collection_of(folder, f"reflector.{change}")) == {"compression", "pairs line"}
        judged = collection_of(folder, f"phase0.correctness.evaluator_{change}")
        assert changed(before, judged) == {"verdict", "pairs line"}
    # An equal server elsewhere, prices and the budget alter no result
    moved = dataclasses.replace(before, target=dataclasses.replace(before.target, url="http://b:30000"))
    assert not changed(before, moved)
    assert not changed(before, collection_of(folder, *PRICES, "farm.budget_usd=20"))
    with pytest.raises(SettingsError, match=r"farm\.budget_usd: needs the prices"):
        COLLECT.load(folder, ["farm.budget_usd=20"])


REFUSED = {
    # what alters results makes it another run
    "--set seed": ["seed=7"],
    "--set phase0.correctness.tolerance": ["phase0.correctness.tolerance=7"],
    "--set farm.is_fresh": ["farm.is_fresh=7"],
    # the longest replies have 256 and 512 tokens: no room is left for a prompt
    "--tokens-per-minute": ["farm.tokens_per_minute=512"],
    "reflector.api_key_env": [
        "reflector.api_base=http://127.0.0.1:9/v1",
        "reflector.api_key_env=NO_SUCH_KEY",
        "phase0.correctness.evaluator_api_base=http://127.0.0.1:9/v1",
    ],
}


@pytest.mark.parametrize("option", REFUSED)
def test_changes_with_which_a_collection_does_not_go_on_are_refused_by_name(folder: Path, option: str) -> None:
    before = (folder / SETTINGS_FILE).read_bytes()
    with pytest.raises(SettingsError) as error:
        COLLECT.resume(folder, REFUSED[option], (), plain=True)
    assert any(problem.startswith(f"{option}: ") for problem in error.value.problems)
    assert (folder / SETTINGS_FILE).read_bytes() == before and not (folder / "farm").exists()


def test_an_output_that_is_the_file_of_questions_is_refused(folder: Path) -> None:
    settings, options = COLLECT.load(folder)
    (folder / "link.json").symlink_to(Path(settings.data.financebench_path).resolve())
    phase0 = dataclasses.replace(settings.phase0, output_path=str(folder / "link.json"))
    with pytest.raises(OutputError, match=r"phase0\.output_path: .* is the same file as data\.financebench_path"):
        start_collection(dataclasses.replace(settings, phase0=phase0), options, resume=False)
