"""A world for missions without a farm: what target, critic and reflector would answer, by plain rules.

A ticket passes when its summary says so, and the target sees that only under an experience that names the word; else
it passes everything.  A test changes single answers.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from dotted_values import with_value
from guide_values import guide_values

from orchestrator.farm.work import Request
from orchestrator.guide.artifacts import MissionFolder
from orchestrator.guide.guidance import GuidanceRepository
from orchestrator.guide.inputs import MissionTickets, check_guide
from orchestrator.guide.mission import Mission
from orchestrator.guide.rollouts import MissionSetup
from orchestrator.guide.session import guide_context
from orchestrator.guide.settings import GuideOptions, GuideSettings, guide_settings_from
from orchestrator.guide.tally import Tally
from orchestrator.runs.folder import OutputFolder
from orchestrator.runs.jobs import JOURNAL, Journal
from tasks.guide.ticket import Ticket

MISSION = "cabinet"
RULE = "A missing label is a fail."
Result = Mapping[str, Any]


def small_settings(folder: Path, **changes: Any) -> GuideSettings:
    """Batches of eight, which no file may have with a preview; `changes` have two underscores for a point."""
    values = with_value(guide_values(folder), "sampler.group_batch_size", 32)
    values = with_value(values, "reflection.rapid_mode", False)
    for name, value in changes.items():
        values = with_value(values, name.replace("__", "."), value)
    settings = guide_settings_from(values)
    return dataclasses.replace(settings, sampler=dataclasses.replace(settings.sampler, group_batch_size=8))


def small_tickets(training: int = 8, holdout: int = 8) -> MissionTickets:
    """Half of them have their label; the others fail."""

    def ticket(number: int) -> Ticket:
        is_good = number % 2 == 0
        shown = f"unit {number}: label present" if is_good else f"unit {number}: no label"
        return Ticket(f"t{number:02}", MISSION, "pass" if is_good else "fail", {"image_1": shown})

    tickets = [ticket(number) for number in range(training + holdout)]
    return MissionTickets(MISSION, tuple(tickets[:training]), tuple(tickets[training:]), ())


class World:
    """Answers requests; a test replaces what it likes.  `asked` counts how often each key was computed.

    A prompt has ten tokens for each experience.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.tasks: Counter[str] = Counter()
        self.answers: dict[str, Result] = {}
        self.context: int | None = 4096
        self.verdict: Callable[[str, str, int], str] = judged_by_rule
        self.proposal: Callable[[int], str] = lambda number: proposal_text(RULE)
        self.critique: Callable[[int], str] = lambda number: json.dumps({"summary": "s", "critique": "c"})
        self._proposals, self._critiques = count(1), count(1)

    def results(self, requests: Sequence[Request]) -> dict[str, Result]:
        for request in requests:
            if request.key not in self.answers:
                self.asked[request.key] += 1
                self.tasks[request.spec.task] += 1
                self.answers[request.key] = json.loads(json.dumps(self._compute(request)))
        return {request.key: self.answers[request.key] for request in requests}

    def _compute(self, request: Request) -> Any:
        task, arguments = request.spec.task, request.spec.arguments
        match task:
            case "gpu.prompt_lengths":
                tokens = [10 * "".join(messages).count("[G") for messages in arguments["prompts"]]
                return {"tokens": tokens, "context": self.context}
            case "gpu.rollout":
                texts = [self.verdict(*arguments["messages"], seed) for seed in arguments["seeds"]]
                answers = [{"text": text, "tokens": len(text) // 4, "finish": "stop"} for text in texts]
                return {"answers": answers, "prompt_tokens": 100}
            case "cpu.verify":
                scores = [float(len(candidate["text"])) for candidate in arguments["candidates"]]
                return {"verified": [{"verifier_score": score, "verifier_tags": []} for score in scores]}
            case "openai.critique" | "gpu.critique":
                return _reply(self.critique(next(self._critiques)))
            case "openai.propose" | "gpu.propose":
                return _reply(self.proposal(next(self._proposals)))
        raise AssertionError(task)


def judged_by_rule(system: str, user: str, seed: int) -> str:
    """The three lines of the target: with an experience about the word it looks, else it passes everything."""
    verdict = "fail" if RULE in system + user and "no label" in user else "pass"
    return f"Verdict: {verdict}\nReason: as seen\nConfidence: 0.{80 + seed % 10}"


def proposal_text(text: str, evidence: Iterable[str] = ("第1组",), **more: Any) -> str:
    operation = {
        "op": "upsert", "key": None, "text": text, "rationale": "r", "evidence": list(evidence), "merged_from": []
    }  # fmt: skip
    return json.dumps(
        {
            "action": "refine", "summary": "s", "critique": "c", "operations": [operation],
            "evidence_group_ids": list(evidence), "uncertainty_note": None, **more,
        }
    )  # fmt: skip


def noop_text() -> str:
    return proposal_text("", action="noop", operations=[])


def _reply(text: str) -> dict[str, Any]:
    usage = {"prompt": 100, "cached": 0, "completion": 20, "cost_usd": 0.001}
    return {"text": text, "finish": "stop", "by": "rules", "tokens": 20, "usage": usage}


class MissionOnDisk:
    """One mission in a folder, driven without a farm; each `start` is a new session."""

    def __init__(self, folder: Path, settings: GuideSettings, tickets: MissionTickets) -> None:
        self.settings, self.tickets = settings, tickets
        self.path = folder / "run" / MISSION
        self.path.parent.mkdir(exist_ok=True)
        OutputFolder(self.path.parent).run_id("guide")
        first = {MISSION: {"step": 0, "updated_at": "2026-01-01T00:00:00Z", "experiences": {"G0": "Look closely."}}}
        (folder / "guidance.json").write_text(json.dumps(first))
        self._initial = folder / "guidance.json"

    def start(self) -> tuple[Mission, Journal]:
        repository = GuidanceRepository(self.path, MISSION, self.settings.guidance.retention)
        first = repository.start_from(self._initial)
        journal = Journal(self.path / JOURNAL)
        context = dataclasses.replace(guide_context(self.settings, GuideOptions()), server={"model": "m"})
        templates = check_guide(dataclasses.replace(self.settings, verifier=None), GuideOptions())
        setup = MissionSetup(self.tickets, self.settings, templates, context, frozenset(journal.parked_at))
        tally = Tally(self.settings, self.tickets)
        return Mission(setup, MissionFolder(self.path), repository, first, tally), journal

    def run(self, world: World, most: int = 10_000) -> Mission:
        """Drive a session to its end, or through so many rounds of requests."""
        mission, _ = self.start()
        steps = mission.steps()
        try:
            asked = next(steps)
            for _ in range(most):
                asked = steps.send(world.results(asked))
        except StopIteration:
            pass
        return mission

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def value(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / name).read_text())
        return found
