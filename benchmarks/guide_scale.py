"""How well a guided run keeps its gpu workers busy: four missions side by side on 1, 2, 4 and 8 of them.

Real broker, real workers, the real steps of the missions; only the target, critic and reflector wait instead of
computing, sped up so that the bound takes --seconds whatever the number of workers.  Held against that lower bound: all
gpu work over the workers, or the longest mission, each of whose rounds takes as long as its longest job.
`python benchmarks/guide_scale.py [--seconds 120]`
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import table, write
from guide_tasks import GPU_TASKS, gpu_s, result_of
from idle_farm import RUN, Crew, idle_farm

from orchestrator.dispatch.dispatcher import Dispatcher, WaitLimits
from orchestrator.dispatch.scheduler import Request, Scheduler
from orchestrator.farm.connection import FarmConnection
from orchestrator.farm.producer import make_sender
from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.ingest import MissionTickets
from orchestrator.guide.journal import JOURNAL, Journal
from orchestrator.guide.mission import Mission
from orchestrator.guide.pipeline import MissionPipeline, MissionRun
from orchestrator.guide.prompt_files import Templates
from orchestrator.guide.repository import GuidanceRepository
from orchestrator.guide.settings import GuideSettings, read_guide_settings
from orchestrator.guide.steps import MissionSetup
from orchestrator.guide.tally import Tally
from tasks.guide.context import GuideContext
from tasks.guide.ticket import Ticket
from tasks.models import Sampling, Target
from tasks.store.address import queues_url, store_url
from tasks.store.client import connect
from tasks.store.store import Store

WANTED = 1.2
WORKERS = (1, 2, 4, 8)
MISSIONS, BATCH, BATCHES, HELD_OUT = 4, 16, 2, 16
IN_FLIGHT = 64  # jobs sent to the gpu workers at once
ROOT = Path(__file__).parents[1]


@dataclass
class Recorded:
    """The gpu seconds of a mission: of all its jobs, and of the longest job of each round, one after the other."""

    work_s: float = 0.0
    path_s: float = 0.0
    seen: set[str] = field(default_factory=set)

    def note(self, asked: Sequence[Request]) -> None:
        new = {request.key: gpu_s(request.spec.task, request.key) for request in asked if request.key not in self.seen}
        self.seen |= new.keys()
        self.work_s += sum(new.values())
        self.path_s += max(new.values(), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="on the clock, for the bound of a run")
    options = parser.parse_args()
    settings = small_settings()
    with tempfile.TemporaryDirectory() as folder:
        missions = [rehearsed(mission) for mission in prepared(settings, Path(folder))]
    found = [measure(settings, missions, workers, options.seconds) for workers in WORKERS]
    rows = [[f"{f[name]}" for name in ("workers", "bound_s", "took_s", "ratio")] for f in found]
    work, longest = sum(one.work_s for one in missions), max(one.path_s for one in missions)
    jobs = sum(len(one.seen) for one in missions)
    print(
        f"{MISSIONS} missions, {jobs} jobs, {work:.0f} s of gpu work; the longest mission alone takes {longest:.0f} s"
    )
    print(table(["gpu workers", "bound s", "took s", "to bound"], rows))
    worst = max(f["ratio"] for f in found)
    print(f"worst ratio to the bound: {worst:.3f} (wanted: at most {WANTED})")
    write("guide_scale", {"missions": MISSIONS, "jobs": jobs, "work_s": work, "longest_s": longest, "farm": found})
    sys.exit(0 if worst <= WANTED else 1)


def small_settings() -> GuideSettings:
    """Those for a card, with small batches, one candidate a ticket, and a gate that takes half of the edits."""
    given = read_guide_settings(ROOT / "configs" / "guide_gpu.yaml")
    prompts = {"prompt_path": str(ROOT / "configs" / "guide" / "critic.txt")}
    critic = dataclasses.replace(given.critic, max_candidates=1, **prompts)
    prompts = {"prompt_path": str(ROOT / "configs" / "guide" / "reflection.txt")}
    return dataclasses.replace(
        given,
        missions={f"mission {number}": "Whether it is right." for number in range(MISSIONS)},
        sampler=dataclasses.replace(given.sampler, group_batch_size=BATCH, grid=given.sampler.grid[:1]),
        critic=critic,
        reflection=dataclasses.replace(given.reflection, apply_if_delta=0.0, **prompts),
        holdout=dataclasses.replace(given.holdout, min_probability=0.0, max_false_pass_rise=1.0),
        runner=dataclasses.replace(given.runner, epochs=1),
    )


def prepared(settings: GuideSettings, folder: Path) -> list[Mission]:
    """All missions at their beginning, each in a folder of its own."""
    target = Target("m", "embedded", "resident", "", "", "", "cpu", "auto", 1, 1, 1, "", "", Sampling(1, 0, 1, 1))
    first = {"step": 0, "updated_at": "", "experiences": {"G0": "Look at every image."}}
    start = folder / "guidance.json"
    start.write_text(json.dumps(dict.fromkeys(settings.missions, first)))
    found = []
    for name in settings.missions:
        repository = GuidanceRepository(folder / name, name, settings.guidance.retention)
        setup = MissionSetup(tickets_of(name), settings, GuideContext(target, server={"model": "waiting"}))
        tally, files = Tally(settings, setup.tickets), MissionFolder(folder / name)
        templates = Templates.read(settings)
        found.append(Mission(setup, templates, files, repository, repository.start_from(start), tally))
    return found


def tickets_of(mission: str) -> MissionTickets:
    tickets = [
        Ticket(f"t{n:03}", mission, "fail" if n % 2 else "pass", {"image_1": f"unit {n} of {mission}"})
        for n in range(BATCH * BATCHES + HELD_OUT)
    ]
    return MissionTickets(mission, tuple(tickets[HELD_OUT:]), tuple(tickets[:HELD_OUT]), ())


def rehearsed(mission: Mission) -> Recorded:
    """What a mission asks, answered at once and without a farm."""
    recorded, steps = Recorded(), mission.steps()
    try:
        asked = next(steps)
        while True:
            recorded.note(asked)
            asked = steps.send({request.key: result_of(request) for request in asked})
    except StopIteration:
        return recorded


def measure(settings: GuideSettings, missions: Sequence[Recorded], workers: int, seconds: float) -> dict[str, Any]:
    """The same missions on so many gpu workers; seconds as in life."""
    bound = max(sum(one.work_s for one in missions) / workers, *(one.path_s for one in missions))
    scale = bound / seconds
    os.environ["WHETSTONE_SCALE"] = str(scale)
    crews = {f"gpu{number}": Crew("gpu") for number in range(workers)}
    with idle_farm({**crews, "cpu": Crew("cpu")}, "guide_tasks") as farm, tempfile.TemporaryDirectory() as folder:
        app, store = make_sender(farm.url), Store(connect(store_url(farm.url)))
        store.put_run(RUN)
        connection = FarmConnection(app, connect(queues_url(farm.url)), store, False, lambda: None)
        scheduler = Scheduler(Dispatcher(connection, RUN.id, WaitLimits(600.0)), dict.fromkeys(GPU_TASKS, IN_FLIGHT))
        found = prepared(settings, Path(folder))
        runs = [MissionRun(one.setup.mission, one.steps(), Journal(one.folder.path / JOURNAL)) for one in found]
        started = time.perf_counter()
        MissionPipeline(scheduler, runs, lambda: None).run()
        took = (time.perf_counter() - started) * scale
        assert all(one.is_finished for one in found)
    return {"workers": workers, "bound_s": round(bound, 1), "took_s": round(took, 1), "ratio": round(took / bound, 3)}


if __name__ == "__main__":
    main()
