"""Checks of options that depend on each other.

Each gets the values that are sound by themselves (some may be missing), and yields the names of options and what is
wrong with them.  No check here reads a file (see `orchestrator.settings.file_checks`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.settings.clusters import ClusterLayout, cluster_layout
from orchestrator.settings.references import BEST_PROMPT, overlap, parse_selection
from orchestrator.settings.value_checks import EMBEDDED
from tasks.judging.grader import THREE_STAGES
from tasks.plan import EXAMPLE_SETS

Values = Mapping[str, Any]
Findings = Iterator[tuple[str, str]]


def check_selection(values: Values) -> Findings:
    """Of "reflective": elites leave room for children, and the chosen selection has its parameter."""
    if values.get("optimiser") != "reflective":
        return
    population = values.get("population_size")
    elites = values.get("elitism_size")
    if population is not None and elites is not None and elites >= population:
        yield (
            "ELITISM_SIZE",
            f"{elites} leaves no room for children: it must be less than POPULATION_SIZE ({population})",
        )
    needed = {"tournament": "tournament_size", "truncation": "truncation_top_k"}.get(values.get("selection", ""))
    size = values.get(needed or "")
    if needed is None or size is None:
        return
    if size == -1:
        yield needed.upper(), f"is not set, and SELECTION {values['selection']!r} needs it"
    elif size < 2:
        yield needed.upper(), f"{size} is less than 2"
    elif population is not None and size > population:
        yield needed.upper(), f"{size} is more than POPULATION_SIZE ({population})"


def check_limits(values: Values) -> Findings:
    """Each single call is within the tokens per minute; otherwise no prompt would fit."""
    limit = values.get("openai_tokens_per_minute")
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        longest = None if option.startswith("judge") and values.get("judge") != THREE_STAGES else values.get(option)
        if limit is not None and longest is not None and longest >= limit:
            yield (
                "OPENAI_TOKENS_PER_MINUTE",
                f"{limit} is not more than {option.upper()} ({longest}): no such call could be made",
            )
            return


def check_sets(values: Values) -> Findings:
    """No two sets have a row in common."""
    chosen = {which: parse_selection(values[which]) for which in EXAMPLE_SETS if which in values}
    for (one, some), (other, others) in itertools.combinations(chosen.items(), 2):
        if some.split == others.split and (common := overlap(some.ranges, others.ranges)):
            yield other.upper(), f"has row {common[0]} in common with {one.upper()}"


def check_context(values: Values) -> Findings:
    """A prompt and its longest reply share the context of the model; 0 is no limit."""
    context = values.get("openai_context_tokens")
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        longest = values.get(option)
        if context and longest is not None and context <= longest:
            yield (
                "OPENAI_CONTEXT_TOKENS",
                f"{context} leaves no room for a prompt: it must be more than {option.upper()} ({longest})",
            )


def sound_layout(values: Values) -> ClusterLayout | None:
    """The layout of the clusters; None where an option that decides it is not sound."""
    try:
        return cluster_layout(values["clusters_by"], values["clusters"])
    except KeyError:
        return None


def check_weights(values: Values) -> Findings:
    """With both weights 0 every fitness is 0, and selection is random."""
    if values.get("lambda_shortness") == 0 and values.get("lambda_correctness") == 0:
        yield "LAMBDA_CORRECTNESS", "is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0"


def check_variation(values: Values) -> Findings:
    """In "reflective" a child can differ from its parents: the first population are copies of one individual."""
    if values.get("optimiser") == "reflective" and values.get("mutpb") == 0:
        yield "MUTPB", "is 0: every individual would be a copy of the first"


def check_prices(values: Values) -> Findings:
    """A budget can be kept only when the prices are known."""
    if values.get("budget_usd") and not values.get("openai_prices", True) and not _by_rules(values):
        yield "BUDGET_USD", "needs OPENAI_PRICES: without prices the cost is unknown"


def check_start(values: Values) -> Findings:
    """The best prompt can be chosen only among prompts."""
    if values.get("target_system_prompt") == BEST_PROMPT and "prompts_path" in values and not values["prompts_path"]:
        yield "PROMPTS_PATH", f"is empty, and TARGET_SYSTEM_PROMPT {BEST_PROMPT!r} chooses among its prompts"


def check_shortest_answer(values: Values) -> Findings:
    """No answer has more tokens than the longest."""
    least, most = values.get("steered_min_new_tokens", 0), values.get("target_max_new_tokens", math.inf)
    if least > most:
        yield "STEERED_MIN_NEW_TOKENS", f"{least} is more than TARGET_MAX_NEW_TOKENS, {most}"


def check_lifecycle(values: Values) -> Findings:
    """A running server that Whetstone did not start is never restarted."""
    if values.get("sglang_url") and values.get("sglang_lifecycle") == "restart":
        yield (
            "SGLANG_LIFECYCLE",
            "'restart' cannot restart the running server at SGLANG_URL; leave SGLANG_URL empty, or use 'resident'",
        )


CROSS_CHECKS = (
    check_selection,
    check_weights,
    check_variation,
    check_lifecycle,
    check_shortest_answer,
    check_limits,
    check_context,
    check_prices,
    check_start,
    check_sets,
)


def _by_rules(values: Values) -> bool:
    return values.get("farm") == EMBEDDED and not values.get("openai_base_url")
