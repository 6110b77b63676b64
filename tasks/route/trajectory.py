"""A trajectory: GRPO on a world, all splits side by side on the same rollouts.

`Trajectory(settings, policy, world).step()` until done; between steps it can be dumped, and resumed to the bit.
Labels decide nothing: of a score the loop reads the reward; the column `exploited` is handed to `ceiling` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tasks.route.directions import alignment, random_direction
from tasks.route.gradients import Policy, RowGradients, TokenRow, group_advantages, policy_losses
from tasks.route.model import draw_by_row, draw_from, seed_of
from tasks.route.splits import LiveRows, route, routed_gradient, share_step, whole_scale, without_component
from tasks.route.state import (
    TrajectorySettings,
    deployed_knobs,
    dump_state,
    first_state,
    load_state,
    mean_cosine,
    refresh_splits,
)
from tasks.route.world import PromptTokens, World, WorldScore

LARGEST_NOT_FINITE = 0.05
"""The share of a step's live rows whose gradients may be NaN or infinite; one row may always be."""
Figures = dict[str, Any]


@dataclass(frozen=True)
class _Rollout:
    """The rows of a step, group by group, and what they are worth; all lists and tensors have a place for each row."""

    rows: list[TokenRow]
    scores: list[WorldScore]
    groups: Tensor
    teacher: Tensor
    ablated: Tensor
    advantages: Tensor
    skipped: int


@dataclass(frozen=True)
class _Update:
    """What the update of a step saw of the live rows: their gradients, and the norms [G, M] of each module's part.

    `routed` are x and f of each split, `lost` [G] the rows that were not finite.
    """

    found: RowGradients
    norms: Tensor
    routed: dict[str, tuple[Tensor, Tensor]]
    lost: Tensor


