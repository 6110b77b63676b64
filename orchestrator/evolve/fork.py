"""A run that begins where another one was: with the population of a generation, or with one individual.

    orchestrator evolve --fork outputs/evolve@2 --output outputs/shorter --set LAMBDA_SHORTNESS=0.6

The new run is one of its own, with its own id and other settings.  What it begins with is in fork.json of its folder,
so it needs the other run no longer.  Answers and verdicts that the farm's store still has are not computed again: their
keys cover all that determines them, whichever run they were for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.evolve.optimisers import list_to_deltas
from orchestrator.evolve.records import read_history, read_individuals
from orchestrator.evolve.resume import saved_settings
from orchestrator.evolve.search import load_state, make_search
from orchestrator.evolve.systems import read_book
from orchestrator.runs.folder import OutputError, OutputFolder, find_json, run_file
from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import FORK, FORK_FILE, ZERO, ForkedArm, ForkFile, Genome
from orchestrator.settings.kconfig import PREFIX, load_settings
from orchestrator.settings.options import Settings

SAME = ("TARGET_MODEL", "CLUSTERS_BY", "EMBEDDER_MODEL", "CLUSTERS", "CLUSTERS_FROM")
"""Options that decide which tokens are in which cluster: the deltas of a fork are those of these clusters."""
START = "INITIAL_DELTAS_PATH"


@dataclass(frozen=True)
class Fork:
    """The folder of a run, and what another one begins with there, as `fork.json` has it."""

    folder: Path
    content: ForkFile

    @property
    def at(self) -> str:
        return self.content["at"]

    def begin(self, output: OutputFolder) -> None:
        """Keep what the run begins with in its folder; refuse that of a run that began otherwise."""
        known = find_json(output.path / FORK_FILE, ForkFile)
        if known is None:
            output.write_json(FORK_FILE, self.content)
        elif known["arms"] != self.content["arms"]:
            raise OutputError(
                f"{output.path} holds a run that was forked from {known['folder']} at {known['at']}; "
                "give another --output, or --fresh"
            )


def resolve_fork(spec: str, config: Path | None, overrides: Mapping[str, str] | Sequence[str]) -> tuple[Settings, Fork]:
    """The settings of a run that begins at `spec`, and what it begins with, as far as the population leaves room.

    They are those of the file `config`, or without one those of the run to fork, with `overrides` in their place.
    """
    fork = find_fork(spec)
    names = [override.partition("=")[0].strip() for override in overrides]  # of a mapping its keys
    if any(name.removeprefix(PREFIX) == START for name in names):
        raise SettingsError([f"CONFIG_{START}: --fork says what the run begins with"])
    given = {**overrides, START: str(ZERO)} if isinstance(overrides, Mapping) else [*overrides, f"{START}={ZERO}"]
    settings, before = load_settings(config or fork.folder / "config", given), saved_settings(fork.folder)
    values = [(name, getattr(settings, name.lower()), getattr(before, name.lower())) for name in SAME]
    problems = [
        f"CONFIG_{name}: is {here!r}, and {there!r} in {fork.folder}: a fork has the clusters of its origin"
        for name, here, there in values
        if here != there
    ]
    if settings.output_dir.resolve() == fork.folder.resolve():
        problems.append("CONFIG_OUTPUT_DIR: is that of the run to fork; give another with --output")
    if problems:
        raise SettingsError(problems)
    return dataclasses.replace(settings, initial_deltas_path=FORK), fork


def find_fork(spec: str) -> Fork:
    """What RUN, RUN@GENERATION or RUN@NODE begins with.

    RUN alone is the population after the last generation, or the best individual of a search that has no population.
    Of a generation the individuals are those that it evaluated as its population, the best first.
    """
    path, is_at, at = spec.rpartition("@")
    folder = Path(path)
    if not is_at or Path(spec).is_dir():  # a folder's name may have an @
        folder, at = Path(spec), ""
    known = run_file(folder)
    if known["kind"] != "evolve":
        raise OutputError(f"{folder} is a run of {known['kind']!a}, and only evolutions can be forked")
    output = OutputFolder(folder)
    search = make_search(saved_settings(folder), read_book(output))
    state = load_state(output, search)
    history = read_history(output, count := state.generation)
    individuals = read_individuals(output, history)
    if not count:
        raise OutputError(f"{folder} has no finished generation to fork")
    found: dict[str, Sequence[Genome]]
    if at in ("", str(count)):
        found = {name: one.members for name, one in state.states.items()}
        at = f"the end of {count} generations"
    else:
        nodes = [at]
        if at.isdecimal():
            if int(at) >= count:
                raise OutputError(
                    f"{folder} has generations 0 to {count - 1}, and {count} for its end; there is no {at}"
                )
            nodes = [one["node"] for one in history[int(at)]["population"]]
            at = f"generation {int(at)}"
        chosen = sorted((one for one in individuals if one.node in nodes), key=lambda one: -one.fitness)
        if not chosen:
            raise OutputError(f"{folder} has no individual {at!a}; individuals.jsonl has the names")
        found = {chosen[0].arm: [Genome(one.vector, one.scratchpad) for one in chosen]}
    ids = search.any_params.cluster_ids
    arms: dict[str, ForkedArm] = {
        name: {
            "clustering": search.arm(name).clustering,
            "population": [
                {"deltas": list_to_deltas(one.deltas, ids), "scratchpad": one.scratchpad} for one in genomes
            ],
        }
        for name, genomes in found.items()
    }
    return Fork(folder, {"run": known["id"], "folder": str(folder.resolve()), "at": at, "arms": arms})
