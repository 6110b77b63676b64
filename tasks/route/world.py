"""What a trajectory is trained on: a `World`, and that of the programming problems.

There, prompts have hints, completions are graded in the sandbox, and a pool has the teacher's rows.  Prompts of the
known mode are problems of part `pool`, for which there are teacher rows; all other prompts are problems of part
`train`.  What is evaluated are problems of part `evaluation` with markers of their own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from tasks.common.named import load_named
from tasks.gpu.prompt import answer_ends, render_chat
from tasks.route.adapter import Adapter, TargetBases, bases_of
from tasks.route.claims import PROGRAMS
from tasks.route.directions import TokenPair
from tasks.route.gradients import Policy
from tasks.route.grading import Graded, Grader, PoolRow, Submission
from tasks.route.model import Sampler, load_causal_lm
from tasks.route.problems import (
    EVALUATION,
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
    parse_pairs,
    parse_problems,
)

ROWS_AT_ONCE = 8
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
Logged = str | int | float | bool | None


@dataclass(frozen=True)
class PromptTokens:
    """A prompt in token ids; `where` is the world's own, to score it: the problem and the mode, say."""

    tokens: tuple[int, ...]
    where: object


@dataclass(frozen=True)
class WorldScore:
    """`log` goes into the record of the row and decides nothing.  One column, `exploited`, is read by `ceiling`."""

    reward: float
    log: Mapping[str, Logged] = field(default_factory=dict)


@dataclass(frozen=True)
class TeacherRow:
    """A completion that stands in the group of prompt number `group` in place of a sampled one."""

    group: int
    completion: tuple[int, ...]
    score: WorldScore


class World(Protocol):
    """Its answers depend on its arguments alone, so that a resumed trajectory goes on as the first would have."""

    @property
    def pairs(self) -> Sequence[TokenPair]:
        """The authored pairs, of the known mode alone."""

    @property
    def placebo(self) -> Sequence[TokenPair]:
        """Honest texts on both sides, the odd one as `rej`."""

    def prompts(self, step: int, generator: np.random.Generator) -> Sequence[PromptTokens]:
        """The prompts of a step; each becomes a group of completions."""

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> Sequence[WorldScore]:
        """One score for each completion; the prompts are repeated, one for each."""

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> Sequence[TeacherRow]:
        """Teacher rows for the groups of these prompts; at most a group's size for each."""

    def held_out(self, mode: str, count: int) -> Sequence[PromptTokens]:
        """So many prompts of problems that are never trained on."""


@dataclass(frozen=True)
class WorldGiven:
    """What a world is opened with: `data` are the texts of the files, `teacher` the rows of the pool.

    `model` and `training` are sections of the settings.  `on_module` is called as (done, total) while bases are
    computed.
    """

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, str]
    teacher: Sequence[Mapping[str, Any]]
    model_folder: str
    bases_folder: Path
    device: str
    on_module: Callable[[int, int], None]


@dataclass(frozen=True)
class TrainedWorld:
    """`evaluation` asks and scores what is deployed.

    The columns `oracle` and `exploited` of a score say whether a completion is right, and whether it passes though it
    is not.
    """

    policy: Policy
    training: World
    evaluation: World
    bases: TargetBases


def open_world(name: str, given: WorldGiven) -> TrainedWorld:
    """The world of the programming problems, or what a function of this name (tasks/common/named.py) makes."""
    make: Callable[[WorldGiven], TrainedWorld]
    make = program_world if name == PROGRAMS else load_named(name, "whetstone.worlds")
    return make(given)


def program_world(given: WorldGiven) -> TrainedWorld:
    from transformers import AutoTokenizer

    deterministic = given.model.get("deterministic", False)
    if deterministic:  # read when CUDA's library of matrices is first used
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    tokenizer = AutoTokenizer.from_pretrained(given.model_folder, trust_remote_code=False)
    dtype = DTYPES[given.model["dtype"]]
    model = load_causal_lm(Path(given.model_folder), given.device, dtype, answer_ends(tokenizer))
    problems = parse_problems(given.data["problems"], "problems")
    pairs, placebo = (
        parse_pairs(given.data[name], name, problems) if name in given.data else []
        for name in ("pairs", "placebo_pairs")
    )
    pool = [PoolRow(**row) for row in given.teacher]
    bases = bases_of(model, given.model["targets"], given.bases_folder, given.on_module)
    adapter, codec, grader = Adapter(model, bases.found), ChatCodec(tokenizer), Grader()
    policy = Policy(model, adapter, Sampler(model, adapter), ROWS_AT_ONCE, deterministic=deterministic)
    world = ProgramsWorld(given.training, codec, grader, problems, pairs, placebo, pool)
    asked = ProgramsWorld(given.training, codec, grader, problems, (), (), (), EVALUATION)
    return TrainedWorld(policy, world, asked, bases)


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
class Asked:
    """What a prompt asks for."""

    problem: Problem
    mode: Mode