class Trajectory:
    """`state` are the bytes of `dump`, for going on with the same settings."""

    def __init__(self, settings: TrajectorySettings, policy: Policy, world: World, state: bytes | None = None) -> None:
        self.settings = settings
        self._policy = policy
        self._world = world
        self._layouts = (policy.adapter.layout, policy.adapter.inputs)
        device = policy.adapter.device
        self.state = (
            first_state(settings, self._layouts[0].total, device) if state is None else load_state(state, device)
        )

    def dump(self) -> bytes:
        return dump_state(self.state)

    def step(self) -> Figures:
        """One step; its record as JSON, which is in the state as well."""
        settings, step = self.settings, self.state.step
        record: Figures = {"step": step, "events": [], "splits": {split.name: {} for split in settings.plan()}}
        if step % settings.refresh_every == 0:
            splits, figures, events = refresh_splits(settings, self._policy, self._world, self.state)
            self.state = replace(self.state, splits=splits)
            record["events"] += events
            for name, found in figures.items():
                record["splits"][name] |= found
        rollout = self._rollout()
        alive = rollout.advantages.nonzero()[:, 0]
        update = self._train(rollout, alive) if len(alive) else None
        record |= self._record(rollout, alive, update, record["splits"])
        if record["not_finite"]:
            record["events"].append(f"rows without a finite gradient, which trained nothing: {record['not_finite']}")
        self.state = replace(self.state, step=step + 1, rows=(*self.state.rows, record))
        return record

    def _rollout(self) -> _Rollout:
        settings, step = self.settings, self.state.step
        prompts = self._world.prompts(step, np.random.default_rng([settings.seed, step]))
        taught = self._world.teacher(step, prompts) if step < settings.teacher_off_step else ()
        wanted = [
            (group, prompt)
            for group, prompt in enumerate(prompts)
            for _ in range(settings.group_size - sum(row.group == group for row in taught))
        ]
        chance = np.random.default_rng([settings.seed, step, 1]).random(len(wanted))
        ablated = [bool(draw < settings.rollout_ablate_frac) for draw in chance]
        rows = self._sampled([prompt for _, prompt in wanted], ablated)
        scores = list(self._world.score([prompt for _, prompt in wanted], [row.completion for row in rows]))
        groups = [group for group, _ in wanted] + [row.group for row in taught]
        rows += [TokenRow(prompts[row.group].tokens, row.completion) for row in taught]
        scores += [row.score for row in taught]
        advantages, skipped = group_advantages(torch.tensor([s.reward for s in scores]), torch.tensor(groups))
        teacher = torch.tensor([False] * len(wanted) + [True] * len(taught))
        ablated += [False] * len(taught)
        return _Rollout(rows, scores, torch.tensor(groups), teacher, torch.tensor(ablated), advantages, skipped)

    def _sampled(self, prompts: list[PromptTokens], ablated: list[bool]) -> list[TokenRow]:
        """A row for each prompt, those without quarantine from deltaS alone."""
        rows: dict[int, TokenRow] = {}
        for without in (False, True):
            places = [place for place, off in enumerate(ablated) if off == without]
            if places:
                seed = seed_of(self.settings.seed, self.state.step, "sample", without)
                chosen = [prompts[place] for place in places]
                found = sample_rows(self._policy, chosen, self._knobs(without), self.settings.longest, seed)
                rows |= dict(zip(places, found, strict=True))
        return [rows[place] for place in range(len(prompts))]

    def _knobs(self, without_quarantine: bool) -> Tensor:
        """The knobs [R] that sample."""
        if not without_quarantine:
            return self.state.whole.value
        return deployed_knobs(self.state, self.settings.plan()[0].name)

    def _train(self, rollout: _Rollout, alive: Tensor) -> _Update:
        """The update of a step, from the rows whose advantage is not 0.

        Each row's log-probabilities are those of the knobs that sampled it.
        """
        settings, policy = self.settings, self._policy
        rows = [rollout.rows[row] for row in alive.tolist()]
        device = policy.adapter.device
        advantages, ablated = rollout.advantages[alive].to(device), rollout.ablated[alive].to(device)
        labels = torch.tensor([float(bool(rollout.scores[row].log.get("exploited"))) for row in alive.tolist()])
        knobs = self._knobs(False)
        if ablated.any():
            knobs = torch.where(ablated[:, None], self._knobs(True), knobs)
        reference = policy.log_probabilities(rows, policy.adapter.zeros())[0] if settings.beta else None
        denominator = float(len(rollout.rows) * settings.longest)

        def row_loss(new: Tensor, mask: Tensor, part: slice) -> Tensor:
            base = None if reference is None else reference[part]
            return policy_losses(new, mask, advantages[part], denominator, base, settings.beta)

        records = any(split.source == "activations" for split in settings.plan())
        found = policy.gradients(rows, knobs, row_loss, record=records)
        lost = ~found.finite()
        if (count := int(lost.sum())) > max(1, LARGEST_NOT_FINITE * len(rows)):
            raise RuntimeError(
                f"step {self.state.step}: the gradients of {count} of {len(rows)} rows are not finite; at most "
                f"{LARGEST_NOT_FINITE:.0%} may be, or one"
            )
        found = found.without(lost)
        norms = self._layouts[0].norms(found.gradients)
        live = LiveRows(found.gradients, norms, advantages.sign(), found.inputs, labels.to(device))
        return _Update(found, norms, self._update(live), lost)

    def _update(self, rows: LiveRows) -> dict[str, tuple[Tensor, Tensor]]:
        """One update of the whole and of every split's routed share; x and f of each split."""
        settings, state, layout = self.settings, self.state, self._layouts[0]
        adam, count = settings.adam, state.updates + 1
        gradient = rows.gradients.sum(0)
        scale, second = whole_scale(gradient, state.second, count, adam)
        routed: dict[str, tuple[Tensor, Tensor]] = {}
        splits, erase = dict(state.splits), None
        for split in settings.plan():
            before = splits[split.name]
            if settings.kind == "erase":
                assert before.extraction is not None
                erase = before.extraction.direction
                continue
            shares = {name: found[1] for name, found in routed.items()}
            x, share = route(split, before, self._layouts, rows, settings.seed, shares)
            routed[split.name] = (x, share)
            moved = share_step(before.routed, routed_gradient(layout, rows.gradients, share), scale, adam)
            splits[split.name] = replace(before, routed=moved, has_routed=before.has_routed or bool(share.any()))
        without = None if erase is None else lambda update: without_component(layout, update, erase)
        whole = share_step(state.whole, gradient, scale, adam, without)
        self.state = replace(state, updates=count, whole=whole, second=second, splits=splits)
        return routed

    def _record(self, rollout: _Rollout, alive: Tensor, update: _Update | None, splits: dict[str, Figures]) -> Figures:
        """Figures of the step; those of splits are added to `splits`."""
        rewards = torch.tensor([score.reward for score in rollout.scores])
        log: list[Figures] = [
            {
                "group": int(rollout.groups[row]),
                "teacher": bool(rollout.teacher[row]),
                "ablated": bool(rollout.ablated[row]),
                "reward": score.reward,
                "advantage": float(rollout.advantages[row]),
                "length": len(rollout.rows[row].completion),
                **score.log,
            }
            for row, score in enumerate(rollout.scores)
        ]
        record = {
            "reward": float(rewards[~rollout.teacher].mean()),
            "teacher_rows": int(rollout.teacher.sum()),
            "groups_skipped": rollout.skipped,
            "live_rows": len(alive),
            "not_finite": 0 if update is None else int(update.lost.sum()),
            "log": log,
        }
        if update is not None:
            record["gradient_norm"] = float(update.found.gradients.sum(0).norm())
            self._record_splits(rollout, alive, update, splits, log)
        return record

    def _record_splits(
        self, rollout: _Rollout, alive: Tensor, update: _Update, splits: dict[str, Figures], log: list[Figures]
    ) -> None:
        layout, gradients = self._layouts[0], update.found.gradients
        null = self._null(gradients, update.norms)
        whole = gradients.sum(0)
        # What is small is read on the CPU: on a GPU each figure would wait for all that runs there.
        live = (update.norms > 0).cpu()
        lengths = update.found.mask.sum(1).cpu()
        surprise = -update.found.log_probabilities.sum(1).cpu() / lengths
        lost = update.lost.tolist()
        kept_rows = [(place, row) for place, row in enumerate(alive.tolist()) if not lost[place]]
        for place, row in kept_rows:
            log[row]["surprise"] = float(surprise[place])
        for split in self.settings.plan():
            if split.name not in update.routed:
                continue
            x, shares = (figure.cpu() for figure in update.routed[split.name])
            splits[split.name] |= live_figures(x, shares, live, rollout.teacher[alive], lengths, surprise)
            splits[split.name]["not_finite"] = sum(lost)
            means = {"f": shares.mean(1).tolist(), **({"x": x.mean(1).tolist()} if split.extracts else {})}
            for place, row in kept_rows:
                for figure, rows in means.items():
                    log[row].setdefault(figure, {})[split.name] = round(rows[place], 6)
            extraction = self.state.splits[split.name].extraction
            if extraction is not None and extraction.centre is None:
                kept = whole - routed_gradient(layout, gradients, update.routed[split.name][1])
                splits[split.name] |= {
                    "resid": mean_cosine(layout, kept, extraction.direction[0]),
                    "whole_cosine": mean_cosine(layout, whole, extraction.direction[0]),
                    "null_p90": null,
                }

    def _null(self, gradients: Tensor, norms: Tensor) -> float:
        """p90 of a row's mean x along four random directions."""
        found, live = [], norms > 0
        for number in range(4):
            direction = random_direction(self._layouts[0], self.settings.seed, f"null {number}", norms.device)
            x = alignment(self._layouts[0], gradients, direction, norms)
            found.append((x * live).sum(1) / live.sum(1).clamp(min=1))
        return float(torch.quantile(torch.cat(found), 0.9))


