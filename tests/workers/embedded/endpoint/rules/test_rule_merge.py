"""The merger by rules: scratchpads joined line by line."""

from __future__ import annotations

from tasks.openai.merge import Parent, merge_messages
from workers.embedded.endpoint.rules import merge


def joined(a: Parent, b: Parent) -> list[str]:
    reply = merge.answer(*merge_messages(a, b))
    return str(reply["scratchpad"]).split("\n")


def test_the_fitter_parents_lines_come_first_and_replace_the_others():
    a = Parent("shared\ncluster 0: up was bad\ncluster 3: down was good", 0.25)
    b = Parent("cluster 0: up was good\nshared", 0.75)
    assert joined(a, b) == ["cluster 0: up was good", "shared", "cluster 3: down was good"]
    assert joined(b, a) == joined(a, b)
