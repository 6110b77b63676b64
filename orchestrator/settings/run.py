"""From checked settings to the records that workers read: the run, its judge and its endpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from orchestrator.settings import SettingsError
from orchestrator.settings.farm import EndpointOptions
from orchestrator.settings.inputs import pinned_of, read_discovered_tokens
from orchestrator.settings.options import EMBEDDED, Settings, parse_parameters, parse_prices
from tasks.common.named import absolute
from tasks.common.text import smallest_limit
from tasks.judging.graders import needs_model
from tasks.objective import LEAST_TOKENS
from tasks.records import Clusters, Constrained, Endpoint, Fitness, Judge, Objective, Reflector, Run, Sampling, Target

ENDPOINT_TRIES = 6  # the first included; a 429 with Retry-After is always obeyed
JUDGE_CONCURRENCY = 8  # calls in flight for one evaluation
PCA_COMPONENTS = 50
FIXED_SEED = 42  # of the clustering, and of the target's samples
EMBEDDED_KEY_ENV = "OPENAI_API_KEY"  # in the workers of an embedded farm with rules, whatever the settings name


def make_run(settings: Settings, run_id: str) -> Run:
    s, sent = settings, parse_parameters(settings.openai_parameters)
    try:
        path = None if s.clusters_by == "waste" else s.clusters_from
        discovered = read_discovered_tokens(path) if path else ()
    except ValueError as error:
        raise SettingsError([f"CONFIG_CLUSTERS_FROM: {error}"]) from None
    return Run(
        id=run_id,
        seed=s.seed,
        target=_target(s),
        judge=judge_of(s),
        reflector=Reflector(
            model=s.reflector_model,
            temperature=s.reflector_temperature,
            top_p=sent.get("top_p"),
            max_completion_tokens=s.reflector_max_completion_tokens,
            seed=sent.get("seed"),
        ),
        endpoint=endpoint_of(s),
        objective=_weighted(s),
        clusters=Clusters(
            folder=str(clusters_folder().resolve()),
            embedder=s.embedder_model,
            components=PCA_COMPONENTS,
            count=s.clusters,
            seed=FIXED_SEED,
            batch_size=1024 if s.device == "cuda" else 256,
            device=s.device,
            discovered=discovered,
            by=s.clusters_by,
            buckets=s.clusters,
        ),
        evaluation_cache=s.evaluation_cache,
        reflector_context_tokens=s.openai_context_tokens,
        pinned_clusters=pinned_of(s),
        whole=s.whole,
    )


def relative_objective(s: Settings, mean_tokens: float, correct: float) -> Objective:
    """What the search maximises, where the plain model has these mean tokens and this share of correct answers."""
    if s.objective == "constrained":
        return Constrained(max(mean_tokens, LEAST_TOKENS), correct)
    return _weighted(s)


def _weighted(s: Settings) -> Fitness:
    """Until the plain model is measured every run has this: tokens and correctness of a score do not depend on it."""
    return Fitness(s.lambda_shortness, s.lambda_correctness, s.shortness_scale)


def _target(s: Settings) -> Target:
    return Target(
        model=s.target_model,
        engine="sglang" if s.device == "cuda" or s.sglang_url else "embedded",
        lifecycle=s.sglang_lifecycle,
        url=s.sglang_url,
        command=s.sglang_command,
        args=s.sglang_args,
        device=s.device,
        ready_timeout_s=_limit_s("WHETSTONE_SGLANG_READY_S", 600),
        request_timeout_s=_limit_s("WHETSTONE_TARGET_TIMEOUT_S", 600),
        concurrency=s.target_concurrency,
        system_prompt=s.target_system_prompt,
        prompt_template=s.target_prompt_template,
        sampling=Sampling(s.target_max_new_tokens, s.target_temperature, 1.0, FIXED_SEED, s.whole),
    )


def judge_of(s: Settings) -> Judge:
    sent = parse_parameters(s.openai_parameters)
    return Judge(
        name=absolute(s.judge),
        model=s.judge_model,
        tolerance=s.judge_tolerance,
        forgiving=s.judge_forgiving,
        temperature=sent.get("temperature"),
        top_p=sent.get("top_p"),
        max_completion_tokens=s.judge_max_completion_tokens,
        seed=sent.get("seed"),
        concurrency=JUDGE_CONCURRENCY,
        context_tokens=smallest_limit(s.openai_context_tokens, s.openai_tokens_per_minute),
    )


def by_rules(s: Settings) -> bool:
    """Whether the rules of the embedded endpoint reflect and judge, and no language model."""
    return s.farm == EMBEDDED and not s.openai_base_url


def needs_endpoint(s: Settings) -> bool:
    """Whether the run calls an endpoint at all: to judge, or to have the reflector change deltas."""
    return needs_model(s.judge) or s.needs_reflector


def endpoint_of(s: Settings) -> Endpoint:
    return _endpoint(
        s.openai_base_url, s.openai_api_key_env, by_rules(s), parse_prices(s.openai_prices),
        s.openai_requests_per_minute, s.openai_tokens_per_minute, s.budget_usd,
    )  # fmt: skip


def endpoint_at(base: str, key_env: str, options: EndpointOptions) -> Endpoint:
    """The endpoint at an address of a YAML file; that of the rules of an embedded farm if it is "embedded"."""
    rules = base == EMBEDDED
    return _endpoint(
        "" if rules else base, key_env, rules, options.prices, options.requests_per_minute, options.tokens_per_minute,
        options.budget_usd,
    )  # fmt: skip


def _endpoint(
    base_url: str, key_env: str, rules: bool, prices: Sequence[float | None], requests: int, tokens: int, budget: float
) -> Endpoint:
    prompt, cached, completion = (0.0 if rules and price is None else price for price in prices)
    return Endpoint(
        base_url=base_url,
        api_key_env=EMBEDDED_KEY_ENV if rules else key_env,
        timeout_s=_limit_s("WHETSTONE_OPENAI_TIMEOUT_S", 120),
        max_tries=ENDPOINT_TRIES,
        requests_per_minute=requests,
        tokens_per_minute=tokens,
        price_prompt=prompt,
        price_cached=cached,
        price_completion=completion,
        budget_usd=budget,
    )


def stage_limit_s() -> int:
    """Of one stage: it covers the slowest evaluation of an individual."""
    return _limit_s("WHETSTONE_STAGE_TIMEOUT_S", 1800)


def _limit_s(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 86_400:
        raise SettingsError([f"{variable}: {text!r} is not a number of seconds from 1 to 86400"])
    return int(text)


def clusters_folder() -> Path:
    """Where clusterings are kept; of a worker, what the variable says there."""
    return Path(os.environ.get("WHETSTONE_CLUSTERS") or "outputs/clusters")
