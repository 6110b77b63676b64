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

from orchestrator.evolve.optimisers import Genome
from orchestrator.evolve.resume import saved_settings
from orchestrator.evolve.search import load_state, make_search
from orchestrator.evolve.systems import read_book
from orchestrator.results import RunResults
from orchestrator.runs.folder import OutputError, OutputFolder
from orchestrator.settings import Settings, SettingsError, load_settings, pinned_of
from orchestrator.settings.inputs import FORK, FORK_FILE, ZERO
from orchestrator.settings.kconfig import PREFIX
from orchestrator.settings.start import ForkFile, StartVector, most_vectors, population_problem, read_fork
from tasks.common.files import FileTooLarge
from tasks.common.validation import InvalidData

SAME = (
    "TARGET_MODEL",
    "CLUSTERS_BY",
    "EMBEDDER_MODEL",
    "CLUSTERS",
    "CLUSTERS_FROM",
)
"""Options that decide which tokens are in which cluster: the deltas of a fork are those of these clusters."""
START = "INITIAL_DELTAS_PATH"


@dataclass(frozen=True)
class Fork:
    """A run, where in it another one begins ("generation 2", "g1_child0_mut"), and what each arm begins with."""

    run: str
    folder: Path
    at: str
    cluster_ids: tuple[str, ...]
    arms: Mapping[str, tuple[str, tuple[Genome, ...]]]  # by name: the clustering and the population

    def fitting(self, settings: Settings) -> tuple[Settings, Fork]:
        """The settings of a run that begins here, and the fork with as many individuals as they leave room for."""
        before = saved_settings(self.folder)
        problems = [
            f"CONFIG_{name}: is {getattr(settings, name.lower())!r}, and {getattr(before, name.lower())!r} in "
            f"{self.folder}: a fork has the clusters of its origin"
            for name in SAME
            if getattr(settings, name.lower()) != getattr(before, name.lower())
        ]
        if settings.output_dir.resolve() == self.folder.resolve():
            problems.append("CONFIG_OUTPUT_DIR: is that of the run to fork; give another with --output")
        optimiser, size = settings.optimiser, settings.population_size
        most, _ = most_vectors(optimiser, size)
        chosen = {name: (clustering, found[:most]) for name, (clustering, found) in self.arms.items()}
        for _, population in chosen.values():
            vectors = [StartVector(dict(zip(self.cluster_ids, one.deltas, strict=True))) for one in population]
            if not problems and (problem := population_problem(vectors, optimiser, size, pinned_of(settings))):
                problems.append(f"--fork: {self.folder} at {self.at} {problem}")
        if problems:
            raise SettingsError(problems)
        return dataclasses.replace(settings, initial_deltas_path=FORK), dataclasses.replace(self, arms=chosen)

    def check(self, output: OutputFolder) -> None:
        try:
            known = read_fork(output.path / FORK_FILE)
        except FileNotFoundError:
            return
        except (OSError, InvalidData, FileTooLarge) as error:
            raise OutputError(f"{output.path / FORK_FILE} cannot be read: {error}") from None
        if known["arms"] != self._file()["arms"]:
            raise OutputError(
                f"{output.path} holds a run that was forked from {known['folder']} at {known['at']}; "
                "give another --output, or --fresh"
            )

    def write(self, output: OutputFolder) -> None:
        """Put what the run begins with into its open folder, unless it is there."""
        if (output.path / FORK_FILE).exists():
            return
        output.write_state(FORK_FILE, self._file())

    def _file(self) -> ForkFile:
        return {
            "run": self.run,
            "folder": str(self.folder.resolve()),
            "at": self.at,
            "arms": {
                name: {
                    "clustering": clustering,
                    "population": [
                        {"deltas": dict(zip(self.cluster_ids, one.deltas, strict=True)), "scratchpad": one.scratchpad}
                        for one in population
                    ],
                }
                for name, (clustering, population) in self.arms.items()
            },
        }


def resolve_fork(spec: str, config: Path | None, overrides: Mapping[str, str] | Sequence[str]) -> tuple[Settings, Fork]:
    """The settings of a run that begins at `spec`, and what it begins with.

    They are those of the file `config`, or without one those of the run to fork, with `overrides` in their place.
    """
    fork = find_fork(spec)
    names = [override.partition("=")[0].strip() for override in overrides]  # of a mapping its keys
    if any(name.removeprefix(PREFIX) == START for name in names):
        raise SettingsError([f"CONFIG_{START}: --fork says what the run begins with"])
    given = {**overrides, START: str(ZERO)} if isinstance(overrides, Mapping) else [*overrides, f"{START}={ZERO}"]
    return fork.fitting(load_settings(config or fork.folder / "config", given))


def find_fork(spec: str) -> Fork:
    """What RUN, RUN@GENERATION or RUN@NODE begins with.

    RUN alone is the population after the last generation, or the best individual of a search that has no population.
    Of a generation the individuals are those that it evaluated as its population, the best first.
    """
    folder, at = _split(spec)
    results = RunResults.open(folder)
    if results.kind != "evolve":
        raise OutputError(f"{folder} is a run of {results.kind!a}, and only evolutions can be forked")
    count = len(results.generations)
    if not count:
        raise OutputError(f"{folder} has no finished generation to fork")
    book = read_book(results.output)
    search = make_search(saved_settings(folder), book)
    ids = search.any_params.cluster_ids
    if at in ("", str(count)):
        states = load_state(results.output, search).states
        members = {name: state.members for name, state in states.items()}
        arms = {name: (search.arm(name).clustering, found) for name, found in members.items()}
        return Fork(results.run, folder, f"the end of {count} generations", ids, arms)
    if at.isdecimal():
        if int(at) >= count:
            raise OutputError(f"{folder} has generations 0 to {count - 1}, and {count} for its end; there is no {at}")
        individuals = [results.individual(one["node"]) for one in results.generations[int(at)]["population"]]
        at = f"generation {int(at)}"
    else:
        individuals = [results.individual(at)]
    individuals.sort(key=lambda one: -one.fitness)  # of equal ones the first stays first
    genomes = tuple(Genome(one.vector, one.scratchpad) for one in individuals)
    arm = search.arm(individuals[0].arm)
    return Fork(results.run, folder, at, ids, {arm.name: (arm.clustering, genomes)})


def _split(spec: str) -> tuple[Path, str]:
    """The folder and the place in it; a folder's name may have an @."""
    folder, at, place = spec.rpartition("@")
    return (Path(folder), place) if at and not Path(spec).is_dir() else (Path(spec), "")
