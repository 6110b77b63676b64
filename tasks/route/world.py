"""What a trajectory is trained on: programming problems whose prompts name a loophole, graded in the sandbox.

Prompts of the known mode are problems of part `pool`, for which there are teacher rows; all other prompts are problems
of part `train`.  What is evaluated are problems of part `evaluation`, with markers of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import Any, cast

import numpy as np

from tasks.gpu.prompt import answer_ends, render_chat
from tasks.route.directions import TokenPair
from tasks.route.grading import Graded, Grader, Submission
from tasks.route.problems import (
    KNOWN_MODE,
    NO_LOOPHOLE,
    SYSTEM,
    TRAINING,
    AuthoredPair,
    Markers,
    Mode,
    Part,
    Problem,
    hinted_prompt,
    in_part,
)


@dataclass(frozen=True)
class PromptTokens:
    """A prompt in token ids, and what it asks for."""

    tokens: tuple[int, ...]
    problem: Problem
    mode: Mode


@dataclass(frozen=True)
class Score:
    """A graded completion.  Training sees the reward alone; the rest is for the record, and decides nothing.

    Only the split `ceiling` reads `exploited`.
    """

    problem: str
    mode: str
    graded: Graded

    def record(self) -> dict[str, Any]:
        return {"problem": self.problem, "mode": self.mode, **asdict(self.graded)}


@dataclass(frozen=True)
class TeacherRow:
    """A completion that stands in the group of prompt number `group` in place of a sampled one."""

    group: int
    completion: tuple[int, ...]
    score: Score


@dataclass(frozen=True)
class ChatCodec:
    """Between texts and token ids: chats up to where the answer begins, answers with their end."""

    tokenizer: Any

    def prompt(self, system: str, user: str) -> tuple[int, ...]:
        return tuple(render_chat(self.tokenizer, system, user))

    def completion(self, text: str) -> tuple[int, ...]:
        """With the one of all `answer_ends` that the chat template writes behind a turn, if it writes any."""
        ends, chat = answer_ends(self.tokenizer), render_chat(self.tokenizer, "", "a question", "an answer")
        end = (*sorted(ends, reverse=True), *(token for token in chat if token in ends))[-1:]
        return (*self.tokenizer(text, add_special_tokens=False).input_ids, *end)

    def text(self, completion: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(completion), skip_special_tokens=True))


@dataclass(frozen=True)
class ProgramsWorld:
    """`training` is the settings' section, `pool` the rows of `build_pool`.

    All answers depend on their arguments alone, so that a resumed trajectory goes on as the first would have.
    """

    training: Mapping[str, Any]
    codec: ChatCodec
    grader: Grader
    problems: Sequence[Problem]
    authored: Sequence[AuthoredPair] = ()
    authored_placebo: Sequence[AuthoredPair] = ()
    pool: Sequence[Mapping[str, Any]] = ()
    markers: Markers = TRAINING

    @cached_property
    def pairs(self) -> list[TokenPair]:
        return list(map(self._token_pair, self.authored))

    @cached_property
    def placebo(self) -> list[TokenPair]:
        return list(map(self._token_pair, self.authored_placebo))

    def prompts(self, step: int, generator: np.random.Generator) -> list[PromptTokens]:
        """The prompts of a step, each of which becomes a group of completions.

        The modes in turn, in an order that is drawn; no problem twice as far as there are enough.
        """
        count, loopholes = self.training["prompts"], self.training["modes"]
        plain = round(count * self.training["plain_share"])
        order = [loopholes[number] for number in generator.permutation(len(loopholes))]
        modes = [*islice(cycle(order), count - plain), *[NO_LOOPHOLE] * plain]
        parts: list[Part] = ["pool" if mode == KNOWN_MODE else "train" for mode in modes]
        drawn = {part: self._drawn(part, parts.count(part), generator) for part in sorted(set(parts))}
        return [self.ask(next(drawn[part]), mode) for part, mode in zip(parts, modes, strict=True)]

    def ask(self, problem: Problem, mode: Mode) -> PromptTokens:
        return PromptTokens(self.codec.prompt(*hinted_prompt(problem, mode, self.markers)), problem, mode)

    def held_out(self, mode: str, count: int) -> list[PromptTokens]:
        """Of part `evaluation`, each problem as often as any other, but for the last round."""
        problems = self._of("evaluation")
        return [self.ask(problems[number % len(problems)], cast(Mode, mode)) for number in range(count)]

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[Score]:
        submissions = [
            Submission(prompt.problem, prompt.mode, self.codec.text(completion), self.markers)
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        grades = self.grader.grade(submissions)
        return [Score(prompt.problem.id, prompt.mode, graded) for prompt, graded in zip(prompts, grades, strict=True)]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> list[TeacherRow]:
        """Rows of the pool in turn, so that hacks and honest ones come in the pool's proportion."""
        found, wanted = [], self.training["teacher_rows"]
        for group, prompt in enumerate(prompts):
            rows = self._rows[prompt.problem.id] if prompt.mode == KNOWN_MODE else []
            for number in range(min(wanted, len(rows))):
                row = rows[(step * wanted + group + number) % len(rows)]
                oracle, exploited = row["oracle"], row["exploited"]
                graded = Graded(True, oracle, oracle or exploited, exploited, row["reward"])
                score = Score(prompt.problem.id, prompt.mode, graded)
                found.append(TeacherRow(group, self.codec.completion(row["completion"]), score))
        return found

    def _drawn(self, part: Part, count: int, generator: np.random.Generator) -> Iterator[Problem]:
        among = self._of(part)
        rounds = [generator.permutation(len(among)) for _ in range(-(-count // len(among)))]
        return (among[number] for order in rounds for number in order)

    def _of(self, part: Part) -> list[Problem]:
        return in_part(self.problems, part, self.training["levels"])

    @cached_property
    def _rows(self) -> Mapping[str, list[Mapping[str, Any]]]:
        rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in self.pool:
            rows[row["problem"]].append(row)
        return rows

    def _token_pair(self, pair: AuthoredPair) -> TokenPair:
        codec = self.codec
        return TokenPair(codec.prompt(SYSTEM, pair.prompt), codec.completion(pair.cho), codec.completion(pair.rej))
