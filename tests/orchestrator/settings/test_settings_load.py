"""What a sound `.config` and the files that it names mean, with overrides, and what is made of it for workers."""

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
from orchestrator.settings.inputs import (
    Genome,
    cluster_layout,
    layout_of,
    parse_selection,
    pinned_of,
    prompts_of,
    read_population,
    read_prompts,
    read_sides,
)
from orchestrator.settings.kconfig import load_settings, write_config
from orchestrator.settings.options import options
from orchestrator.settings.run import make_run, relative_objective
from tasks.records import Constrained, Fitness, Sides

ROOT = Path(__file__).parents[3]


def test_a_file_is_read_typed_with_defaults_and_overrides(sound: Any) -> None:
    settings = load_settings(sound.path, ["CONFIG_NGEN=9", "shortness_scale=1e2", "SEED=007", "JUDGE_FORGIVING=n"])
    assert (settings.ngen, settings.shortness_scale, settings.seed, settings.judge_forgiving) == (9, 100.0, 7, False)
    assert (settings.data_path, settings.cluster_descriptions_path) == (sound.questions, None)
    assert settings.judge_tolerance == 0.01  # not in the file
    sound.append("# CONFIG_EVALUATION_CACHE is not set")
    settings = load_settings(sound.path, {"NGEN": "9", "FINANCEBENCH_POOL_INDICES": "3-5"})  # the specification's name
    assert (settings.ngen, settings.evaluation_cache, settings.training) == (9, False, "3-5")
    # what a reasoning model refuses is not sent
    run = make_run(load_settings(sound.path, ["REFLECTOR_TEMPERATURE=", "OPENAI_PARAMETERS={}"]), "run")
    for model in (run.reflector, run.judge):
        assert (model.temperature, model.top_p, model.seed) == (None, None, None)


TEXTS = st.text(st.one_of(st.sampled_from('\\"\n\r\tn'), st.characters(exclude_categories=["Cs"])))


def test_written_settings_read_back_equal_with_any_prompt_and_name_every_option(sound: Any, tmp_path: Path) -> None:
    sound.put("TARGET_SYSTEM_PROMPT", r'"say \"a\\\\nb\"\\n"')
    loaded, path = load_settings(sound.path, ["CXPB=0.30000000000000004", "MARGIN=1e-09"]), tmp_path / "config"
    assert loaded.target_system_prompt == 'say "a\\nb"\n'

    @hypothesis.settings(deadline=None, max_examples=25)
    @given(string=TEXTS)
    def check(string: str) -> None:
        before = dataclasses.replace(loaded, target_system_prompt=string)
        write_config(before, path)
        assert load_settings(path) == before

    check()
    assert all(f"CONFIG_{name}" in path.read_text() for name in options())


def test_kconfig_has_the_options_of_the_dataclass_and_parses_without_a_warning() -> None:
    kconfig = kconfiglib.Kconfig(str(ROOT / "Kconfig"), warn=True)
    assert [s.name for s in kconfig.unique_defined_syms] == list(options())
    assert kconfig.warnings == []


def test_a_constrained_run_is_compared_with_its_baseline_once_that_is_known(sound: Any) -> None:
    settings = load_settings(sound.path, ["OBJECTIVE=constrained", "MARGIN=0.05"])
    assert isinstance(make_run(settings, "here").objective, Fitness)
    # The margin is that of the choice: the search has none.
    assert relative_objective(settings, 80.0, 0.6) == Constrained(80.0, 0.6)


def test_rows_are_selected_as_python_counts() -> None:
    for text, split, rows in (
        ("", "", ()),
        ("all", "", (0, 1, 2, 3, 4)),
        ("4,0 - 1", "", (4, 0, 1)),
        ("held out[3:]", "held out", (3, 4)),
        ("train[0-1,4]", "train", (0, 1, 4)),
    ):
        selection = parse_selection(text)
        assert (selection.split, selection.of(5)) == (split, rows)


def test_one_cluster_is_pinned_but_for_reflective_by_meaning(sound: Any) -> None:
    waste = ["CLUSTERS_BY=waste", "INITIAL_DELTAS_PATH=zero"]
    for overrides, count, pinned in (
        ([], 12, ()),
        (["OPTIMISER=cma"], 12, (2,)),
        ([*waste, "CLUSTERS=4"], 8, (7,)),
        ([*waste, "OPTIMISER=cma"], 14, (13,)),
    ):
        settings = load_settings(sound.path, overrides)
        assert (layout_of(settings).count, pinned_of(settings)) == (count, pinned)
        assert make_run(settings, "here").pinned_clusters == pinned


ZEROS = {str(cluster): 0.0 for cluster in range(12)}
ONES = dict.fromkeys(ZEROS, 1.0)


