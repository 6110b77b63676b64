"""The world of the programming problems: prompts with hints, completions graded in the sandbox, the teacher pool.

Prompts of the known mode are problems of part `pool`, for which there are teacher rows; all other prompts are problems
of part `train`.  What is evaluated are problems of part `evaluation` with markers of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import Any, cast

import numpy as np

from tasks.gpu.prompt import render_chat
from tasks.gpu.routing.pair_sides import TokenPair
from tasks.gpu.routing.world import PromptTokens, TeacherRow, WorldScore
from tasks.routing.grading import Graded, GradingPool, Submission
from tasks.routing.modes import EVALUATION, KNOWN_MODE, NO_LOOPHOLE, TRAINING, Markers, Mode
from tasks.routing.pairs import AuthoredPair
from tasks.routing.pool import PoolRow
from tasks.routing.problems import LEVELS, Part, Problem, in_part
from tasks.routing.prompts import SYSTEM, hinted_prompt


@dataclass(frozen=True)
class ChatCodec:
    """Between texts and the token ids of a model's tokenizer (transformers), which has a chat template."""

    tokenizer: Any

    def prompt(self, system: str, user: str) -> tuple[int, ...]:
        """A chat up to where the answer begins."""
        return tuple(render_chat(self.tokenizer, system, user))

    def completion(self, text: str) -> tuple[int, ...]:
        """A whole answer, its end included."""
        return (*self.tokenizer(text, add_special_tokens=False).input_ids, self.tokenizer.eos_token_id)

    def text(self, completion: Sequence[int]) -> str:
        """What an answer says, without control tokens."""
        return str(self.tokenizer.decode(list(completion), skip_special_tokens=True))


@dataclass(frozen=True)
class ProgramsSettings:
    """`modes` are the loopholes that are trained; `prompts` a step, each the prompt of one group.

    `plain_share` of the prompts have no loophole; `teacher_rows` of the pool stand in each group of the known mode.
    """

    prompts: int
    modes: tuple[Mode, ...]
    plain_share: float
    teacher_rows: int
    levels: tuple[int, ...] = LEVELS


@dataclass(frozen=True)
class Asked:
    """What a prompt asks for."""

    problem: Problem
    mode: Mode


@dataclass(frozen=True)
class ProgramsWorld:
    """A `World` (tasks/gpu/routing/world.py), for training or, with the markers of evaluation, for deployed rates."""

    settings: ProgramsSettings
    codec: ChatCodec
    grading: GradingPool
    problems: Sequence[Problem]
    authored: Sequence[AuthoredPair]
    authored_placebo: Sequence[AuthoredPair]
    pool: Sequence[PoolRow]
    markers: Markers = TRAINING

    @cached_property
    def pairs(self) -> Sequence[TokenPair]:
        return [self._token_pair(pair) for pair in self.authored]

    @cached_property
    def placebo(self) -> Sequence[TokenPair]:
        return [self._token_pair(pair) for pair in self.authored_placebo]

    def prompts(self, step: int, generator: np.random.Generator) -> Sequence[PromptTokens]:
        """The modes in turn, in an order that is drawn; no problem twice as far as there are enough."""
        settings = self.settings
        plain = round(settings.prompts * settings.plain_share)
        order = [settings.modes[number] for number in generator.permutation(len(settings.modes))]
        modes = [*islice(cycle(order), settings.prompts - plain), *[NO_LOOPHOLE] * plain]
        parts: list[Part] = ["pool" if mode == KNOWN_MODE else "train" for mode in modes]
        drawn = {part: self._drawn(part, parts.count(part), generator) for part in sorted(set(parts))}
        return [self.ask(next(drawn[part]), mode) for part, mode in zip(parts, modes, strict=True)]

    def ask(self, problem: Problem, mode: Mode) -> PromptTokens:
        """The prompt of a problem in a mode."""
        return PromptTokens(self.codec.prompt(*hinted_prompt(problem, mode, self.markers)), Asked(problem, mode))

    def held_out(self, mode: str, count: int) -> Sequence[PromptTokens]:
        """So many prompts of part `evaluation`, each problem as often as any other, but for the last round."""
        problems = self._of("evaluation")
        return [self.ask(problems[number % len(problems)], cast(Mode, mode)) for number in range(count)]

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> Sequence[WorldScore]:
        asked = [_asked(prompt) for prompt in prompts]
        submissions = [
            Submission(one.problem, one.mode, self.codec.text(completion), self.markers)
            for one, completion in zip(asked, completions, strict=True)
        ]
        grades = self.grading.grade(submissions)
        return [WorldScore(graded.reward, _log(one, asdict(graded))) for one, graded in zip(asked, grades, strict=True)]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> Sequence[TeacherRow]:
        """Rows of the pool in turn, so that hacks and honest ones come in the pool's proportion."""
        found = []
        for group, prompt in enumerate(prompts):
            asked = _asked(prompt)
            rows = self._rows.get(asked.problem.id, ()) if asked.mode == KNOWN_MODE else ()
            for number in range(min(self.settings.teacher_rows, len(rows))):
                row = rows[(step * self.settings.teacher_rows + group + number) % len(rows)]
                graded = Graded(True, row.oracle, row.oracle or row.exploited, row.exploited, row.reward)
                score = WorldScore(row.reward, _log(asked, asdict(graded)))
                found.append(TeacherRow(group, self.codec.completion(row.completion), score))
        return found

    def _drawn(self, part: Part, count: int, generator: np.random.Generator) -> Iterator[Problem]:
        among = self._of(part)
        rounds = [generator.permutation(len(among)) for _ in range(-(-count // len(among)))]
        return (among[number] for order in rounds for number in order)

    def _of(self, part: Part) -> list[Problem]:
        return in_part(self.problems, part, self.settings.levels)

    @cached_property
    def _rows(self) -> Mapping[str, Sequence[PoolRow]]:
        rows: dict[str, list[PoolRow]] = {}
        for row in self.pool:
            rows.setdefault(row.problem, []).append(row)
        return rows

    def _token_pair(self, pair: AuthoredPair) -> TokenPair:
        codec = self.codec
        return TokenPair(codec.prompt(SYSTEM, pair.prompt), codec.completion(pair.cho), codec.completion(pair.rej))


def evaluated(world: ProgramsWorld) -> ProgramsWorld:
    """The same problems and settings, with the markers of evaluation."""
    return ProgramsWorld(world.settings, world.codec, world.grading, world.problems, (), (), (), EVALUATION)


def _log(asked: Asked, graded: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"problem": asked.problem.id, "mode": asked.mode, **graded}


def _asked(prompt: PromptTokens) -> Asked:
    assert isinstance(prompt.where, Asked), "a prompt of this world says what it asks for"
    return prompt.where
