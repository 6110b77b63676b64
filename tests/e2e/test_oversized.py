"""A reflector that writes ten megabytes: the run parks with the reason, nothing inherits the text, a retry goes on."""

from __future__ import annotations

import pytest
from run_folder import RunFolder, orchestrator

pytestmark = pytest.mark.long


def test_a_scratchpad_of_ten_megabytes_parks_the_run_and_a_retry_ends_it_as_if_it_had_never_been(
    reference_run: RunFolder, run_folder: RunFolder
) -> None:
    # when the reflector writes 10 MB three times: two mutations may be at work, so one of them gets it twice
    parked = run_folder.run(EMBEDDED_FAULTS="mutation:oversized:3")
    # then the run parks and names the reason
    assert parked.returncode == 3, parked.stdout
    assert "ignores max_completion_tokens" in parked.stdout and "Traceback" not in parked.stdout
    # and no file of the run is large
    assert max(path.stat().st_size for path in run_folder.output.rglob("*") if path.is_file()) < 1_000_000

    # when it is retried, and the reflector works again
    done = orchestrator("retry", str(run_folder.output), "--set", "EMBEDDED_FAULTS=")
    # then it ends as a run without the fault
    assert done.returncode == 0, done.stdout
    assert run_folder.state() == reference_run.state()
    assert run_folder.processes() == []
