"""What is no name of a folder is refused as the name of a run."""

from __future__ import annotations

import pytest

from orchestrator.settings.farm import folder_name


@pytest.mark.parametrize("name", ["", ".", "../out", ".hidden", "a/b", "a b", "x" * 81, "名"])
def test_what_is_no_name_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a folder"):
        folder_name(name)
