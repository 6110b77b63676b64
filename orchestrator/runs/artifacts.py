"""What workers make for the output folder: pictures on the cpu queue, processors on the gpu queue.

They are asked for and left to be made; `collect` fetches those that are ready.  A picture that fails is told and
does not stop a run.

Recording a run: every generation goes to the output folder before the next one starts.

`evolution_state.json` is written last, so whatever else lies in the folder is never older than the state; what a
killed generation left beyond it is dropped when the run is resumed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from celery import Celery

from orchestrator.dispatch.producer import pop_result, send
from orchestrator.evolution.individual import list_to_deltas
from orchestrator.evolution.lineage import Lineage, LineageFile
from orchestrator.evolution.loop import Generation
from orchestrator.evolution.state import Genome, state_to_json
from orchestrator.output import OutputFolder, read_json
from orchestrator.runs.publisher import TOKEN_COUNTS
from tasks.cpu.plot import DATA, PICTURES, WASTED
from tasks.models import Score
from tasks.openai.provider import Role
from tasks.store.store import Store
from tasks.validation import checked_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    """A task that makes a file, and what it was asked with."""

    id: str
    task: str
    arguments: list[Any]


class ArtifactRequests:
    """Files in the making, by name; a newer request for a name takes the place of the older."""

    def __init__(self, app: Celery, store: Store, run_id: str, output: OutputFolder) -> None:
        self.app = app
        self.store = store
        self.run_id = run_id
        self.output = output
        self._wanted: dict[str, _Wanted] = {}  # by file name

    def draw(self, history: Sequence[dict[str, Any]], tree: dict[str, Any], baseline_tokens: float | None) -> None:
        """Have all pictures of the run drawn anew."""
        data = {"history": list(history), "tree": tree, "baseline_tokens": baseline_tokens}
        self.store.put_file(self.run_id, DATA, json.dumps(data).encode())
        for name in PICTURES:
            self._want(name, "cpu.plot", [self.run_id, name])

    def draw_wasted(self, v_steer: Sequence[dict[str, Any]]) -> None:
        """Have Phase 0's picture drawn."""
        self.store.put_file(self.run_id, DATA, json.dumps({"v_steer": list(v_steer)}).encode())
        self._want(WASTED, "cpu.plot", [self.run_id, WASTED])

    def processor(self, name: str, deltas: Sequence[float]) -> None:
        """Have a processor file made for these deltas (in canonical order)."""
        self._want(name, "gpu.processor", [self.run_id, name, list(deltas)])

    def collect(self) -> None:
        """Write the files that are ready."""
        for name, wanted in list(self._wanted.items()):
            status, result = pop_result(self.app, wanted.id)
            if status is None:
                continue
            del self._wanted[name]
            data = self.store.file(self.run_id, name)
            if status != "SUCCESS" or data is None:
                log.warning("%s could not be made: %s", name, result)
            else:
                self.output.write(name, data)

    def wait(self, pause: Callable[[], None], until: float, clock: Callable[[], float]) -> None:
        """Collect until nothing is wanted, or until the clock says so; what takes long is asked for once more.

        A worker that is killed may take a message with it (see `FarmEvaluator`), and a file can be made twice.
        """
        again = (clock() + until) / 2
        while self._wanted and clock() < until:
            self.collect()
            if self._wanted and clock() > again:
                again = until
                for name, wanted in self._wanted.items():
                    self._want(name, wanted.task, wanted.arguments)
            if self._wanted:
                pause()
        for name in self._wanted:
            log.warning("%s was not made in time", name)

    def _want(self, name: str, task: str, arguments: list[Any]) -> None:
        self._wanted[name] = _Wanted(send(self.app, task, arguments), task, arguments)


class Recorder:
    """Writes what a generation came to; remembers the history and the tree."""

    def __init__(
        self, output: OutputFolder, store: Store, run_id: str, cluster_ids: Sequence[str], studio: ArtifactRequests
    ) -> None:
        self.output = output
        self.store = store
        self.run_id = run_id
        self.cluster_ids = tuple(cluster_ids)
        self.studio = studio
        self.history: list[dict[str, Any]] = []
        self.tree = Lineage()
        self._best: Genome | None = None

    def resume(self, generation: int) -> None:
        """Take up what the folder holds of the generations before this one."""
        self.history = [g for g in self.output.read_history() if g["generation"] < generation]
        if self.output.tree.exists():
            tree: Any = read_json(self.output.tree, LineageFile, checked_json)
            self.tree = Lineage.before(tree, generation)
        for role, names in (self.history[-1].get("answered", {}) if self.history else {}).items():
            self.store.add_providers(self.run_id, role, names)

    def record(self, generation: Generation, wall_s: float) -> None:
        """Write one finished generation."""
        usage = self.store.usage(self.run_id)
        line = history_line(generation, wall_s, usage, self.history)
        answered = {role: self.store.providers(self.run_id, role) for role in get_args(Role)}
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
