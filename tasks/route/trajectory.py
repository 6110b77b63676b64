"""A trajectory: GRPO on a world, all splits side by side on the same rollouts.

`Trajectory(settings, policy, world).step()` until done; between steps it can be dumped, and resumed to the bit.
Labels decide nothing: of a score the loop reads the reward; the column `exploited` is handed to `ceiling` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tasks.route.adapter import KnobLayout
from tasks.route.directions import (
    THINNEST,
    Extraction,
    Measure,
    PairSides,
    alignment,
    extract,
    mean_cosine,
    pair_sides,
    random_direction,
)
from tasks.route.policy import (
    Policy,
    RowGradients,
    TokenRow,
    draw_from,
    group_advantages,
    policy_losses,
    seed_of,
)
from tasks.route.splits import (
    LiveRows,
    SplitState,
    TrajectorySettings,
    TrajectoryState,
    deployed_knobs,
    dump_state,
    first_state,
    load_state,
    refreshed,
    route,
    routed_gradient,
    share_step,
    whole_scale,
    without_component,
)
from tasks.route.world import ProgramsWorld, PromptTokens, WorldScore

LARGEST_NOT_FINITE = 0.05
"""The share of a step's live rows whose gradients may be NaN or infinite; one row may always be."""
LEAST_OVERLAP = 0.2
"""A direction with a smaller cosine with its predecessor, or with the one taken with quarantine on, is warned of."""
Figures = dict[str, Any]


@dataclass(frozen=True)
class _Rollout:
    """The rows of a step, group by group, and what they are worth; all have a place for each row."""

    rows: list[TokenRow]
    scores: list[WorldScore]
    groups: Tensor
    teacher: Tensor
    ablated: Tensor
    advantages: Tensor
    skipped: int


class Trajectory:
    """`state` are the bytes of `dump`, for going on with the same settings."""

    def __init__(
        self, settings: TrajectorySettings, policy: Policy, world: ProgramsWorld, state: bytes | None = None
    ) -> None:
        self.settings, self._policy, self._world = settings, policy, world
        self._layouts = (policy.adapter.layout, policy.adapter.inputs)
        total, device = self._layouts[0].total, policy.adapter.device
        self.state = first_state(settings, total, device) if state is None else load_state(state, device)

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
        record |= _rollout_record(rollout, alive)
        if len(alive):
            self._train(rollout, alive, record)
        if record["not_finite"]:
            record["events"].append(f"rows without a finite gradient, which trained nothing: {record['not_finite']}")
        self.state = replace(self.state, step=step + 1, rows=(*self.state.rows, record))
        return record

    def _rollout(self) -> _Rollout:
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
        advantages, skipped = group_advantages(torch.tensor([s.reward for s in scores]), of_rows)
        teacher = torch.tensor([False] * len(asked) + [True] * len(taught))
        return _Rollout(
            rows, scores, of_rows, teacher, torch.tensor(ablated + [False] * len(taught)), advantages, skipped
        )

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
        return deployed_knobs(self.state, self.settings.plan()[0].name if without_quarantine else "none")

    def _train(self, rollout: _Rollout, alive: Tensor, record: Figures) -> None:
        """The update of a step, from the rows whose advantage is not 0, each under the knobs that sampled it."""
        settings, policy = self.settings, self._policy
        rows = [rollout.rows[row] for row in alive.tolist()]
        device = policy.adapter.device
        advantages, ablated = rollout.advantages[alive].to(device), rollout.ablated[alive].to(device)
        labels = torch.tensor([float(bool(rollout.scores[row].log.get("exploited"))) for row in alive.tolist()])
        knobs = self._knobs(False)
        if ablated.any():
            knobs = torch.where(ablated[:, None], self._knobs(True), knobs)
        reference = policy.log_probabilities(rows, policy.adapter.zeros()) if settings.beta else None
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
        routed = self._update(live)
        record |= {"not_finite": count, "gradient_norm": float(found.gradients.sum(0).norm())}
        self._record_splits(rollout, alive, found, lost.tolist(), live, routed, record)

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

    def _record_splits(
        self,
        rollout: _Rollout,
        alive: Tensor,
        found: RowGradients,
        lost: list[bool],
        rows: LiveRows,
        routed: Mapping[str, tuple[Tensor, Tensor]],
        record: Figures,
    ) -> None:
        layout, whole = self._layouts[0], rows.gradients.sum(0)
        # p90 of a row's mean x along random directions.
        drawn = [random_direction(layout, self.settings.seed, f"null {number}", whole.device) for number in range(4)]
        along = [alignment(layout, rows.gradients, direction, rows.norms) for direction in drawn]
        means = torch.cat([(x * rows.live).sum(1) / rows.live.sum(1).clamp(min=1) for x in along])
        null_p90 = float(torch.quantile(means, 0.9))
        # What is small is read on the CPU: on a GPU each figure would wait for all that runs there.
        live, lengths = rows.live.cpu(), found.mask.sum(1).cpu()
        surprise = -found.log_probabilities.sum(1).cpu() / lengths
        log = {place: record["log"][row] for place, row in enumerate(alive.tolist()) if not lost[place]}
        for place, of_row in log.items():
            of_row["surprise"] = float(surprise[place])
        for split in self.settings.plan():
            if split.name not in routed:
                continue
            x, shares = (figure.cpu() for figure in routed[split.name])
            figures = record["splits"][split.name]
            figures |= live_figures(x, shares, live, rollout.teacher[alive], lengths, surprise)
            figures["not_finite"] = sum(lost)
            for figure, of_rows in {"f": shares, **({"x": x} if split.extracts else {})}.items():
                for place, value in enumerate(of_rows.mean(1).tolist()):
                    if place in log:
                        log[place].setdefault(figure, {})[split.name] = round(value, 6)
            extraction = self.state.splits[split.name].extraction
            if extraction is not None and extraction.centre is None:
                kept = whole - routed_gradient(layout, rows.gradients, routed[split.name][1])
                figures |= {
                    "resid": mean_cosine(layout, kept, extraction.direction[0]),
                    "whole_cosine": mean_cosine(layout, whole, extraction.direction[0]),
                    "null_p90": null_p90,
                }


