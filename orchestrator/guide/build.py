"""From the settings of `guide` to what its jobs must know, and to its embedded farm."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from orchestrator.farm.connection import FarmConnection, embedded_farm, external_farm
from orchestrator.guide.options import GuideOptions
from orchestrator.guide.settings import GuideSettings
from orchestrator.report.announcement import highest_cost, provider_at
from orchestrator.settings.run import endpoint_at
from orchestrator.settings.value_checks import EMBEDDED
from tasks import records
from tasks.common.text import escape_control
from workers.embedded.farm import FarmSpec

log = logging.getLogger(__name__)

# The file has no keys for these.
TARGET_READY_S = 600.0
TARGET_TIMEOUT_S = 600.0
LEVELS = {"debug": "DEBUG", "logging": "INFO", "warning": "WARNING"}


def guide_target(settings: GuideSettings, options: GuideOptions) -> records.Target:
    """The frozen model and its server.  Prompts and sampling come with each job, not from here."""
    model = settings.model
    embedded = model.model_name_or_path == EMBEDDED
    return records.Target(
        model=model.model_name_or_path,
        engine="embedded" if embedded else "sglang",
        lifecycle="resident",
        url="" if embedded else options.sglang_url,
        command="" if embedded else options.sglang_command,
        args="" if embedded else server_options(settings, options),
        device="cpu" if embedded or model.device_map == "cpu" else "cuda",
        dtype=(model.torch_dtype or "auto") if embedded else "auto",
        ready_timeout_s=TARGET_READY_S,
        request_timeout_s=TARGET_TIMEOUT_S,
        concurrency=options.rollout_jobs,
        system_prompt="",
        prompt_template="{context}{query}",
        sampling=records.Sampling(settings.sampler.grid[0].max_new_tokens, 0.0, 1.0, settings.runner.shuffle_seed),
    )


def server_options(settings: GuideSettings, options: GuideOptions) -> str:
    """The arguments of a server that a worker starts: `torch_dtype` and `device_map` as SGLang calls them."""
    model = settings.model
    dtype = [] if model.torch_dtype in (None, "auto") else ["--dtype", str(model.torch_dtype)]
    device = [] if model.device_map in (None, "auto") else ["--device", str(model.device_map)]
    return " ".join(part for part in [*dtype, *device, options.sglang_args] if part)


def guide_endpoint(settings: GuideSettings, options: GuideOptions) -> records.Endpoint | None:
    """The endpoint of critic and reflector; None where the target is both."""
    endpoint = settings.endpoint
    if endpoint is None or not settings.needs_endpoint:
        return None
    return endpoint_at(endpoint.api_base, endpoint.api_key_env, options)


def guide_farm_spec(settings: GuideSettings, options: GuideOptions) -> FarmSpec:
    """An embedded farm; where no endpoint is asked it has the rules, which then have nothing to do."""
    rules = settings.endpoint is None or not settings.needs_endpoint or settings.endpoint.api_base == EMBEDDED
    return FarmSpec(
        folder=str(Path(options.farm_dir).resolve()),
        gpu_slots=options.rollout_jobs,
        openai_threads=options.endpoint_jobs,
        cpu_workers=1,
        log_level=LEVELS[options.log_level],
        embedded_endpoint=rules,
        offline=settings.model.model_name_or_path == EMBEDDED,
    )


def open_guide_farm(
    settings: GuideSettings, options: GuideOptions, notify: Callable[[str], None] = log.info
) -> AbstractContextManager[FarmConnection]:
    if options.farm == "external":
        return external_farm(options.redis_url, notify)
    return embedded_farm(guide_farm_spec(settings, options), notify)


def guide_announcement(settings: GuideSettings, options: GuideOptions) -> str:
    """Who judges, criticises and reflects, and what it may cost at most."""
    target, endpoint = settings.model.model_name_or_path, guide_endpoint(settings, options)

    def named(backend: str) -> str:
        if backend == "target" or endpoint is None or settings.endpoint is None:
            return "the target"
        rules, external = settings.endpoint.api_base == EMBEDDED, options.farm == "external"
        return provider_at(settings.endpoint.model, endpoint, rules=rules, external=external)

    critic = named(settings.critic.backend) if settings.critic.enabled else "none"
    is_by_rules = settings.endpoint is not None and settings.endpoint.api_base == EMBEDDED
    cost = "free" if endpoint is None else highest_cost(endpoint, rules=is_by_rules)
    form = "; the server enforces the three lines" if settings.sampler.constrain == "three_line" else ""
    reflector = named(settings.reflection.backend)
    return escape_control(f"target: {target}; critic: {critic}; reflector: {reflector}; cost: {cost}{form}")
