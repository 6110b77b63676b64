"""A trajectory: GRPO on a world, all splits side by side on the same rollouts.

`Trajectory(settings, policy, world).step()` until done; between steps it can be dumped, and resumed to the bit.
Labels decide nothing: of a score the loop reads the reward; `exploited` is handed to `ceiling` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tasks.route.directions import alignment, mean_cosine, random_direction
from tasks.route.policy import (
    Policy,
    RowGradients,
    TokenRow,
    draw_from,
    group_advantages,
    policy_losses,
    seed_of,
)
from tasks.route.refresh import refresh_splits
from tasks.route.splits import LiveRows, route
from tasks.route.state import (
    TrajectorySettings,
    adam_step,
    deployed_knobs,
    dump_state,
    first_state,
    load_state,
    without_component,
)
from tasks.route.world import ProgramsWorld, PromptTokens, Score

LARGEST_NOT_FINITE = 0.05
"""The share of a step's live rows whose gradients may be NaN or infinite; one row may always be."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Rollout:
    """The rows of a step, group by group, and what they are worth; all have a place for each row."""

    rows: list[TokenRow]
    scores: list[Score]
    groups: Tensor
    teacher: Tensor
    ablated: Tensor
    advantages: Tensor
    skipped: int

    @property
    def live(self) -> list[int]:
        """The rows whose advantage is not 0: they train."""
        return self.advantages.nonzero()[:, 0].tolist()


@dataclass(frozen=True)
class Trained:
    """The live rows of a step: their gradients, which are `lost` because they are not finite, and by the name of each
    split x and f [G, M] and the gradient [R] that it routed.

    `surprise` has nats a token [G], on the CPU; `null_p90` is of a row's mean x along random directions.
    """

    found: RowGradients
    lost: list[bool]
    rows: LiveRows
    routed: dict[str, tuple[Tensor, Tensor, Tensor]]
    surprise: Tensor
    null_p90: float | None