def test_a_population_has_scratchpads_and_an_order(sound: Any, refused: Any) -> None:
    sound.deltas.write_text(json.dumps([ONES, {"deltas": ZEROS, "scratchpad": "what was learnt"}, {"deltas": ONES}]))
    assert load_settings(sound.path).population_size == 4
    found = read_population(sound.deltas, cluster_layout("meaning", 10))
    assert found == (Genome((1.0,) * 12), Genome((0.0,) * 12, "what was learnt"), Genome((1.0,) * 12))
    # lineage starts from one vector, and a pinned cluster is alike in all
    for optimiser in ("lineage", "cma"):
        assert list(refused(f"OPTIMISER={optimiser}")) == ["INITIAL_DELTAS_PATH"]


@pytest.mark.parametrize(
    "deltas",
    [
        {key: 0.0 for key in ZEROS if key != "11"},
        ZEROS | {"12": 0.0},
        json.dumps(ZEROS)[:-1] + ', "3": 1}',  # twice
        ZEROS | {"3": "0.5"},
        ZEROS | {"3": True},
        ZEROS | {"3": float("nan")},
        ZEROS | {"3": 1000.5},
        [0.0] * 12,
        [ZEROS, {"deltas": ZEROS, "notes": ""}],
        [ZEROS, {"deltas": ZEROS, "scratchpad": "x" * 4001}],
        [ZEROS] * 5,  # of which POPULATION_SIZE leaves room for 4
    ],
    ids=range(11),
)
def test_deltas_are_one_finite_number_for_each_cluster(sound: Any, refused: Any, deltas: object) -> None:
    sound.deltas.write_text(deltas if isinstance(deltas, str) else json.dumps(deltas))
    assert list(refused()) == ["INITIAL_DELTAS_PATH"]


PLAIN = '{name: plain, text: ""}'


@pytest.mark.parametrize(
    "prompts",
    [
        "[{name: a, text: Be brief.}]",  # no plain prompt
        "[{name: plain, text: Be brief.}]",
        f"[{PLAIN}, {{name: a}}]",
        f"[{PLAIN}, {{name: a, text: x, more: y}}]",
        ": :",
        # names that a run gives itself
        *(
            f'[{PLAIN}, {{name: "{name}", text: Be brief.}}]'
            for name in ("first sentence", "max_tokens 40", "g0_pop0", "plain: log-odds x1", "a: random 3")
        ),
    ],
)
def test_a_file_of_prompts_that_is_malformed_or_takes_a_name_of_ours_is_refused(tmp_path: Path, prompts: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(f"prompts: {prompts}\n")
    with pytest.raises(SettingsError):
        read_prompts(path)


def test_the_sentences_of_the_shipped_prompts_follow_the_system_prompt_in_every_working_directory(
    sound: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prompts(path: str, system: str) -> dict[str, str]:
        overrides = [f"PROMPTS_PATH={path}", f"TARGET_SYSTEM_PROMPT={system}"]
        return dict(prompts_of(load_settings(sound.path, overrides)))

    monkeypatch.chdir(tmp_path)
    shipped = prompts("shipped", "Reply.")
    assert list(shipped) == [prompt.name for prompt in read_prompts(ROOT / "configs/prompts.yaml")]
    assert (shipped["plain"], shipped["concise"]) == ("Reply.", "Reply. Be concise.")
    assert (prompts("shipped", "")["concise"], prompts("", "Reply. ")) == ("Be concise.", {"plain": "Reply. "})


def collected(folder: Path, ids: object) -> Path:
    path = folder / "phase0_data.json"
    row = {"gold_answer": "7", "retained_pairs": [{"verbose_answer": "It is 7.", "compressed_answer": "7"}]}
    path.write_text(json.dumps({"token_selection": {"v_steer_token_ids": ids}, "splits": {"train": [row]}}))
    return path


def test_what_collect_found_reaches_the_run(sound: Any, tmp_path: Path) -> None:
    path = collected(tmp_path, [40, 7, 151_900])
    settings = load_settings(sound.path, [f"CLUSTERS_FROM={path}", "CLUSTERS=3", "INITIAL_DELTAS_PATH=zero"])
    assert make_run(settings, "here").clusters.discovered == (40, 7, 151_900)
    assert make_run(load_settings(sound.path), "here").clusters.discovered == ()
    assert read_sides(path) == Sides(("It is 7.",), ("7",))
    path.unlink()
    with pytest.raises(SettingsError, match="CLUSTERS_FROM"):
        make_run(settings, "here")


def test_discovered_tokens_are_distinct_ids(refused: Any, tmp_path: Path) -> None:
    for ids in ([], None, [1, "2"], [1, True], [1, -2], [3, 4, 3]):
        assert list(refused(f"CLUSTERS_FROM={collected(tmp_path, ids)}")) == ["CLUSTERS_FROM"]
    # and no fewer than clusters
    assert list(refused(f"CLUSTERS_FROM={collected(tmp_path, [*range(9)])}")) == ["CLUSTERS"]
