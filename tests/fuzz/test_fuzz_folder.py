"""The output folder: neither a name from the store nor a link in the folder makes a run write outside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fuzz_cases import PATHS, TEXT, cases
from hypothesis import given

from orchestrator.output import OutputError, OutputFolder
from tasks.gpu.cluster import write_labels


@pytest.fixture
def output(tmp_path: Path) -> OutputFolder:
    output = OutputFolder(tmp_path / "run")
    output.open()
    return output


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_dir()}


@cases
@given(name=PATHS | TEXT)
def test_a_name_from_the_store_stays_inside(output: OutputFolder, tried: Counter[str], name: str) -> None:
    tried["names of files"] += 1
    for given_name in (name, f"reflector_prompts/{name}", f"../{name}", f"{name}/../../x"):
        before = files(output.path.parent)
        try:
            output.write(given_name, "text")
        except OutputError as error:
            assert files(output.path.parent) == before and "\n" not in str(error)
        else:
            assert (output.path / given_name).resolve().is_relative_to(output.path.resolve())
            assert (output.path / given_name).read_text() == "text"


@pytest.mark.parametrize("entry", ["reflector_prompts", "evolution_state.json", "run.log", "reflector_prompts/x.txt"])
def test_a_link_out_of_the_folder_is_rejected_before_anything_is_written(tmp_path: Path, entry: str) -> None:
    (tmp_path / "run" / "reflector_prompts").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "run" / entry
    if link.is_dir():
        link.rmdir()
    link.symlink_to(outside)

    with pytest.raises(OutputError, match="a link that leads out of the folder"):
        OutputFolder(tmp_path / "run").open()
    assert not files(outside) and not (tmp_path / "run" / ".lock").exists()


def test_the_folder_may_be_a_link_and_hold_links_within_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "old.json").write_text("{}")
    (tmp_path / "disk" / "new.json").symlink_to("old.json")
    (tmp_path / "run").symlink_to(tmp_path / "disk")

    output = OutputFolder(tmp_path / "run")
    output.open()
    output.write("reflector_prompts/gen_0_merge_g0_child1_pre.txt", "text")

    assert (tmp_path / "disk" / "reflector_prompts").is_dir()


@cases
@given(name=PATHS | TEXT)
def test_the_labels_of_a_clustering_stay_in_their_folder(tmp_path: Path, tried: Counter[str], name: str) -> None:
    tried["names of files"] += 1
    before = files(tmp_path)
    with pytest.raises(ValueError, match="the clustering: "):
        write_labels(b"", f"{name}/x", tmp_path)
    assert files(tmp_path) == before