class Trajectory:
    """`state` are the bytes of `dump`, for going on with the same settings."""

    def __init__(
        self, settings: TrajectorySettings, policy: Policy, world: ProgramsWorld, state: bytes | None = None
    ) -> None:
        self.settings, self._policy, self._world = settings, policy, world
        self._layout, device = policy.adapter.layout, policy.adapter.device
        self.state = first_state(settings, self._layout.total, device) if state is None else load_state(state, device)

    def dump(self) -> bytes:
        return dump_state(self.state)

    def step(self) -> Record:
        """One step; its record as JSON, which is in the state as well."""
        settings, step = self.settings, self.state.step
        figures: dict[str, Record] = {split.name: {} for split in settings.plan()}
        events: list[str] = []
        if step % settings.refresh_every == 0:
            splits, figures, events = refresh_splits(settings, self._policy, self._world, self.state)
            self.state = replace(self.state, splits=splits)
        rollout = self.rollout()
        trained = self._train(rollout) if rollout.live else None
        record = {"step": step, "events": events, "splits": figures, **self._record(rollout, trained)}
        if trained:
            record["gradient_norm"] = float(trained.rows.gradients.sum(0).norm())
            for name in trained.routed:
                figures[name] |= self._split_record(name, rollout, trained)
        if record["not_finite"]:
            events.append(f"rows without a finite gradient, which trained nothing: {record['not_finite']}")
        self.state = replace(self.state, step=step + 1, rows=(*self.state.rows, record))
        return record

    def rollout(self) -> Rollout:
        settings, step = self.settings, self.state.step
        prompts = self._world.prompts(step, np.random.default_rng([settings.seed, step]))
        taught = self._world.teacher(step, prompts) if step < settings.teacher_off_step else ()
        groups = [
            group
            for group in range(len(prompts))
            for _ in range(settings.group_size - sum(row.group == group for row in taught))
        ]
        asked = [prompts[group] for group in groups]
        chance = np.random.default_rng([settings.seed, step, 1]).random(len(asked))
        ablated = [bool(draw < settings.rollout_ablate_frac) for draw in chance]
        rows = self._sampled(asked, ablated)
        scores = [*self._world.score(asked, [row.completion for row in rows]), *(row.score for row in taught)]
        rows += [TokenRow(prompts[row.group].tokens, row.completion) for row in taught]
        of_rows = torch.tensor(groups + [row.group for row in taught])
        advantages, skipped = group_advantages(torch.tensor([score.graded.reward for score in scores]), of_rows)
        teacher = torch.tensor([False] * len(asked) + [True] * len(taught))
        without = torch.tensor(ablated + [False] * len(taught))
        return Rollout(rows, scores, of_rows, teacher, without, advantages, skipped)

    def _sampled(self, prompts: list[PromptTokens], ablated: list[bool]) -> list[TokenRow]:
        """A row for each prompt, those without quarantine from deltaS alone."""
        rows: dict[int, TokenRow] = {}
        for without in (False, True):
            if places := [place for place, off in enumerate(ablated) if off == without]:
                seed = seed_of(self.settings.seed, self.state.step, "sample", without)
                chosen = [prompts[place] for place in places]
                found = sample_rows(self._policy, chosen, self._knobs(without), self.settings.longest, seed)
                rows |= dict(zip(places, found, strict=True))
        return [rows[place] for place in range(len(prompts))]

    def _knobs(self, without_quarantine: bool) -> Tensor:
        return deployed_knobs(self.state, self.settings.plan()[0].name if without_quarantine else "none")

    def _train(self, rollout: Rollout) -> Trained:
        """The update of a step, from the rows whose advantage is not 0, each under the knobs that sampled it."""
        settings, policy, live = self.settings, self._policy, rollout.live
        rows, device = [rollout.rows[row] for row in live], policy.adapter.device
        advantages, ablated = rollout.advantages[live].to(device), rollout.ablated[live].to(device)
        knobs = self._knobs(False)
        if ablated.any():
            knobs = torch.where(ablated[:, None], self._knobs(True), knobs)
        reference = policy.log_probabilities(rows, policy.adapter.zeros()) if settings.beta else None
        denominator = float(len(rollout.rows) * settings.longest)

        def row_loss(new: Tensor, mask: Tensor, part: slice) -> Tensor:
            base = None if reference is None else reference[part]
            return policy_losses(new, mask, advantages[part], denominator, base, settings.beta)

        needs_inputs = any(split.source == "activations" for split in settings.plan())
        found = policy.gradients(rows, knobs, row_loss, record=needs_inputs)
        lost = ~found.finite()
        if (count := int(lost.sum())) > max(1, LARGEST_NOT_FINITE * len(rows)):
            raise RuntimeError(
                f"step {self.state.step}: the gradients of {count} of {len(rows)} rows are not finite; at most "
                f"{LARGEST_NOT_FINITE:.0%} may be, or one"
            )
        found = found.without(lost)
        labels = torch.tensor([float(rollout.scores[row].graded.exploited) for row in live]).to(device)
        norms = self._layout.norms(found.gradients)
        seen = LiveRows(found.gradients, norms, advantages.sign(), found.inputs, labels)
        routed = self._update(seen)
        surprise = -found.log_probabilities.sum(1).cpu() / found.mask.sum(1).cpu()
        return Trained(found, lost.tolist(), seen, routed, surprise, self._null(seen) if routed else None)

    def _update(self, rows: LiveRows) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
        """One update of the whole and of every split's routed share; x, f and the routed gradient of each split."""
        settings, state, layout, count = self.settings, self.state, self._layout, self.state.updates + 1
        gradient, splits = rows.gradients.sum(0), dict(state.splits)
        step = adam_step(settings.adam, gradient, state.second, count)
        routed: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
        if settings.kind == "erase":
            extraction = splits["erase"].extraction
            assert extraction is not None
            whole = step.move(state.whole, gradient, partial(without_component, layout, direction=extraction.direction))
        else:
            whole = step.move(state.whole, gradient)
            layouts, shares = (layout, self._policy.adapter.inputs), dict[str, Tensor]()
            for split in settings.plan():
                before = splits[split.name]
                x, share = route(split, before.extraction, layouts, rows, settings.seed, shares)
                own = (layout.spread(share) * rows.gradients).sum(0)
                has_routed = before.has_routed or bool(share.any())
                splits[split.name] = replace(before, routed=step.move(before.routed, own), has_routed=has_routed)
                shares[split.name], routed[split.name] = share, (x, share, own)
        self.state = replace(state, updates=count, whole=whole, second=step.second, splits=splits)
        return routed

    def _record(self, rollout: Rollout, trained: Trained | None) -> Record:
        """What the step was, and a line for each of its rows; those that trained have the f and the x of each split."""
        log: list[Record] = [
            {
                "group": int(rollout.groups[row]),
                "teacher": bool(rollout.teacher[row]),
                "ablated": bool(rollout.ablated[row]),
                "reward": score.graded.reward,
                "advantage": float(rollout.advantages[row]),
                "length": len(rollout.rows[row].completion),
                **score.record(),
            }
            for row, score in enumerate(rollout.scores)
        ]
        if trained:
            surprise = trained.surprise.tolist()
            extracts = {split.name for split in self.settings.plan() if split.extracts}
            shares = {name: f.mean(1).tolist() for name, (_, f, _) in trained.routed.items()}
            along = {name: x.mean(1).tolist() for name, (x, _, _) in trained.routed.items() if name in extracts}
            for place, row in enumerate(rollout.live):
                if not trained.lost[place]:
                    log[row]["surprise"] = surprise[place]
                    for key, values in (("f", shares), ("x", along)):
                        if values:
                            log[row][key] = {name: round(each[place], 6) for name, each in values.items()}
        rewards = torch.tensor([score.graded.reward for score in rollout.scores])
        return {
            "reward": float(rewards[~rollout.teacher].mean()),
            "teacher_rows": int(rollout.teacher.sum()),
            "groups_skipped": rollout.skipped,
            "live_rows": len(rollout.live),
            "not_finite": sum(trained.lost) if trained else 0,
            "log": log,
        }

    def _split_record(self, name: str, rollout: Rollout, trained: Trained) -> Record:
        """The figures of a split in a step.  tasks/route/claims.py says what they should be."""
        layout, rows = self._layout, trained.rows
        x, share, routed = trained.routed[name]
        # What is small is read on the CPU: on a GPU each figure would wait for all that runs there.
        lengths, teacher = trained.found.mask.sum(1).cpu(), rollout.teacher[rollout.live]
        figures: Record = live_figures(x.cpu(), share.cpu(), rows.live.cpu(), teacher, lengths, trained.surprise)
        figures["not_finite"] = sum(trained.lost)
        extraction = self.state.splits[name].extraction
        if extraction is not None and extraction.centre is None:
            whole = rows.gradients.sum(0)
            figures["resid"] = mean_cosine(layout, whole - routed, extraction.direction[0])
            figures["whole_cosine"] = mean_cosine(layout, whole, extraction.direction[0])
            figures["null_p90"] = trained.null_p90
        return figures

    def _null(self, rows: LiveRows) -> float:
        """p90 of a row's mean x along random directions."""
        names = [f"null {number}" for number in range(4)]
        drawn = [random_direction(self._layout, self.settings.seed, name, rows.norms.device) for name in names]
        along = [alignment(self._layout, rows.gradients, direction, rows.norms) for direction in drawn]
        means = torch.cat([(x * rows.live).sum(1) / rows.live.sum(1).clamp(min=1) for x in along])
        return float(torch.quantile(means, 0.9))


