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

from tasks.route.directions import alignment
from tasks.route.gradients import (
    PolicyRows,
    RowGradients,
    TokenRow,
    erased_step,
    group_advantages,
    policy_losses,
    share_step,
    whole_scale,
)
from tasks.route.model import Draw, draw_by_row, draw_from, sample_completions, seed_of
from tasks.route.refresh import live_figures, mean_cosine, refresh_splits
from tasks.route.splits import LiveRows, own_random_direction, route, routed_gradient
from tasks.route.state import TrajectorySettings, deployed_knobs, dump_state, first_state, load_state
from tasks.route.world import PromptTokens, World, WorldScore


def sample_rows(
    policy: PolicyRows, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, fold: bool, seed: int
) -> list[TokenRow]:
    """A row for each prompt, sampled at temperature 1 with knobs [R], or [G, R].

    `fold` puts them into the weights meanwhile, which is faster; not into bfloat16, where small knobs would be lost.
    """
    generator = torch.Generator(policy.adapter.device).manual_seed(seed)
    return _drawn_rows(policy, prompts, knobs, longest, fold, draw_from(generator)) if prompts else []


def _drawn_rows(
    policy: PolicyRows, prompts: Sequence[PromptTokens], knobs: Tensor, longest: int, fold: bool, draw: Draw
) -> list[TokenRow]:
    tokens, adapter = [prompt.tokens for prompt in prompts], policy.adapter
    if policy.sampler is not None:
        completions = policy.sampler.sample(tokens, knobs, longest, draw)
    else:
        folds = fold and adapter.folds_exactly and knobs.dim() == 1
        with adapter.folded(knobs) if folds else adapter.active(knobs):
            completions = sample_completions(policy.model, tokens, longest, draw)
    return [TokenRow(prompt, completion) for prompt, completion in zip(tokens, completions, strict=True)]


def fold_gap(policy: PolicyRows, rows: Sequence[TokenRow], knobs: Tensor) -> float:
    """The largest difference of a token's log-probability between folded weights and the training path, nats."""
    trained, _ = policy.log_probabilities(rows, knobs)
    with policy.adapter.folded(knobs):
        folded, _ = policy.log_probabilities(rows, policy.adapter.zeros())
    return float((folded - trained).abs().max())


@dataclass(frozen=True)
class AskedSample:
    """One prompt of a deployment with knobs [R]; samples of one `number` have the same random numbers."""

    prompt: PromptTokens
    knobs: Tensor
    number: int


def evaluate_samples(
    policy: PolicyRows, world: World, batches: Iterable[Sequence[AskedSample]], longest: int, seed: int
) -> Iterator[list[WorldScore]]:
    """The scores of each batch, whose rows are sampled together, each at temperature 1 with the knobs of its own.

    A batch is scored while the next one is sampled.  Nothing of the policy changes.
    """
    with ThreadPoolExecutor(1, "scores") as thread:
        waiting: Future[list[WorldScore]] | None = None
        for batch in batches:
            prompts = [asked.prompt for asked in batch]
            knobs = torch.stack([asked.knobs for asked in batch])
            draw = draw_by_row(seed, [asked.number for asked in batch], longest, policy.adapter.device)
            rows = _drawn_rows(policy, prompts, knobs, longest, False, draw)
            if waiting is not None:
                yield waiting.result()
            waiting = thread.submit(_scored, world, prompts, [row.completion for row in rows])
        if waiting is not None:
            yield waiting.result()


def _scored(world: World, prompts: Sequence[PromptTokens], completions: Sequence[tuple[int, ...]]) -> list[WorldScore]:
    return list(world.score(prompts, completions))


LARGEST_NOT_FINITE = 0.05
"""The share of a step's live rows whose gradients may be NaN or infinite; one row may always be."""


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
class _Seen:
    """What the update of a step saw of the live rows; `lost` [G] are those that were not finite.

    `norms` [G, M] are those of each module's gradients.
    """

    found: RowGradients
    norms: Tensor
    routed: dict[str, tuple[Tensor, Tensor]]
    lost: Tensor


