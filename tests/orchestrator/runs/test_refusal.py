"""A run that is refused when it is started again keeps its settings, whatever its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.farm import FarmLost, FarmUnavailable
from orchestrator.runs.session import restored_if_refused
from orchestrator.settings import SettingsError
from tasks.common.logs import SecretError


@pytest.mark.parametrize("error", [SettingsError(["no"]), SecretError("no key"), FarmUnavailable("no farm")])
def test_settings_with_which_a_run_is_refused_do_not_replace_those_that_it_has(
    tmp_path: Path, error: Exception
) -> None:
    settings, progress, added = (tmp_path / name for name in ("settings", "progress", "added"))

    def start(error: Exception) -> None:
        with pytest.raises(type(error)), restored_if_refused(settings, progress, added):
            settings.write_text("new")
            added.write_text("new")
            progress.unlink(missing_ok=True)
            raise error

    # a new run has no earlier ones
    start(error)
    assert (settings.read_text(), added.read_text()) == ("new", "new")
    # one that has them keeps them
    settings.write_text("old")
    progress.write_text("half")
    added.unlink()
    start(error)
    assert (settings.read_text(), progress.read_text(), added.exists()) == ("old", "half", False)
    # what ends it later leaves the new ones
    start(FarmLost("the farm has ended"))
    assert (settings.read_text(), progress.exists(), added.exists()) == ("new", False, True)
