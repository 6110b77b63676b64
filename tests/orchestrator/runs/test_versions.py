"""clusters.json and versions.json: what a run was made with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.status import Versions, keep_versions, read_versions


def test_a_session_with_other_versions_is_added(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    assert read_versions(output) == []
    for _ in range(2):
        keep_versions(output)
    [here] = read_versions(output)
    assert here == Versions.here() and here.packages["celery"]
    earlier = dataclasses.replace(here, code="0" * 12)
    output.write_json("versions.json", {"sessions": [dataclasses.asdict(earlier)]})
    keep_versions(output)
    assert read_versions(output) == [earlier, here]