def live_figures(
    x: Tensor, shares: Tensor, live: Tensor, teacher: Tensor, lengths: Tensor, surprise: Tensor
) -> dict[str, float | None]:
    """Of x and f [G, M] of one step's live rows.

    x of a row is its mean over the modules that have a gradient; f is counted for each row and module, of student rows
    and, as `teacher_f_mean`, of teacher rows [G].
    """
    if not live.any():
        return {}
    count = live.sum(1)
    rows = count > 0
    mean = ((x * live).sum(1) / count.clamp(min=1))[rows]
    student = shares[~teacher][live[~teacher]]
    low, middle, high = torch.quantile(mean, torch.tensor([0.1, 0.5, 0.9])).tolist()
    return {
        "x_p10": low,
        "x_p50": middle,
        "x_p90": high,
        "f_mean": _mean(student),
        "f_at_0": _mean(student == 0),
        "f_at_1": _mean(student == 1),
        "teacher_f_mean": _mean(shares[teacher][live[teacher]]),
        "x_length": correlation(mean, lengths[rows]),
        "x_surprise": correlation(mean, surprise[rows]),
    }


def correlation(one: Tensor, other: Tensor) -> float | None:
    first, second = one.float() - one.float().mean(), other.float() - other.float().mean()
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale > 1e-9 else None


def _mean(values: Tensor) -> float | None:
    return float(values.float().mean()) if len(values) else None


def sample_rows(
    policy: Policy, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, seed: int
) -> list[TokenRow]:
    tokens = [prompt.tokens for prompt in prompts]
    draw = draw_from(torch.Generator(policy.adapter.device).manual_seed(seed))
    return list(map(TokenRow, tokens, policy.sample(tokens, knobs, longest, draw)))
