"""The evolution tree of a run that continues after a kill."""

from __future__ import annotations

import pytest

from orchestrator.optimisers.generation import Evaluated, Generation, Genome
from orchestrator.runs.evolution_tree import EvolutionTree
from tasks.models import Score

SCORE = Score(0.5, 0.5, 0.5, 10.0)


def generation(number: int, survivors: tuple[str, ...] = ()) -> Generation:
    """One vector, which descends from that of the generation before."""
    parents = (f"g{number - 1}_pop0",) if number else ()
    vector = Evaluated(f"g{number}_pop0", Genome((float(number),), ""), SCORE, parents=parents)
    return Generation(number, (vector,), survivors=survivors)


@pytest.mark.parametrize("survives", [False, True])
def test_a_generation_that_is_recorded_again_has_its_edges_once(survives: bool) -> None:
    # Given the tree of three generations, whose vectors descend from one another
    tree = EvolutionTree(("0",))
    for number in range(3):
        tree.add(generation(number, (f"g{number}_pop0",) if survives else ()))
    # When the last one is recorded again, because the run was killed before its state was written
    again = EvolutionTree(("0",))
    again.restore(tree.data(), 2)
    again.add(generation(2, ("g2_pop0",) if survives else ()))
    # Then the tree is the same
    assert again.data() == tree.data()