def live_figures(
    x: Tensor, shares: Tensor, live: Tensor, teacher: Tensor, lengths: Tensor, surprise: Tensor
) -> dict[str, float | None]:
    """Of x and f [G, M] of one step's live rows: percentiles, mean and mass at 0 and 1, correlations.

    x of a row is its mean over the modules that have a gradient; f is counted for each row and module, of student rows
    and, as `teacher_f_mean`, of teacher rows [G].  tasks/route/claims.py says what the figures should be.
    """
    if not live.any():
        return {}
    count = live.sum(1)
    rows = count > 0
    mean = ((x * live).sum(1) / count.clamp(min=1))[rows]
    student = shares[~teacher][live[~teacher]]
    low, middle, high = torch.quantile(mean, torch.tensor([0.1, 0.5, 0.9], device=mean.device)).tolist()
    return {
        **{"x_p10": low, "x_p50": middle, "x_p90": high},
        **{"f_mean": _mean(student), "f_at_0": _mean(student == 0), "f_at_1": _mean(student == 1)},
        "teacher_f_mean": _mean(shares[teacher][live[teacher]]),
        "x_length": correlation(mean, lengths[rows]),
        "x_surprise": correlation(mean, surprise[rows]),
    }


def correlation(one: Tensor, other: Tensor) -> float | None:
    """Pearson's, or None where one of both does not vary."""
    first, second = one.float() - one.float().mean(), other.float() - other.float().mean()
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale > 1e-9 else None


def _mean(values: Tensor) -> float | None:
    return float(values.float().mean()) if len(values) else None


def sample_rows(
    policy: Policy, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, seed: int
) -> list[TokenRow]:
    """A row for each prompt, sampled at temperature 1 with knobs [R]."""
    tokens = [prompt.tokens for prompt in prompts]
    draw = draw_from(torch.Generator(policy.adapter.device).manual_seed(seed))
    return list(map(TokenRow, tokens, policy.sampler.sample(tokens, knobs, longest, draw)))


@dataclass(frozen=True)
class AskedSample:
    """One prompt of a deployment with knobs [R]; samples of one `number` have the same random numbers."""

    prompt: PromptTokens
    knobs: Tensor
    number: int


def evaluate_samples(
    policy: Policy, world: World, batches: Iterable[Sequence[AskedSample]], longest: int, seed: int
) -> Iterator[Sequence[WorldScore]]:
    """The scores of each batch, whose rows are sampled together, each at temperature 1 with the knobs of its own.

    A batch is scored while the next one is sampled.  Nothing of the policy changes.
    """
    with ThreadPoolExecutor(1, "scores") as thread:
        waiting: Future[Sequence[WorldScore]] | None = None
        for batch in batches:
            prompts = [asked.prompt for asked in batch]
            draw = draw_by_row(seed, [asked.number for asked in batch], longest, policy.adapter.device)
            knobs = torch.stack([asked.knobs for asked in batch])
            completions = policy.sampler.sample([prompt.tokens for prompt in prompts], knobs, longest, draw)
            if waiting is not None:
                yield waiting.result()
            waiting = thread.submit(world.score, prompts, completions)
        if waiting is not None:
            yield waiting.result()
