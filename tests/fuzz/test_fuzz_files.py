"""Files: any content is read or gives an error of a few readable lines, and the file stays as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz_cases import HOSTILE, JSON, TEXT, cases, replaced
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.collection.checkpoints import PAIRS, VERBOSE, Checkpoint
from orchestrator.collection.settings import read_collect_settings
from orchestrator.optimisers import make_optimiser
from orchestrator.optimisers.base import StateError
from orchestrator.optimisers.cma import CmaParams
from orchestrator.optimisers.reflective import ReflectiveParams
from orchestrator.output import OutputError, read_json
from orchestrator.report.statistics import Comparison
from orchestrator.runs.evolution_tree import EvolutionTree, TreeFile
from orchestrator.runs.search import Search
from orchestrator.runs.status import run_status
from orchestrator.settings import (
    SettingsError,
    cluster_layout,
    load_settings,
    read_discovered_tokens,
    read_sides,
)
from orchestrator.settings.population import read_population
from tasks.dataset import DatasetError, load_examples
from tasks.judging.rows import read_answer_rows
from tasks.validation import checked_json

ROOT = Path(__file__).parents[2]
VALID = (ROOT / "configs" / "embedded.config").read_text()
COLLECT = yaml.safe_load((ROOT / "configs" / "collect.yaml").read_text())
ROW = json.loads((ROOT / "configs" / "data" / "sample.jsonl").read_text().splitlines()[0])
IDS = tuple(str(i) for i in range(4))
LAYOUT = cluster_layout("meaning", len(IDS) - 2)
COMMON: dict[str, Any] = {
    "seed": 7, "cluster_ids": IDS, "initial_deltas": (0.0,) * 4, "generations": 2, "population_size": 3,
}  # fmt: skip
GENETIC: dict[str, Any] = {
    "crossover_probability": 0.5, "mutation_probability": 0.5, "elitism_size": 1, "selection": "tournament",
    "tournament_size": 2, "top_k": 2,
}  # fmt: skip
REFLECTIVE = Search(make_optimiser("reflective"), ReflectiveParams(**COMMON, **GENETIC))
CMA = Search(make_optimiser("cma"), CmaParams(**COMMON))
SCORED = {"node": "g0_pop0", "fitness": 0.5, "shortness": 0.5, "correctness": 0.5, "mean_tokens": 9.0}
GENERATION = {
    "generation": 0, "best": 0.5, "mean": 0.5, "best_ever": 0.5, "population": [SCORED], "offspring": [SCORED],
    "evaluations": {"computed": 1, "cached": 0, "carried": 0},
    "seconds": {"wall": 1.0}, "tokens": {"target": 1, "prompt": 1, "cached": 0, "completion": 1}, "calls": 3,
    "cost_usd": 0.0,
}  # fmt: skip
FAILED = {
    "run": "a-run", "record": "g0_pop", "name": "0", "node": "g0_pop0", "stage": "judge", "error": "E", "task": "t",
    "tries": 1, "at": 1.0, "attempt": 1, "prompt": "",
}  # fmt: skip
RUN_FILE = {"id": "a-run", "kind": "evolve"}
GRADED = {"example": "q", "tokens": 3, "is_correct": True, "text": "t", "question": "q", "gold": "g", "reasoning": "r"}
COMPARISON = {"name": "n", "before": [GRADED], "after": [GRADED], "fitness_before": None, "fitness_after": 0.5}
NODE = {"id": "g0_pop0", "generation": 0, "stage": "pop", "fitness": 0.5}
CORRECTNESS = {"is_correct": True, "confidence": 1.0, "category": "text", "reasoning": "r"}
PAIR = {"verbose_answer": "v", "compressed_answer": "c", "correctness": CORRECTNESS}


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part replaced or removed, or any other value."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(damaged(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(damaged(value[0])), *value[1:]]
    return draw(replaced(value) if isinstance(value, dict) and value else HOSTILE)


def written(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass") + b"\n"


def files(valid: Any) -> st.SearchStrategy[bytes]:
    """A valid JSON file damaged or cut short, or random bytes."""
    whole = written(valid)
    cut = st.integers(0, len(whole)).map(lambda at: whole[:at])
    return damaged(valid).map(written) | cut | st.binary(max_size=60) | JSON.map(written)


def is_readable(error: Exception, most: int = 30) -> bool:
    lines = str(error).splitlines()
    return 1 <= len(lines) <= most and all(len(line) < 700 for line in lines)


def check_read(
    tried: Counter[str], path: Path, content: bytes, read: Callable[[Path], Any], *errors: type[Exception]
) -> None:
    """Read a file with this content: it works or raises one of `errors`, and the file stays as it was."""
    tried["files"] += 1
    path.write_bytes(content)
    try:
        read(path)
    except errors as error:
        assert is_readable(error), str(error)[:2000]
    assert path.read_bytes() == content


@cases
@given(st.one_of(st.binary(), st.lists(st.sampled_from(VALID.splitlines()) | TEXT).map("\n".join).map(str.encode)))
def test_a_settings_file(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(tried, tmp_path / "x.config", content, load_settings, SettingsError)


@cases
@given(st.data())
def test_a_value_of_a_setting(tmp_path: Path, tried: Counter[str], data: st.DataObject) -> None:
    lines = [line for line in VALID.splitlines() if line.startswith("CONFIG_")]
    line = data.draw(st.sampled_from(lines))
    value = str(data.draw(HOSTILE)).replace("\n", " ")
    quoted = f'"{value}"' if data.draw(st.booleans()) else value
    text = VALID.replace(line, f"{line.partition('=')[0]}={quoted}")
    content = text.encode("utf-8", "surrogatepass")

    check_read(tried, tmp_path / "x.config", content, load_settings, SettingsError)


@cases
@given(st.lists(damaged(ROW).map(written) | st.binary(max_size=40), min_size=1, max_size=3).map(b"".join))
@example(b"[" * 100_000 + b"\n")
def test_questions(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(tried, tmp_path / "questions.jsonl", content, load_examples, DatasetError)


@cases
@given(files({"question": "q", "gold": "g", "answer": "a"}))
def test_rows_to_judge(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(tried, tmp_path / "rows.jsonl", content, lambda path: list(read_answer_rows(path)), DatasetError)


@cases
@given(files(dict.fromkeys(IDS, 0.0)))
@example(b"[" * 100_000)
def test_deltas(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(
        tried, tmp_path / "deltas.json", content, lambda path: read_population(path, LAYOUT, tmp_path), ValueError
    )


@cases
@given(files([dict.fromkeys(IDS, 0.0), {"deltas": dict.fromkeys(IDS, 1.0), "scratchpad": "s"}]))
def test_populations(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(
        tried, tmp_path / "deltas.json", content, lambda path: read_population(path, LAYOUT, tmp_path), ValueError
    )


@cases
@given(files({"token_selection": {"v_steer_token_ids": [1, 2, 3]}}))
@example(b"[" * 100_000)
def test_discovered_tokens(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(tried, tmp_path / "phase0.json", content, read_discovered_tokens, ValueError)


@cases
@given(
    files({"splits": {"train": [{"retained_pairs": [{"verbose_answer": "It is so.", "compressed_answer": "Yes."}]}]}})
)
@example(b"[" * 100_000)
def test_pairs_of_answers(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(tried, tmp_path / "phase0.json", content, read_sides, ValueError)


@cases
@given(*(files(json.loads(search.to_json(search.init()))) for search in (REFLECTIVE, CMA)))
@example(b"[" * 100_000, b"[" * 100_000)
@example(
    written({"generation": float("inf"), "population": [], "best_individual": None, "best_fitness": 1, "rr_idx": 0}),
    b"{}",
)
def test_the_state_of_a_run(tmp_path: Path, tried: Counter[str], reflective: bytes, cma: bytes) -> None:
    for search, content in ((REFLECTIVE, reflective), (CMA, cma)):

        def read(path: Path, search: Search = search) -> None:
            state = search.from_json(path.read_text())
            assert search.from_json(search.to_json(state)) == state

        check_read(tried, tmp_path / "evolution_state.json", content, read, StateError, UnicodeDecodeError)


@cases
@given(files(GENERATION), files({"reason": "r", "failures": [FAILED]}), files(RUN_FILE), files({"target": 1.0}))
@example(b"[" * 100_000 + b"\n", b"{", written({"id": "r", "kind": "evolve"}), b"[]")
def test_the_status_files_of_a_run(
    tmp_path: Path, tried: Counter[str], history: bytes, parked: bytes, run: bytes, usage: bytes
) -> None:
    contents = {"history.jsonl": history, "parked.json": parked, "usage.json": usage}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for whose in (run, written(RUN_FILE), written({**RUN_FILE, "kind": "collect"})):
        check_read(tried, tmp_path / "run.json", whose, lambda path: run_status(path.parent), OutputError)
    assert contents == {name: (tmp_path / name).read_bytes() for name in contents}


@cases
@given(files([COMPARISON]))
def test_answers(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(
        tried,
        tmp_path / "answers.json",
        content,
        lambda path: read_json(path, tuple[Comparison, ...]),
        OutputError,
    )


@cases
@given(files({"nodes": [NODE], "edges": [{"from": "g0_pop0", "to": "g0_pop0"}]}))
def test_the_lineage_file(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    check_read(
        tried,
        tmp_path / "tree.json",
        content,
        lambda path: EvolutionTree(IDS).restore(read_json(path, TreeFile, checked_json), 1),
        OutputError,
    )


@cases
@given(damaged(COLLECT).map(yaml.safe_dump).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary())
@example(b"a: &a [*a]")
@example(b"? [a, b]\n: 1\n")
@example(b"!!python/object/apply:os.system ['true']")
def test_the_settings_file_of_a_collection(tmp_path: Path, tried: Counter[str], content: bytes) -> None:
    def read(path: Path) -> None:
        try:
            read_collect_settings(path)
        except SettingsError as error:
            assert all(len(line) < 700 and "\n" not in line for line in error.problems)

    check_read(tried, tmp_path / "collect.yaml", content, read)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (VERBOSE, {"example_id": "e", "key": "k", "verbose_answers": ["v"]}),
        (PAIRS, {"example_id": "e", "key": "k", "pairs": [PAIR]}),
    ],
)
def test_checkpoints(tmp_path: Path, tried: Counter[str], name: str, line: dict[str, Any]) -> None:
    @cases
    @given(st.lists(damaged(line).map(written) | st.binary(max_size=40), max_size=3).map(b"".join))
    def check(content: bytes) -> None:
        tried["files"] += 1
        # The last line is complete: one that a kill cut short is dropped from the file.
        whole = (content + b"\n" if content else b"") + written(line)
        (tmp_path / name).write_bytes(whole)
        try:
            Checkpoint(tmp_path / name).load()
        except OutputError as error:
            assert is_readable(error)
        assert (tmp_path / name).read_bytes() == whole

    check()