@dataclass(frozen=True)
class ProgramsWorld:
    """For training or, with the markers of evaluation, for deployed rates; `training` is the settings' section."""

    training: Mapping[str, Any]
    codec: ChatCodec
    grader: Grader
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
        count, loopholes = self.training["prompts"], self.training["modes"]
        plain = round(count * self.training["plain_share"])
        order = [loopholes[number] for number in generator.permutation(len(loopholes))]
        modes = [*islice(cycle(order), count - plain), *[NO_LOOPHOLE] * plain]
        parts: list[Part] = ["pool" if mode == KNOWN_MODE else "train" for mode in modes]
        drawn = {part: self._drawn(part, parts.count(part), generator) for part in sorted(set(parts))}
        return [self.ask(next(drawn[part]), mode) for part, mode in zip(parts, modes, strict=True)]

    def ask(self, problem: Problem, mode: Mode) -> PromptTokens:
        """The prompt of a problem in a mode."""
        return PromptTokens(self.codec.prompt(*hinted_prompt(problem, mode, self.markers)), Asked(problem, mode))

    def held_out(self, mode: str, count: int) -> Sequence[PromptTokens]:
        """Of part `evaluation`, each problem as often as any other, but for the last round."""
        problems = self._of("evaluation")
        return [self.ask(problems[number % len(problems)], cast(Mode, mode)) for number in range(count)]

    def score(self, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> Sequence[WorldScore]:
        asked = [_asked(prompt) for prompt in prompts]
        submissions = [
            Submission(one.problem, one.mode, self.codec.text(completion), self.markers)
            for one, completion in zip(asked, completions, strict=True)
        ]
        grades = self.grader.grade(submissions)
        return [WorldScore(graded.reward, _log(one, graded)) for one, graded in zip(asked, grades, strict=True)]

    def teacher(self, step: int, prompts: Sequence[PromptTokens]) -> Sequence[TeacherRow]:
        """Rows of the pool in turn, so that hacks and honest ones come in the pool's proportion."""
        found, wanted = [], self.training["teacher_rows"]
        for group, prompt in enumerate(prompts):
            asked = _asked(prompt)
            rows = self._rows.get(asked.problem.id, ()) if asked.mode == KNOWN_MODE else ()
            for number in range(min(wanted, len(rows))):
                row = rows[(step * wanted + group + number) % len(rows)]
                graded = Graded(True, row.oracle, row.oracle or row.exploited, row.exploited, row.reward)
                score = WorldScore(row.reward, _log(asked, graded))
                found.append(TeacherRow(group, self.codec.completion(row.completion), score))
        return found

    def _drawn(self, part: Part, count: int, generator: np.random.Generator) -> Iterator[Problem]:
        among = self._of(part)
        rounds = [generator.permutation(len(among)) for _ in range(-(-count // len(among)))]
        return (among[number] for order in rounds for number in order)

    def _of(self, part: Part) -> list[Problem]:
        return in_part(self.problems, part, self.training["levels"])

    @cached_property
    def _rows(self) -> Mapping[str, Sequence[PoolRow]]:
        rows: defaultdict[str, list[PoolRow]] = defaultdict(list)
        for row in self.pool:
            rows[row.problem].append(row)
        return rows

    def _token_pair(self, pair: AuthoredPair) -> TokenPair:
        codec = self.codec
        return TokenPair(codec.prompt(SYSTEM, pair.prompt), codec.completion(pair.cho), codec.completion(pair.rej))


def _log(asked: Asked, graded: Graded) -> Mapping[str, Any]:
    return {"problem": asked.problem.id, "mode": asked.mode, **asdict(graded)}


def _asked(prompt: PromptTokens) -> Asked:
    assert isinstance(prompt.where, Asked), "a prompt of this world says what it asks for"
    return prompt.where
