"""A small guided run: its settings and tickets, and a world without a farm that answers for target, critic, reflector.

A ticket passes when its summary says so, and the target sees that only under an experience that names the word; else
it passes everything.  A test changes single answers.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from dotted_values import with_value

from orchestrator.farm.work import Request
from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.inputs import MissionTickets, check_guide
from orchestrator.guide.mission import Mission
from orchestrator.guide.rollouts import MissionSetup
from orchestrator.guide.session import MissionRun, drive_missions, guide_context, write_ingest
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from
from orchestrator.guide.tally import Tally
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import JOURNAL, Journal
from tasks.guide.ticket import Ticket

ROOT = Path(__file__).parents[3]
MISSION = "cabinet"
RULE = "A missing label is a fail."


def guide_values(folder: Path, **changes: Any) -> dict[str, Any]:
    """The shipped settings with small numbers, and their files in a folder; `changes` have two underscores for a point.

    It is a rapid run with batches of two.
    """
    values: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "guide.yaml").read_text())
    cell = {"temperature": 0.8, "top_p": 0.9, "max_new_tokens": 32, "seed": 7, "stop": ["\n\n"]}
    small = {
        "stage_a_paths": [str(folder / "tickets.jsonl")],
        "missions": {MISSION: "the cabinet is ready"},
        "guidance.path": str(folder / "guidance.json"),
        "output": {"root": str(folder / "outputs"), "run_id": "run", "fail_if_exists": True},
        "sampler.group_batch_size": 2,
        "sampler.grid": [{"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 32}, cell],
        "critic.prompt_path": str(ROOT / "configs" / "guide" / "critic.txt"),
        "reflection.prompt_path": str(ROOT / "configs" / "guide" / "reflection.txt"),
        "reflection.batch_size": 8,
        "reflection.rapid_mode": True,
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    for name, value in small.items():
        values = with_value(values, name, value)
    return values


def stage_a_row(group_id: str, **changes: Any) -> dict[str, Any]:
    """One line of Stage-A, complete."""
    images = {"image_1": f"{group_id}: the door is closed", "image_2": "the cables are tied"}
    row = {"group_id": group_id, "mission": MISSION, "label": "pass", "per_image": images, "stage_a_complete": True}
    return {**row, **changes}


def write_rows(path: Path, rows: Iterable[Mapping[str, Any] | str]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def write_guidance(path: Path, *missions: str) -> None:
    """The first guidance of these missions, as a person writes it."""
    entry = {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Look closely."}}
    path.write_text(json.dumps(dict.fromkeys(missions, entry)))


class World:
    """A farm's scheduler, which answers each request at once; equal requests are computed once, as by the store.

    A prompt has ten tokens for each experience.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.tasks: Counter[str] = Counter()
        self.order: list[str] = []  # labels
        self.context: int | None = 4096
        self.verdict: Callable[[str, str, int], str] = judged_by_rule
        self.proposal: Callable[[], str] = lambda: proposal_text(RULE)
        self.critique: Callable[[], str] = lambda: json.dumps({"summary": "s", "critique": "c"})
        self.queue: list[Request] = []

    def submit(self, request: Request, journal: Journal) -> None:
        self.queue.append(request)

    def results(self, watch: Callable[[], None]) -> Iterator[tuple[Request, dict[str, Any]]]:
        while self.queue:
            watch()
            request = self.queue.pop(0)
            if request.key not in self.answers:
                self.tasks[request.spec.task] += 1
                self.order.append(request.spec.label)
                self.answers[request.key] = self._compute(request.spec.task, request.spec.arguments)
            yield request, self.answers[request.key]

    def _compute(self, task: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        match task.partition(".")[2]:
            case "prompt_lengths":
                tokens = [10 * "".join(messages).count("[G") for messages in arguments["prompts"]]
                return {"tokens": tokens, "context": self.context}
            case "rollout":
                texts = [self.verdict(*arguments["messages"], seed) for seed in arguments["seeds"]]
                answers = [{"text": text, "tokens": len(text) // 4, "finish": "stop"} for text in texts]
                return {"answers": answers, "prompt_tokens": 100}
            case "verify":
                scores = [float(len(candidate["text"])) for candidate in arguments["candidates"]]
                return {"verified": [{"verifier_score": score, "verifier_tags": []} for score in scores]}
        usage = {"prompt": 100, "cached": 0, "completion": 20, "cost_usd": 0.001}
        text = self.critique() if task.endswith("critique") else self.proposal()
        return {"text": text, "finish": "stop", "by": "rules", "tokens": 20, "usage": usage}


def judged_by_rule(system: str, user: str, seed: int) -> str:
    verdict = "fail" if RULE in system + user and "no label" in user else "pass"
    return f"Verdict: {verdict}\nReason: as seen\nConfidence: 0.{80 + seed % 10}"


def proposal_text(text: str, **more: Any) -> str:
    evidence = ["第1组"]
    operation = {"op": "upsert", "key": None, "text": text, "rationale": "r", "evidence": evidence, "merged_from": []}
    whole = {"action": "refine", "summary": "s", "critique": "c", "evidence_group_ids": evidence}
    return json.dumps({**whole, "operations": [operation], "uncertainty_note": None, **more})


def noop_text() -> str:
    return proposal_text("", action="noop", operations=[])


class MissionOnDisk:
    """One mission in a folder; each `run` is a session.  Half of its tickets have their label; the others fail.

    Its batches are of eight, which no file may have with a preview.
    """

    def __init__(self, folder: Path, training: int = 8, holdout: int = 8, **changes: Any) -> None:
        own = {"sampler__group_batch_size": 32, "reflection__rapid_mode": False, "verifier": "my:own"}
        settings = guide_settings_from(guide_values(folder, **own | changes))
        sampler = dataclasses.replace(settings.sampler, group_batch_size=8)
        self.settings: GuideSettings = dataclasses.replace(settings, sampler=sampler)
        shown = ("label present", "no label")
        tickets = [
            Ticket(f"t{n:02}", MISSION, "fail" if n % 2 else "pass", {"image_1": f"unit {n}: {shown[n % 2]}"})
            for n in range(training + holdout)
        ]
        self.tickets = MissionTickets(MISSION, tuple(tickets[:training]), tuple(tickets[training:]), ())
        self.path = self.settings.folder / MISSION
        self.path.parent.mkdir(parents=True, exist_ok=True)
        OutputFolder(self.path.parent).run_id("guide")
        write_guidance(folder / "guidance.json", MISSION)

    def start(self) -> MissionRun:
        repository, first = write_ingest(self.path, self.settings, self.tickets)
        journal = Journal(self.path / JOURNAL)
        context = dataclasses.replace(guide_context(self.settings, GuideOptions()), server={"model": "m"})
        templates = check_guide(dataclasses.replace(self.settings, verifier=None), GuideOptions())
        setup = MissionSetup(self.tickets, self.settings, templates, context, frozenset(journal.parked_at))
        mission = Mission(setup, MissionFolder(self.path), repository, first, Tally(self.settings, self.tickets))
        return MissionRun(mission, mission.steps(), journal)

    def run(self, world: World, watch: Callable[[], None] = lambda: None) -> bool:
        """A session; `watch` is called before each answer.  Returns whether the mission has ended."""
        one = self.start()
        world.queue.clear()
        drive_missions(world, [one], watch)  # type: ignore[arg-type]  # a world has what is used of a scheduler
        return one.mission.is_finished

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def value(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / name).read_text())
        return found
