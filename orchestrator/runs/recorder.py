"""Recording a run: every generation goes to the output folder before the next one starts.

`evolution_state.json` is written last, so whatever else lies in the folder is never older than the state; what a
killed generation left beyond it is dropped when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from orchestrator.evolution.individual import list_to_deltas
from orchestrator.evolution.loop import Generation
from orchestrator.evolution.state import Genome, state_to_json
from orchestrator.evolution.tree import SHAPE, Tree
from orchestrator.output import OutputFolder, read_own
from orchestrator.runs.bulletin import TOKEN_COUNTS
from orchestrator.runs.studio import Studio
from tasks.openai.answerer import Role
from tasks.records import Score
from tasks.store import Store


class Recorder:
    """Writes what a generation came to; remembers the history and the tree."""

    def __init__(
        self, output: OutputFolder, store: Store, run_id: str, cluster_ids: Sequence[str], studio: Studio
    ) -> None:
        self.output = output
        self.store = store
        self.run_id = run_id
        self.cluster_ids = tuple(cluster_ids)
        self.studio = studio
        self.history: list[dict[str, Any]] = []
        self.tree = Tree()
        self._best: Genome | None = None

    def resume(self, generation: int) -> None:
        """Take up what the folder holds of the generations before this one."""
        self.history = [g for g in self.output.read_history() if g["generation"] < generation]
        if self.output.tree.exists():
            self.tree = Tree.before(read_own(self.output.tree, SHAPE), generation)
        for role, names in (self.history[-1].get("answered", {}) if self.history else {}).items():
            self.store.add_answerers(self.run_id, role, names)

    def record(self, generation: Generation, wall_s: float) -> None:
        """Write one finished generation."""
        usage = self.store.usage(self.run_id)
        line = history_line(generation, wall_s, usage, self.history)
        answered = {role: self.store.answerers(self.run_id, role) for role in get_args(Role)}
        self.history.append(line | {"answered": answered})
        self.output.write_json("evolution_tree.json", self.tree.data())
        self.output.write_history(self.history)
        self._write_deltas("deltas_current.json", generation.leader)
        best = generation.state.best
        assert best is not None, "a generation always evaluates somebody"
        self._write_deltas("deltas_best.json", best)
        self.studio.processor("processor.py", generation.leader.deltas)
        if best != self._best:
            self.studio.processor("processor_best.py", best.deltas)
            self._best = best
        self.studio.draw(self.history, self.tree.data(), self.baseline_tokens())
        self.output.write("evolution_state.json", state_to_json(generation.state, self.cluster_ids))

    def baseline_tokens(self) -> float | None:
        """Mean answer length of the initial individual, in tokens."""
        return self.history[0]["population"][0]["mean_tokens"] if self.history else None

    def _write_deltas(self, name: str, genome: Genome) -> None:
        self.output.write_json(name, list_to_deltas(genome.deltas, self.cluster_ids))


def history_line(
    generation: Generation, wall_s: float, usage: Mapping[str, float], earlier: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One line of `history.jsonl`.  `usage` is the run's total so far; the line holds this generation's share."""

    def share(name: str, before: float) -> float:
        return max(0.0, usage.get(name, 0.0) - before)

    def individual(node: str, score: Score, **more: Any) -> dict[str, Any]:
        return {
            "node": node,
            **more,
            "fitness": score.fitness,
            "shortness": score.shortness,
            "correctness": score.correctness,
            "mean_tokens": score.mean_tokens,
        }

    fitness = [score.fitness for _, score in generation.population]
    return {
        "generation": generation.generation,
        "best": max(fitness),
        "mean": sum(fitness) / len(fitness),
        "best_ever": generation.state.best_fitness,
        "population": [individual(node, score) for node, score in generation.population],
        "offspring": [individual(node, score, target=target) for node, target, score in generation.offspring],
        "seconds": {"wall": round(wall_s, 3), **{k: round(v, 3) for k, v in generation.seconds.items()}},
        "tokens": {n: int(share(n, sum(g["tokens"][n] for g in earlier))) for n in TOKEN_COUNTS},
        "calls": int(share("requests", sum(g["calls"] for g in earlier))),
        "cost_usd": round(share("cost_usd", sum(g["cost_usd"] for g in earlier)), 6),
    }
