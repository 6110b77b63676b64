"""The merger by rules: scratchpads joined line by line."""

from __future__ import annotations

from tasks.openai.merge import Parent, merge_messages
from workers.embedded.endpoint.rules import merge
from workers.embedded.endpoint.rules.mutation import MAX_LINES


def joined(a: Parent, b: Parent) -> list[str]:
    reply = merge.answer(*merge_messages(a, b))
    return str(reply["scratchpad"]).split("\n")


def test_the_fitter_parents_lines_come_first_and_replace_the_others():
    a = Parent("shared\ncluster 0: up was bad\ncluster 3: down was good", 0.25)
    b = Parent("cluster 0: up was good\nshared", 0.75)
    assert joined(a, b) == ["cluster 0: up was good", "shared", "cluster 3: down was good"]
    assert joined(b, a) == joined(a, b)


def test_in_a_tie_the_first_parent_counts_as_the_fitter():
    assert joined(Parent("cluster 0: a", 0.5), Parent("cluster 0: b", 0.5)) == ["cluster 0: a"]
    assert joined(Parent("", 0.5), Parent("", 0.5)) == [""]
    assert joined(Parent("", 0.9), Parent("b", 0.5)) == ["b"]


def test_a_merged_scratchpad_keeps_the_limit_of_lines():
    a = Parent("\n".join(f"note {i}" for i in range(100)), 0.9)
    b = Parent("other", 0.5)
    assert joined(a, b) == [f"note {i}" for i in range(100 - MAX_LINES, 100)]
