"""clusters.json and versions.json: what a run was made with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from orchestrator.output import OutputFolder
from orchestrator.runs import provenance
from orchestrator.runs.provenance import Versions, keep_clusters, keep_versions, read_clusters, read_versions
from tasks.store.keys import CLUSTERING, DESCRIPTIONS
from tasks.store.store import Store


def test_a_session_with_other_versions_is_added(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    assert read_versions(output) == []
    for _ in range(2):
        keep_versions(output)
    [here] = read_versions(output)
    assert here == provenance.versions_here() and here.packages["celery"]
    earlier = dataclasses.replace(here, code="0" * 12)
    output.write_state("versions.json", {"sessions": [dataclasses.asdict(earlier)]})
    keep_versions(output)
    assert read_versions(output) == [earlier, here]
    assert isinstance(here, Versions)


def test_descriptions_of_the_user_keep_the_examples_of_the_clustering(tmp_path: Path, store: Store) -> None:
    output = OutputFolder(tmp_path)
    made = [{"id": i, "description": f"made {i}", "examples": ["</script>", f"{i}"], "count": 7} for i in range(2)]
    store.clusterings.put("run-1", "c", b"", json.dumps(made))
    store.put_metadata("run-1", CLUSTERING, "c")
    store.put_metadata(
        "run-1", DESCRIPTIONS, json.dumps([{"id": "0", "description": "mine"}, {"id": 1, "description": ""}])
    )
    assert read_clusters(output) is None
    keep_clusters(output, store, "run-1", "c")
    found = read_clusters(output)
    assert found is not None and found.clustering == "c"
    assert [(one.id, one.description, one.examples, one.count) for one in found.clusters] == [
        ("0", "mine", ("</script>", "0"), 7),
        ("1", "", ("</script>", "1"), 7),
    ]
