"""What is read of a kept call of the reflector, and which individuals it was made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.output import OutputError
from orchestrator.reflector_calls import read_reflector_call


def test_a_call_has_its_texts_and_who_answered_and_belongs_to_its_individual(tmp_path: Path) -> None:
    file = tmp_path / "gen_0_reflect_g0_child1_mut_attempt2.txt"
    file.write_text(
        "# reflect, attempt 2: done\n# answered by: gpt\n===== system =====\nS\n\n===== user =====\nU\n"
        "===== reply =====\n{}\n"
    )
    call = read_reflector_call(file)
    assert (call.title, call.provider, call.reply) == ("reflect, attempt 2: done", "gpt", "{}")
    assert (call.system, call.user) == ("S\n", "U")
    assert call.is_about("g0_child1_mut") and call.is_about("g0_child1_pre")
    assert not call.is_about("g0_child11_mut") and not call.is_about("g0_pop1")


def test_a_call_about_the_clusters_is_of_no_candidate_and_a_cut_file_has_what_is_left(tmp_path: Path) -> None:
    file = tmp_path / "describe_clusters.txt"
    file.write_text("# describe\n===== system =====\nS")
    call = read_reflector_call(file)
    assert (call.candidate, call.title, call.system, call.user, call.reply) == ("", "describe", "S", "", "")
    assert not call.is_about("g0_child1_mut")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"none\.txt cannot be read"):
        read_reflector_call(tmp_path / "none.txt")
