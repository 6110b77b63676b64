"""The files that settings name: what a search starts from, and the prompts that it is measured against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.runs.folder import OutputFolder
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import FORK, Genome, cluster_layout, prompts_of, read_population, read_prompts
from orchestrator.settings.kconfig import load_settings

ZEROS = {str(cluster): 0.0 for cluster in range(12)}
WRONG = [
    {key: 0.0 for key in ZEROS if key != "11"},
    ZEROS | {"12": 0.0},
    {("01" if key == "1" else key): 0.0 for key in ZEROS},
    {},
    json.dumps(ZEROS)[:-1] + ', "3": 1}',  # twice
    ZEROS | {"3": "0.5"},
    ZEROS | {"3": None},
    ZEROS | {"3": True},
    ZEROS | {"3": float("nan")},
    json.dumps(ZEROS).replace('"3": 0.0', '"3": 1' + "0" * 400),
    ZEROS | {"3": 1000.5},
    [0.0] * 12,
    "{",
    "[" * 100_000,
    "[]",
    "7",
    " " * 2**24 + "{",
    # In a population
    [ZEROS, ZEROS | {"3": 1000.5}],
    [ZEROS, {"deltas": ZEROS, "notes": ""}],
    [ZEROS, {"deltas": [0.0] * 12}],
    [ZEROS, {"deltas": ZEROS, "scratchpad": 7}],
    [ZEROS, {"deltas": ZEROS, "scratchpad": "x" * 4001}],
    [ZEROS] * 5,  # of which POPULATION_SIZE leaves room for 4
]


@pytest.mark.parametrize("deltas", WRONG, ids=range(len(WRONG)))
def test_deltas_are_one_finite_number_for_each_cluster(sound: Any, refused: Any, deltas: object) -> None:
    sound.write_deltas(deltas)
    assert refused() == ("INITIAL_DELTAS_PATH",)


def test_a_population_has_scratchpads_and_an_order(sound: Any) -> None:
    ones = dict.fromkeys(ZEROS, 1.0)
    sound.write_deltas([ones, {"deltas": ZEROS, "scratchpad": "what was learnt"}, {"deltas": ones}])
    assert load_settings(sound.path).population_size == 4
    found = read_population(sound.deltas, cluster_layout("meaning", 10))
    assert found == (Genome((1.0,) * 12), Genome((0.0,) * 12, "what was learnt"), Genome((1.0,) * 12))


def test_lineage_starts_from_one_vector_and_a_pinned_cluster_is_alike_in_all(sound: Any, refused: Any) -> None:
    sound.write_deltas([ZEROS, ZEROS | {"2": 1.0}])
    assert refused("OPTIMISER=lineage") == refused("OPTIMISER=cma") == ("INITIAL_DELTAS_PATH",)


def test_the_word_fork_is_for_a_folder_that_has_what_a_fork_begins_with(sound: Any, refused: Any) -> None:
    output = sound.folder / "output"
    overrides = ["INITIAL_DELTAS_PATH=fork", f"OUTPUT_DIR={output}"]
    assert refused(*overrides) == ("INITIAL_DELTAS_PATH",)
    OutputFolder(output).write_json("fork.json", {})
    assert load_settings(sound.path, overrides).initial_deltas_path == FORK


SHIPPED = Path(__file__).parents[3] / "configs/prompts.yaml"


@pytest.mark.parametrize(
    "content",
    [
        "prompts:\n  - name: a\n    text: Be brief.\n",  # without the plain prompt
        "prompts:\n  - name: plain\n    text: Be brief.\n",
        "prompts:\n  - name: a\n",
        "prompts:\n  - name: 3\n    text: x\n",
        "prompts:\n  - name: a\n    text: x\n    more: y\n",
        "[]\n",
        ": :",
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(content, "utf-8")
    with pytest.raises(SettingsError):
        read_prompts(path)


@pytest.mark.parametrize("name", ["first sentence", "max_tokens 40", "g0_pop0", "plain: log-odds x1", "a: random 3"])
def test_a_name_that_a_run_gives_itself_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(f'prompts:\n  - {{name: plain, text: ""}}\n  - {{name: "{name}", text: Be brief.}}\n', "utf-8")
    with pytest.raises(SettingsError) as refused:
        read_prompts(path)
    [problem] = refused.value.problems
    assert name in problem


def test_the_sentences_of_the_shipped_prompts_follow_the_system_prompt_in_every_working_directory(
    sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sound.folder)
    prompts = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=shipped", "TARGET_SYSTEM_PROMPT=Reply."]))
    assert list(prompts) == [prompt.name for prompt in read_prompts(SHIPPED)]
    assert (prompts["plain"], prompts["concise"]) == ("Reply.", "Reply. Be concise.")
    alone = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=shipped", "TARGET_SYSTEM_PROMPT="]))
    assert (alone["plain"], alone["concise"]) == ("", "Be concise.")
    without_file = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=", "TARGET_SYSTEM_PROMPT=Reply. "]))
    assert without_file == {"plain": "Reply. "}