class Trajectory:
    """`state` are the bytes of `dump`, for going on with the same settings."""

    def __init__(
        self, settings: TrajectorySettings, policy: PolicyRows, world: World, state: bytes | None = None
    ) -> None:
        self.settings = settings
        self._policy = policy
        self._world = world
        self._layouts = (policy.adapter.layout, policy.adapter.inputs)
        device = policy.adapter.device
        if state is None:
            self.state = first_state(settings, self._layouts[0].total, device)
        else:
            self.state = load_state(state, device)

    def dump(self) -> bytes:
        return dump_state(self.state)

    def step(self) -> dict[str, Any]:
        """One step; its record as JSON, which is in the state as well."""
        settings, step = self.settings, self.state.step
        record: dict[str, Any] = {"step": step, "events": [], "splits": {split.name: {} for split in settings.plan()}}
        if step % settings.refresh_every == 0:
            splits, figures, events = refresh_splits(settings, self._policy, self._world, self.state)
            self.state = replace(self.state, splits=splits)
            record["events"] += events
            for name, found in figures.items():
                record["splits"][name] |= found
        rollout = self._rollout()
        alive = rollout.advantages.nonzero()[:, 0]
        seen = self._train(rollout, alive) if len(alive) else None
        record |= self._record(rollout, alive, seen, record["splits"])
        if record["not_finite"]:
            record["events"].append(f"rows without a finite gradient, which trained nothing: {record['not_finite']}")
        if step % settings.refresh_every == 0:
            record["fold_gap"] = fold_gap(self._policy, rollout.rows[:8], self.state.whole.value)
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
        rewards = torch.tensor([score.reward for score in scores])
        advantages, skipped = group_advantages(rewards, torch.tensor(groups))
        teacher = torch.tensor([False] * len(wanted) + [True] * len(taught))
        ablated += [False] * len(taught)
        return _Rollout(rows, scores, torch.tensor(groups), teacher, torch.tensor(ablated), advantages, skipped)

    def _sampled(self, prompts: list[PromptTokens], ablated: list[bool]) -> list[TokenRow]:
        """A row for each prompt, those without quarantine from deltaS alone."""
        rows: dict[int, TokenRow] = {}
        for without in (False, True):
            places = [place for place, off in enumerate(ablated) if off == without]
            knobs = self._rollout_knobs(without) if places else self.state.whole.value
            seed = seed_of(self.settings.seed, self.state.step, "sample", without)
            chosen = [prompts[place] for place in places]
            sampled = sample_rows(self._policy, chosen, knobs, self.settings.longest, True, seed)
            rows |= dict(zip(places, sampled, strict=True))
        return [rows[place] for place in range(len(prompts))]

    def _rollout_knobs(self, without_quarantine: bool) -> Tensor:
        if not without_quarantine:
            return self.state.whole.value
        return deployed_knobs(self.state, self.settings.plan()[0].name)

    def _train(self, rollout: _Rollout, alive: Tensor) -> _Seen:
        """The update of a step, from the rows whose advantage is not 0."""
        settings, policy = self.settings, self._policy
        rows = [rollout.rows[row] for row in alive.tolist()]
        device = policy.adapter.device
        advantages = rollout.advantages[alive].to(device)
        labels = torch.tensor([float(bool(rollout.scores[row].log.get("exploited"))) for row in alive.tolist()])
        reference = policy.log_probabilities(rows, policy.adapter.zeros())[0] if settings.beta else None
        denominator = float(len(rollout.rows) * settings.longest)
        records = any(split.source == "activations" for split in settings.plan())

        def row_loss(new: Tensor, mask: Tensor, part: slice) -> Tensor:
            base = None if reference is None else reference[part]
            return policy_losses(new, mask, advantages[part], denominator, base, settings.beta)

        found = policy.gradients(rows, self._row_knobs(rollout.ablated[alive].to(device)), row_loss, record=records)
        lost = ~found.finite()
        if (count := int(lost.sum())) > max(1, LARGEST_NOT_FINITE * len(rows)):
            raise RuntimeError(
                f"step {self.state.step}: the gradients of {count} of {len(rows)} rows are not finite; at most "
                f"{LARGEST_NOT_FINITE:.0%} may be, or one"
            )
        found = found.without(lost)
        norms = self._layouts[0].norms(found.gradients)
        seen = LiveRows(found.gradients, norms, advantages.sign(), found.inputs, labels.to(device))
        return _Seen(found, norms, self._update(seen), lost)

    def _row_knobs(self, ablated: Tensor) -> Tensor:
        """[R], or [G, R] where rows differ: each row's log-probabilities are those of the knobs that sampled it."""
        if not ablated.any():
            return self._rollout_knobs(False)
        return torch.where(ablated[:, None], self._rollout_knobs(True), self._rollout_knobs(False))

    def _update(self, rows: LiveRows) -> dict[str, tuple[Tensor, Tensor]]:
        """One update of the whole and of every split's routed share; x and f of each split."""
        settings, state, layout = self.settings, self.state, self._layouts[0]
        adam, count = settings.adam, state.updates + 1
        gradient = rows.gradients.sum(0)
        scale, second = whole_scale(gradient, state.second, count, adam)
        if settings.kind == "erase":
            erased = state.splits["erase"].extraction
            assert erased is not None
            whole = erased_step(layout, state.whole, gradient, scale, adam, erased.direction)
            self.state = replace(state, updates=count, whole=whole, second=second)
            return {}
        routed: dict[str, tuple[Tensor, Tensor]] = {}
        splits = dict(state.splits)
        for split in settings.plan():
            before = splits[split.name]
            shares = {name: found[1] for name, found in routed.items()}
            x, share = route(split, before, self._layouts, rows, settings.seed, shares)
            routed[split.name] = (x, share)
            moved = share_step(before.routed, routed_gradient(layout, rows.gradients, share), scale, adam)
            splits[split.name] = replace(before, routed=moved, has_routed=before.has_routed or bool(share.any()))
        whole = share_step(state.whole, gradient, scale, adam)
        self.state = replace(state, updates=count, whole=whole, second=second, splits=splits)
        return routed

    def _record(
        self, rollout: _Rollout, alive: Tensor, seen: _Seen | None, splits: dict[str, dict[str, Any]]
    ) -> dict[str, Any]:
        """Figures of the step; those of splits are added to `splits`."""
        students = ~rollout.teacher
        rewards = torch.tensor([score.reward for score in rollout.scores])
        log: list[dict[str, Any]] = [
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
            "reward": float(rewards[students].mean()),
            "teacher_rows": int(rollout.teacher.sum()),
            "groups_skipped": rollout.skipped,
            "live_rows": len(alive),
            "not_finite": 0 if seen is None else int(seen.lost.sum()),
            "log": log,
        }
        if seen is not None:
            record["gradient_norm"] = float(seen.found.gradients.sum(0).norm())
            self._record_splits(rollout, alive, seen, splits, log)
        return record

    def _record_splits(
        self,
        rollout: _Rollout,
        alive: Tensor,
        seen: _Seen,
        splits: dict[str, dict[str, Any]],
        log: list[dict[str, Any]],
    ) -> None:
        layout, gradients = self._layouts[0], seen.found.gradients
        null = self._null(gradients, seen.norms)
        whole = gradients.sum(0)
        # What is small is read on the CPU: on a GPU each figure would wait for all that runs there.
        live = (seen.norms > 0).cpu()
        lengths = seen.found.mask.sum(1).cpu()
        surprise = -seen.found.log_probabilities.sum(1).cpu() / lengths
        teacher = rollout.teacher[alive]
        lost = seen.lost.tolist()
        kept_rows = [(place, row) for place, row in enumerate(alive.tolist()) if not lost[place]]
        for place, row in kept_rows:
            log[row]["surprise"] = float(surprise[place])
        for split in self.settings.plan():
            if split.name not in seen.routed:
                continue
            x, shares = (figure.cpu() for figure in seen.routed[split.name])
            splits[split.name] |= live_figures(x, shares, live, teacher, lengths, surprise)
            splits[split.name]["not_finite"] = sum(lost)
            means = {"f": shares.mean(1).tolist(), **({"x": x.mean(1).tolist()} if split.extracts else {})}
            for place, row in kept_rows:
                for figure, rows in means.items():
                    log[row].setdefault(figure, {})[split.name] = round(rows[place], 6)
            extraction = self.state.splits[split.name].extraction
            if extraction is not None and extraction.centre is None:
                kept = whole - routed_gradient(layout, gradients, seen.routed[split.name][1])
                splits[split.name] |= {
                    "resid": mean_cosine(layout, kept, extraction.direction[0]),
                    "whole_cosine": mean_cosine(layout, whole, extraction.direction[0]),
                    "null_p90": null,
                }

    def _null(self, gradients: Tensor, norms: Tensor) -> float:
        """p90 of a row's mean x along four random directions."""
        found, live = [], norms > 0
        for number in range(4):
            direction = own_random_direction(self._layouts[0], self.settings.seed, f"null {number}", norms.device)
            x = alignment(self._layouts[0], gradients, direction, norms)
            found.append((x * live).sum(1) / live.sum(1).clamp(min=1))
        return float(torch.quantile(torch.cat(found), 0.9))
