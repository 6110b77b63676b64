"""The discovered tokens of Phase 0's output reach the run, or it is said why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import SettingsError, load_settings, make_run, read_discovered_tokens
from tasks.models import Run


def write(folder: Path, ids: object) -> Path:
    path = folder / "phase0_data.json"
    path.write_text(json.dumps({"metadata": {}, "token_selection": {"k": 3, "v_steer_token_ids": ids}}))
    return path


def test_they_reach_the_workers_as_they_were(sound: Any, tmp_path: Path) -> None:
    # given settings that name the output of Phase 0
    path = write(tmp_path, [40, 7, 151_900])
    settings = load_settings(
        sound.path, [f"CLUSTERS_FROM={path}", "KMEANS_CLUSTERS=3", f"INITIAL_DELTAS_PATH={deltas(sound, 3)}"]
    )
    # when a run is made of them, and travels
    run = make_run(settings, "here")
    # then the tokens are there, in order
    assert run.clusters.discovered == (40, 7, 151_900)
    assert Run.from_json(run.to_json()) == run


def deltas(sound: Any, clusters: int) -> Path:
    sound.write_deltas({str(cluster): 0.0 for cluster in range(clusters + 2)})
    return Path(sound.deltas)


def test_without_them_the_whole_vocabulary_is_clustered(sound: Any) -> None:
    assert make_run(load_settings(sound.path), "here").clusters.discovered == ()


def test_more_clusters_than_tokens_are_refused(sound: Any, problems: Any, tmp_path: Path) -> None:
    path = write(tmp_path, list(range(9)))
    assert problems(f"CLUSTERS_FROM={path}") == (
        "CONFIG_KMEANS_CLUSTERS: 10 is more than the 9 discovered tokens of CLUSTERS_FROM; "
        "ask for fewer clusters, or collect with a larger phase0.k",
    )


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([], "has no discovered tokens"),
        (None, "has no list token_selection.v_steer_token_ids"),
        ([1, "2"], "has \"'2'\" among its discovered tokens"),
        ([1, True], "has 'True' among"),
        ([1, -2], "has '-2' among"),
        ([3, 4, 3], "has a discovered token twice"),
    ],
)
def test_a_list_that_is_none_is_refused(problems: Any, tmp_path: Path, ids: object, reason: str) -> None:
    path = write(tmp_path, ids)
    [told] = problems(f"CLUSTERS_FROM={path}")
    assert told.startswith("CONFIG_CLUSTERS_FROM: ")
    assert reason in told


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"token_selection": []}', "\x00", "[" * 100_000])
def test_another_file_is_refused(problems: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)  # an error shows the beginning of a long path
    path = Path("other.json")
    path.write_text(text)
    [told] = problems(f"CLUSTERS_FROM={path}")
    assert told.startswith("CONFIG_CLUSTERS_FROM: ")
    with pytest.raises(ValueError, match=r"other\.json"):
        read_discovered_tokens(path)


def test_a_file_that_goes_between_is_told_as_a_setting(sound: Any, tmp_path: Path) -> None:
    path = write(tmp_path, list(range(20)))
    settings = load_settings(sound.path, [f"CLUSTERS_FROM={path}"])
    path.unlink()
    with pytest.raises(SettingsError, match="CLUSTERS_FROM"):
        make_run(settings, "here")