def _rollout_record(rollout: _Rollout, alive: Tensor) -> Figures:
    rewards = torch.tensor([score.reward for score in rollout.scores])
    log = [
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
    return {
        "reward": float(rewards[~rollout.teacher].mean()),
        "teacher_rows": int(rollout.teacher.sum()),
        "groups_skipped": rollout.skipped,
        "live_rows": len(alive),
        "not_finite": 0,
        "log": log,
    }


def live_figures(
    x: Tensor, shares: Tensor, live: Tensor, teacher: Tensor, lengths: Tensor, surprise: Tensor
) -> dict[str, float | None]:
    """Of x and f [G, M] of one step's live rows.  tasks/route/claims.py says what the figures should be.

    x of a row is its mean over the modules that have a gradient; f is counted for each row and module, of student rows
    and, as `teacher_f_mean`, of teacher rows [G].
    """
    if not live.any():
        return {}
    count = live.sum(1)
    rows = count > 0
    mean = ((x * live).sum(1) / count.clamp(min=1))[rows]
    student = shares[~teacher][live[~teacher]]
    low, middle, high = torch.quantile(mean, torch.tensor([0.1, 0.5, 0.9], device=mean.device)).tolist()
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


def refresh_splits(
    settings: TrajectorySettings, policy: Policy, world: ProgramsWorld, state: TrajectoryState
) -> tuple[dict[str, SplitState], dict[str, dict[str, Any]], list[str]]:
    """The splits with directions and bands from the pairs anew, each with its own deltaS and the quarantine off; the
    figures of each, and what happened, in lines.
    """
    splits = dict(state.splits)
    quarantined: dict[str, Tensor] = {}
    figures: dict[str, dict[str, Any]] = {}
    events: list[str] = []
    seen: list[tuple[str, Tensor, PairSides]] = []

    def sides_at(kind: str, knobs: Tensor) -> PairSides:
        """The pairs through the model, once for each kind and knobs: at first all splits have the same."""
        for known, at, sides in seen:
            if known == kind and torch.equal(at, knobs):
                return sides
        measure: Measure = "activations" if kind == "activations" else settings.reduction
        new = pair_sides(policy, world.placebo if kind == "placebo" else world.pairs, knobs, measure)
        seen.append((kind, knobs, new))
        return new

    for split in settings.plan():
        before = splits[split.name]
        if not split.extracts or before.frozen:
            continue
        kind = split.source if split.source in ("placebo", "activations") else "pairs"
        layout = policy.adapter.inputs if kind == "activations" else policy.adapter.layout
        sides = sides_at(kind, deployed_knobs(state, split.name))
        new = extract(split.source, layout, sides, settings.dims, settings.seed, split.name)
        splits[split.name], event = refreshed(before, new)
        null_seed = seed_of(settings.seed, split.name)
        null = extract("permuted", layout, sides, settings.dims, null_seed, "permuted").band.separation()
        found = _refresh_figures(layout, before, new, splits[split.name], null)
        if split.source != "random":
            if split.source not in quarantined:
                shared = sides_at(kind, state.whole.value)
                whole = extract(split.source, layout, shared, settings.dims, settings.seed, split.name)
                quarantined[split.source] = whole.direction[0]
            found["overlap_quarantine"] = mean_cosine(layout, new.direction[0], quarantined[split.source])
        figures[split.name] = found
        events += [f"{split.name}: {line}" for line in ([event] if event else []) + _warnings(found)]
    if state.step == 0:
        events = [_surprise(sides) for kind, _, sides in seen if kind == "pairs"][:1] + events
    return splits, figures, events


def _surprise(sides: PairSides) -> str:
    both = sides.rej_surprise, sides.cho_surprise
    said = f"pairs: {both[0]:.2f} nats a token for hacks, {both[1]:.2f} for honest completions"
    return said + ("" if max(both) <= 2 * min(both) else "; they differ by more than a factor of 2, which is a warning")


def _refresh_figures(
    layout: KnobLayout, before: SplitState, new: Extraction, after: SplitState, null: float
) -> dict[str, Any]:
    """Gaps, separation and overlap; mean edges over the open modules, or over all where none is open.

    `null` is the separation of permuted pairs.
    """
    band = after.extraction.band if after.extraction is not None else new.band
    opened = band.open()
    among = opened if bool(opened.any()) else torch.ones_like(opened)
    found = {
        "hkgap": new.band.hkgap(),
        "first_hkgap": after.first_gap,
        "separation": new.band.separation(),
        "separation_permuted": null,
        "frozen": after.frozen,
        "lower": float(band.lower[among].mean()),
        "upper": float(band.upper[among].mean()),
        "open_modules": int(opened.sum()),
        "closed_modules": int((~opened).sum()),
    }
    if before.extraction is not None:
        found["overlap_previous"] = mean_cosine(layout, new.direction[0], before.extraction.direction[0])
    return found


def _warnings(found: dict[str, Any]) -> list[str]:
    lines = []
    for name in ("overlap_previous", "overlap_quarantine"):
        if found.get(name) is not None and found[name] < LEAST_OVERLAP:
            lines.append(f"{name} is {found[name]:.2f}, below {LEAST_OVERLAP}")
    if not found["open_modules"]:
        lines.append(f"no module has a band of at least {THINNEST}: it routes nothing")
    return lines
