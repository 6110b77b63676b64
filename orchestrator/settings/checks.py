"""Checks of options that depend on each other, and of the files that they name.

Each gets the values that are sound by themselves, and yields the names of options and what is wrong with them.  A check
that needs another one is left out: the KeyError is the caller's to catch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.settings.inputs import (
    FORK,
    FORK_FILE,
    overlap,
    parse_selection,
    read_discovered_tokens,
    read_sides,
)
from orchestrator.settings.start import cluster_layout, pinned_positions, population_problem, read_population
from orchestrator.settings.value_checks import EMBEDDED
from tasks.judging.graders import THREE_STAGES
from tasks.plan import EXAMPLE_SETS

Values = Mapping[str, Any]
Findings = Iterator[tuple[str, str]]


def check_elites(v: Values) -> Findings:
    if v["optimiser"] == "reflective" and v["elitism_size"] >= v["population_size"]:
        yield "ELITISM_SIZE", f"{v['elitism_size']} is not less than POPULATION_SIZE ({v['population_size']})"


def check_selection(v: Values) -> Findings:
    """The chosen selection has its parameter."""
    option = {"tournament": "tournament_size", "truncation": "truncation_top_k"}[v["selection"]]
    if v["optimiser"] == "reflective" and not 2 <= v[option] <= v["population_size"]:
        unset = "is not set" if v[option] == -1 else f"is {v[option]}"
        yield option.upper(), f"{unset}, and SELECTION {v['selection']!r} needs 2 to {v['population_size']}"


def check_variation(v: Values) -> Findings:
    """In "reflective" the first population are copies of one individual."""
    if v["optimiser"] == "reflective" and v["mutpb"] == 0:
        yield "MUTPB", "is 0: every individual would be a copy of the first"


def check_weights(v: Values) -> Findings:
    if v["lambda_shortness"] == v["lambda_correctness"] == 0:
        yield "LAMBDA_CORRECTNESS", "is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0"


def check_lifecycle(v: Values) -> Findings:
    if v["sglang_url"] and v["sglang_lifecycle"] == "restart":
        yield "SGLANG_LIFECYCLE", "'restart' cannot restart the running server at SGLANG_URL"


def check_limits(v: Values) -> Findings:
    """Prompt and longest reply share the context of the model (0 is no limit) and the tokens per minute."""
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        if option.startswith("judge") and v["judge"] != THREE_STAGES:
            continue
        for limit in ("openai_tokens_per_minute", "openai_context_tokens"):
            if 0 < v[limit] <= v[option]:
                yield limit.upper(), f"{v[limit]} is not more than {option.upper()} ({v[option]}): no prompt would fit"


def check_prices(v: Values) -> Findings:
    by_rules = v["farm"] == EMBEDDED and not v["openai_base_url"]
    if v["budget_usd"] and not v["openai_prices"] and not by_rules:
        yield "BUDGET_USD", "needs OPENAI_PRICES: without prices the cost is unknown"


def check_sets(v: Values) -> Findings:
    """No two sets have a row in common."""
    chosen = {which: parse_selection(v[which]) for which in EXAMPLE_SETS}
    for (one, some), (other, others) in itertools.combinations(chosen.items(), 2):
        if some.split == others.split and (common := overlap(some.ranges, others.ranges)):
            yield other.upper(), f"has row {common[0]} in common with {one.upper()}"


def check_initial_deltas(v: Values) -> Findings:
    """The initial deltas are one finite number for each cluster, in as many vectors as the search can start from."""
    layout = cluster_layout(v["clusters_by"], v["clusters"])
    if v["initial_deltas_path"] == FORK and not (v["output_dir"] / FORK_FILE).is_file():
        yield "INITIAL_DELTAS_PATH", "`orchestrator evolve --fork` alone sets it to 'fork'"
        return
    try:
        vectors = read_population(v["initial_deltas_path"], layout)
    except ValueError as error:
        yield "INITIAL_DELTAS_PATH", str(error)
        return
    pinned = pinned_positions(layout, v["optimiser"])
    if problem := population_problem(vectors, v["optimiser"], v["population_size"], pinned):
        yield "INITIAL_DELTAS_PATH", problem


def check_collected(v: Values) -> Findings:
    """The output of a collection has the tokens, enough for the clusters, or the pairs of answers that are wanted."""
    path = v["clusters_from"]
    try:
        if path is not None and v["clusters_by"] == "waste":
            read_sides(path)
        elif path is not None and v["clusters"] > len(tokens := read_discovered_tokens(path)):
            yield "CLUSTERS", f"{v['clusters']} is more than the {len(tokens)} discovered tokens of CLUSTERS_FROM"
    except ValueError as error:
        yield "CLUSTERS_FROM", str(error)


CHECKS = (
    check_elites,
    check_selection,
    check_variation,
    check_weights,
    check_lifecycle,
    check_limits,
    check_prices,
    check_sets,
    check_initial_deltas,
    check_collected,
)
