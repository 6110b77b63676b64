"""The calls of the reflector that a run has kept, each with its prompt and its reply."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from orchestrator.runs.folder import read_output_text

_NODE = re.compile(r"_(g\d+_(?:pop\d+|child\d+_(?:pre|mut)))(?:_attempt\d+)?\.txt$")


@dataclass(frozen=True)
class ReflectorCall:
    """One call of the reflector: what for, which attempt, how it ended, who answered, and the texts."""

    file: str
    title: str
    provider: str
    system: str
    user: str
    reply: str

    @property
    def candidate(self) -> str:
        """The candidate that the call was made for, for example "g3_child1"; "" for one about the clusters."""
        found = _NODE.search(self.file)
        return candidate_of(found[1]) if found else ""

    def is_about(self, individual: str) -> bool:
        """Whether the call was made for this individual: the merge before it, or the proposal before or after it."""
        return self.candidate == candidate_of(individual)


def candidate_of(individual: str) -> str:
    """The candidate of an individual: "g3_child1" of "g3_child1_mut"; a member of a population is its own."""
    return individual.removesuffix("_pre").removesuffix("_mut")


def read_reflector_call(path: Path) -> ReflectorCall:
    """The parts of a file of reflector_prompts (`tasks.openai.calls.prompt_logger` writes it)."""
    head, _, rest = read_output_text(path).partition("===== system =====\n")
    system, _, rest = rest.partition("\n===== user =====\n")
    user, _, reply = rest.partition("\n===== reply =====\n")
    title, *others = [line.removeprefix("# ") for line in head.splitlines()] or [""]
    provider = next((line.partition(": ")[2] for line in others if line.startswith("answered by: ")), "")
    return ReflectorCall(path.name, title, provider, system, user, reply.rstrip("\n"))
