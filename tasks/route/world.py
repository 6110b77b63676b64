"""The world of the programming problems: prompts with hints, completions graded in the sandbox, the teacher pool.

Prompts of the known mode are problems of part `pool`, for which there are teacher rows; all other prompts are problems
of part `train`.  What is evaluated are problems of part `evaluation` with markers of their own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from tasks.common.named import load_named
from tasks.gpu.prompt import answer_ends, render_chat
from tasks.route.adapter import Adapter, Basis, cached_basis, weight_hash
from tasks.route.claims import PROGRAMS
from tasks.route.directions import TokenPair
from tasks.route.gradients import PolicyRows
from tasks.route.grading import Graded, Grader, PoolRow, Submission
from tasks.route.loopholes import (
    EVALUATION,
    KNOWN_MODE,
    NO_LOOPHOLE,
    SYSTEM,
    TRAINING,
    AuthoredPair,
    Markers,
    Mode,
    hinted_prompt,
    parse_pairs,
)
from tasks.route.model import StaticSampler, load_causal_lm
from tasks.route.problems import LEVELS, Part, Problem, in_part, parse_problems

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
    """A `World` (tasks/route/world.py), for training or, with the markers of evaluation, for deployed rates."""

    settings: ProgramsSettings
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
        grades = self.grader.grade(submissions)
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
    return ProgramsWorld(world.settings, world.codec, world.grader, world.problems, (), (), (), EVALUATION)


def _log(asked: Asked, graded: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"problem": asked.problem.id, "mode": asked.mode, **graded}


def _asked(prompt: PromptTokens) -> Asked:
    assert isinstance(prompt.where, Asked), "a prompt of this world says what it asks for"
    return prompt.where


@dataclass(frozen=True)
class WorldGiven:
    """`data` are the texts of the files, `teacher` the rows of the pool; sections as in the settings.

    `on_module` is called as (done, total) while bases are computed.
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
    """`held_out(mode, count)` are prompts of problems that are never trained on, scored by `evaluation`.

    The columns `oracle` and `exploited` of a score say whether a completion is right, and whether it passes though it
    is not.  `weights()` is the hash of the model's weights, which takes seconds and only `gpu.bases` asks for;
    `basis_error` is the largest of all modules, `computed` how many bases were not there yet.
    """

    policy: PolicyRows
    training: World
    evaluation: World
    held_out: Callable[[str, int], Sequence[PromptTokens]]
    weights: Callable[[], str]
    basis_error: float
    computed: int


def open_world(name: str, given: WorldGiven) -> TrainedWorld:
    """The world of the programming problems, or what a function of this name makes of `given`."""
    if name == PROGRAMS:
        return program_world(given)
    make: Callable[[WorldGiven], TrainedWorld] = load_named(name, "whetstone.worlds")
    return make(given)


def target_linears(model: nn.Module, targets: Sequence[str]) -> dict[str, Tensor]:
    """The weights of the Linears whose names end in one of `targets`."""
    found = {
        name: module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in targets
    }
    if missing := [target for target in targets if not any(name.rpartition(".")[2] == target for name in found)]:
        raise ValueError(f"model.targets: the model has no Linear {missing[0]!r}")
    return found


def bases_of(model: nn.Module, given: WorldGiven) -> tuple[dict[str, Basis], float, int]:
    """The bases of all targets, their largest error, and how many were computed now."""
    weights = target_linears(model, given.model["targets"])
    bases: dict[str, Basis] = {}
    worst, computed = 0.0, 0
    for number, (name, weight) in enumerate(weights.items(), 1):
        bases[name], was_there = cached_basis(weight, given.bases_folder)
        worst = max(worst, bases[name].error(weight))
        computed += not was_there
        given.on_module(number, len(weights))
    return bases, worst, computed


def weights_hash(model: nn.Module) -> str:
    """Of all weights of the model."""
    found = hashlib.sha256()
    for name, weight in model.state_dict().items():
        found.update(f"{name} {weight_hash(weight)}\n".encode())
    return found.hexdigest()


ROWS_AT_ONCE = 8
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


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
    training = given.training
    settings = ProgramsSettings(
        prompts=training["prompts"],
        modes=tuple(training["modes"]),
        plain_share=training["plain_share"],
        teacher_rows=training["teacher_rows"],
        levels=tuple(training["levels"]),
    )
    pool = [PoolRow(**row) for row in given.teacher]
    bases, worst, computed = bases_of(model, given)
    world = ProgramsWorld(settings, ChatCodec(tokenizer), Grader(), problems, pairs, placebo, pool)
    asked = evaluated(world)
    adapter = Adapter(model, bases)
    sampler = StaticSampler(model, adapter) if given.device == "cuda" else None
    policy = PolicyRows(model, adapter, ROWS_AT_ONCE, sampler=sampler, deterministic=deterministic)
    return TrainedWorld(policy, world, asked, asked.held_out, partial(weights_hash, model), worst, computed)
