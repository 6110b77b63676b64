"""What a sound `.config` means, with overrides, and what is made of it for workers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import hypothesis
import kconfiglib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import layout_of, parse_selection, pinned_of, read_sides
from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.options import RESUMABLE, changed_options, options
from orchestrator.settings.run import make_run, relative_objective
from tasks.objective import LEAST_TOKENS
from tasks.records import Constrained, Fitness, Sides

ROOT = Path(__file__).parents[3]
WASTE = ["CLUSTERS_BY=waste", "INITIAL_DELTAS_PATH=zero"]


def test_a_file_is_read_typed_with_defaults_and_overrides(sound: Any) -> None:
    settings = load_settings(sound.path, ["CONFIG_NGEN=9", "SHORTNESS_SCALE=1e2", "SEED=007", "JUDGE_FORGIVING=n"])
    assert (settings.population_size, settings.cxpb, settings.evaluation_cache) == (4, 0.5, True)
    assert (settings.ngen, settings.shortness_scale, settings.seed, settings.judge_forgiving) == (9, 100.0, 7, False)
    assert (settings.data_path, settings.cluster_descriptions_path) == (sound.questions, None)
    assert settings.judge_tolerance == 0.01  # not in the file
    sound.append("# CONFIG_EVALUATION_CACHE is not set")
    settings = load_settings(sound.path, {"NGEN": "9", "FINANCEBENCH_POOL_INDICES": "3-5"})  # the specification's name
    assert (settings.ngen, settings.evaluation_cache, settings.training) == (9, False, "3-5")


def test_what_a_reasoning_model_refuses_is_not_sent(sound: Any) -> None:
    run = make_run(load_settings(sound.path, ["REFLECTOR_TEMPERATURE=", "OPENAI_PARAMETERS={}"]), "run")
    for model in (run.reflector, run.judge):
        assert (model.temperature, model.top_p, model.seed) == (None, None, None)


def test_written_settings_read_back_equal_and_name_every_option(sound: Any, tmp_path: Path) -> None:
    settings = load_settings(sound.path, ["CXPB=0.30000000000000004", "MARGIN=1e-09", "EVALUATION_CACHE=n"])
    write_config(settings, tmp_path / "config")
    assert load_settings(tmp_path / "config") == settings
    assert all(f"CONFIG_{name}" in (tmp_path / "config").read_text() for name in options())


def test_what_changed_is_named_and_what_may_change_decides_no_answer_and_no_draw(sound: Any) -> None:
    before, after = load_settings(sound.path), load_settings(sound.path, ["SEED=7", "NGEN=9"])
    assert changed_options(before, after) == ["NGEN", "SEED"]
    assert {"NGEN", "FARM", "BUDGET_USD", "OUTPUT_DIR", "EVALUATION_CACHE"} <= set(RESUMABLE)
    assert not {"SEED", "POPULATION_SIZE", "TARGET_MODEL", "JUDGE_TOLERANCE", "TRAINING"} & set(RESUMABLE)
    assert set(RESUMABLE) <= set(options())


def test_a_constrained_run_is_compared_with_its_baseline_once_that_is_known(sound: Any) -> None:
    settings = load_settings(sound.path, ["OBJECTIVE=constrained", "MARGIN=0.05"])
    assert isinstance(make_run(settings, "here").objective, Fitness)
    # The margin is that of the choice: the search has none.
    assert relative_objective(settings, 80.0, 0.6) == Constrained(80.0, 0.6)
    empty = relative_objective(settings, 0.0, 0.0)
    assert isinstance(empty, Constrained) and empty.baseline_tokens == LEAST_TOKENS


@pytest.mark.parametrize(
    ("text", "split", "rows"),
    [
        ("", "", ()),
        ("all", "", (0, 1, 2, 3, 4)),
        ("4,0 - 1", "", (4, 0, 1)),
        ("[:2]", "", (0, 1)),
        ("train", "train", (0, 1, 2, 3, 4)),
        ("held out[3:]", "held out", (3, 4)),
        ("train[0-1,4]", "train", (0, 1, 4)),
    ],
)
def test_rows_are_selected_as_python_counts(text: str, split: str, rows: tuple[int, ...]) -> None:
    selection = parse_selection(text)
    assert (selection.split, selection.of(5)) == (split, rows)


@pytest.mark.parametrize(
    ("overrides", "count", "pinned"),
    [
        ([], 12, ()),
        (["OPTIMISER=cma"], 12, (2,)),
        ([*WASTE, "CLUSTERS=4"], 8, (7,)),
        ([*WASTE, "OPTIMISER=cma"], 14, (13,)),
    ],
)
def test_one_cluster_is_pinned_but_for_reflective_by_meaning(
    sound: Any, overrides: list[str], count: int, pinned: tuple[int, ...]
) -> None:
    settings = load_settings(sound.path, overrides)
    assert (layout_of(settings).count, pinned_of(settings)) == (count, pinned)
    assert make_run(settings, "here").pinned_clusters == pinned


def collected(folder: Path, ids: object, pairs: object) -> Path:
    path = folder / "phase0_data.json"
    splits = {"train": [{"gold_answer": "7", "retained_pairs": pairs}]}
    path.write_text(json.dumps({"token_selection": {"v_steer_token_ids": ids}, "splits": splits}))
    return path


PAIRS = [{"verbose_answer": "It is 7.", "compressed_answer": "7"}]


def test_what_collect_found_reaches_the_run(sound: Any, tmp_path: Path) -> None:
    path = collected(tmp_path, [40, 7, 151_900], PAIRS)
    settings = load_settings(sound.path, [f"CLUSTERS_FROM={path}", "CLUSTERS=3", "INITIAL_DELTAS_PATH=zero"])
    assert make_run(settings, "here").clusters.discovered == (40, 7, 151_900)
    assert make_run(load_settings(sound.path), "here").clusters.discovered == ()
    assert load_settings(sound.path, [*WASTE, f"CLUSTERS_FROM={path}"]).clusters_from == path
    assert read_sides(path) == Sides(("It is 7.",), ("7",))
    path.unlink()
    with pytest.raises(SettingsError, match="CLUSTERS_FROM"):
        make_run(settings, "here")


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        *((ids, "CLUSTERS_FROM") for ids in ([], None, [1, "2"], [1, True], [1, -2], [3, 4, 3])),
        ([*range(9)], "CLUSTERS"),  # of which there are more than tokens
    ],
)
def test_discovered_tokens_are_distinct_ids(refused: Any, tmp_path: Path, ids: object, named: str) -> None:
    assert refused(f"CLUSTERS_FROM={collected(tmp_path, ids, PAIRS)}") == (named,)


def test_kconfig_has_the_options_of_the_dataclass_and_parses_without_a_warning() -> None:
    kconfig = kconfiglib.Kconfig(str(ROOT / "Kconfig"), warn=True)
    assert [s.name for s in kconfig.unique_defined_syms] == list(options())
    assert kconfig.warnings == []


TEXTS = st.text(st.one_of(st.sampled_from('\\"\n\r\tn'), st.characters(exclude_categories=["Cs"])))


@pytest.mark.parametrize("written", [r'"a\nb"', r'"a\\\nb"'])
def test_a_single_backslash_is_refused_as_menuconfig_would_lose_it(sound: Any, written: str) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", written)
    with pytest.raises(SettingsError, match="for each backslash"):
        load_settings(sound.path)


def test_any_prompt_comes_back_from_a_written_file(sound: Any) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", r'"say \"a\\\\nb\"\\n"')
    loaded, path = load_settings(sound.path), sound.folder / "written.config"
    assert loaded.target_system_prompt == 'say "a\\nb"\n'

    @hypothesis.settings(deadline=None, max_examples=25)
    @given(string=TEXTS)
    def check(string: str) -> None:
        before = dataclasses.replace(loaded, target_system_prompt=string)
        write_config(before, path)
        assert load_settings(path) == before

    check()
