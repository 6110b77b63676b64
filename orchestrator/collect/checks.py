"""What the settings of a collection and the options of its farm must keep together, at each start."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.collect.settings import CollectOptions, CollectSettings
from orchestrator.settings import SettingsError
from orchestrator.settings.value_checks import EMBEDDED
from tasks.common.logs import secret


def check_surroundings(settings: CollectSettings, options: CollectOptions) -> None:
    if problems := [*_farm_problems(settings, options), *_limit_problems(settings, options)]:
        raise SettingsError(problems)


def _farm_problems(settings: CollectSettings, options: CollectOptions) -> Iterator[str]:
    if options.redis_url and options.farm != "external":
        yield "--redis-url: goes with --farm external, and only with that"
    if options.budget_usd and None in options.prices:
        yield "--budget: needs --price-prompt, --price-cached and --price-completion"
    named = {
        "reflector.api_key_env": settings.reflector.api_key_env,
        "phase0.correctness.evaluator_api_key_env": settings.phase0.correctness.evaluator_api_key_env,
    }
    if settings.reflector.api_base == EMBEDDED:
        if options.farm == "external":
            yield 'reflector.api_base: "embedded" needs --farm embedded'
    elif options.farm == "embedded":
        # Workers of an external farm have their own environment; these have ours.
        for key, name in named.items():
            if not secret(name):
                yield f"{key}: neither {name} nor the file named by {name}_FILE holds a key"


def _limit_problems(settings: CollectSettings, options: CollectOptions) -> Iterator[str]:
    """A prompt and its longest reply share each limit; 0 is no limit."""
    longest = {
        "reflector.max_new_tokens": settings.reflector.max_new_tokens,
        "phase0.correctness.evaluator_max_new_tokens": settings.phase0.correctness.evaluator_max_new_tokens,
    }
    limits = {"--context-tokens": options.context_tokens, "--tokens-per-minute": options.tokens_per_minute}
    for option, limit in limits.items():
        for key, tokens in longest.items():
            if limit and limit <= tokens:
                yield f"{option}: {limit} leaves no room for a prompt: it must be more than {key} ({tokens})"
