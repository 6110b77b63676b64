"""What options must be to one another.

Each check gets the values that are sound by themselves (some may be missing) and yields an option's name and what is
wrong with it.  Only `check_questions`, `check_deltas` and `check_discovered` read files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.settings.references import overlap, parse_indices, read_deltas, read_discovered_tokens, select_indices
from orchestrator.settings.rules import short
from tasks.store.address import password_in
from tasks.template import missing_placeholders
from workers.embedded.endpoint.faults import parse_faults
from workers.embedded.endpoint.rules import all_rules

Values = Mapping[str, Any]
Findings = Iterator[tuple[str, str]]

_PLACES = ("context", "query")
_REDIS_SCHEMES = ("redis", "rediss", "unix")
_OUR_ARGUMENTS = {
    "--model-path": "is TARGET_MODEL",
    "--host": "is Whetstone's own: a server that a worker starts listens on 127.0.0.1",
    "--port": "is Whetstone's own: a server that a worker starts takes a free one",
    "--api-key": "is Whetstone's own: a server that a worker starts gets a key that nobody else knows",
    "--config": "is Whetstone's own: write what the file says as arguments",
    "--speculative-algorithm": "samples where no delta reaches",
}


def check_selection(values: Values) -> Findings:
    """genetic_evolution_plan.md section 2: elites leave room for children, and parents can be drawn."""
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
    elif population is not None and size > population:
        yield needed.upper(), f"{size} is more than POPULATION_SIZE ({population})"


def check_template(values: Values) -> Findings:
    """The prompt template has a place for the pages and one for the question."""
    template = values.get("target_prompt_template")
    if template is not None and (missing := missing_placeholders(template, _PLACES)):
        yield "TARGET_PROMPT_TEMPLATE", f"has no place for {' and '.join(missing)}"


def check_addresses(values: Values) -> Findings:
    """Addresses have the form that their servers need."""
    redis = values.get("redis_url", "")
    if redis and urlsplit_or_none(redis, _REDIS_SCHEMES) is None:
        yield "REDIS_URL", f"{short(_hide_password(redis))} is not an address of the form redis://HOST:PORT/DATABASE"
    for option in ("sglang_url", "openai_base_url"):
        url = values.get(option, "")
        if url and urlsplit_or_none(url, ("http", "https")) is None:
            yield option.upper(), f"{short(_hide_password(url))} is not an address of the form http://HOST:PORT"
    if values.get("sglang_url") and values.get("sglang_lifecycle") == "restart":
        yield (
            "SGLANG_LIFECYCLE",
            "'restart' cannot restart the running server at SGLANG_URL; empty one, or use 'resident'",
        )


def check_commands(values: Values) -> Findings:
    """Commands and their arguments can be split as a shell would, and leave to Whetstone what it adds itself."""
    for option in ("sglang_command", "sglang_args"):
        try:
            words = shlex.split(values.get(option, ""))
        except ValueError as error:
            yield option.upper(), f"cannot be split as a shell would: {error}"
            continue
        names = [word.partition("=")[0] for word in words]
        if taken := next((name for name in names if name in _OUR_ARGUMENTS), None):
            yield option.upper(), f"{taken} {_OUR_ARGUMENTS[taken]}"


def check_secrets(values: Values) -> Findings:
    """Where a secret is wanted, its name stands and not the secret."""
    for option in ("sglang_api_key_env", "openai_api_key_env"):
        name = values.get(option, "NAME")
        if not (name.isascii() and name.isidentifier()):
            yield (
                option.upper(),
                "is not the name of an environment variable (put the key into the environment, its name here)",
            )
    for option, instead in (
        ("redis_url", "WHETSTONE_REDIS_PASSWORD"),
        ("sglang_url", "the variable that SGLANG_API_KEY_ENV names"),
        ("openai_base_url", "the variable that OPENAI_API_KEY_ENV names"),
    ):
        if password_in(values.get(option, "")):
            yield option.upper(), f"holds a password, and a settings file is read by many; put it into {instead}"


def check_models(values: Values) -> Findings:
    """A model that is plainly a folder is there."""
    for option in ("target_model", "embedder_model"):
        model = values.get(option, "")
        if model.startswith(("/", "./", "../")) and not Path(model).is_dir():
            yield option.upper(), f"{short(model)} is not a folder"


def check_limits(values: Values) -> Findings:
    """A single call fits the tokens a minute, or it would wait for ever."""
    limit = values.get("openai_tokens_per_minute")
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        longest = values.get(option)
        if limit is not None and longest is not None and longest > limit:
            yield (
                "OPENAI_TOKENS_PER_MINUTE",
                f"{limit} is less than {option.upper()} ({longest}): no call could ever be made",
            )
            return


def check_faults(values: Values) -> Findings:
    """The embedded endpoint understands the faults that it is told to make."""
    faults = values.get("embedded_faults", "")
    if not faults:
        return  # the rules take 50 ms to import
    try:
        parse_faults(faults, all_rules())
    except ValueError as error:
        yield "EMBEDDED_FAULTS", str(error)


def check_questions(values: Values) -> Findings:
    """The pool and the validation set lie in the data set and have nothing in common."""
    path = values.get("financebench_path")
    count = None if path is None else _count_lines(path)
    sound = {}
    for option in ("financebench_pool_indices", "validation_indices"):
        if option not in values:
            continue
        try:
            sound[option] = parse_indices(values[option])
            if count is not None:
                select_indices(values[option], count)
        except ValueError as error:
            yield option.upper(), str(error)
    if count == 0:
        yield "FINANCEBENCH_PATH", f"{short(str(path))} holds no question"
    if len(sound) == 2 and (common := overlap(*sound.values())):
        yield "VALIDATION_INDICES", f"has question {common[0]} in common with FINANCEBENCH_POOL_INDICES"


def check_deltas(values: Values) -> Findings:
    """The initial deltas are one finite number for each cluster."""
    if "initial_deltas_path" not in values or "kmeans_clusters" not in values:
        return
    try:
        read_deltas(values["initial_deltas_path"], values["kmeans_clusters"])
    except ValueError as error:
        yield "INITIAL_DELTAS_PATH", str(error)


def check_discovered(values: Values) -> Findings:
    """The discovered tokens can be read, and there are enough of them for the clusters."""
    path, clusters = values.get("clusters_from"), values.get("kmeans_clusters")
    if path is None:
        return
    try:
        discovered = read_discovered_tokens(path)
    except ValueError as error:
        yield "CLUSTERS_FROM", str(error)
        return
    if clusters is not None and clusters > len(discovered):
        yield (
            "KMEANS_CLUSTERS",
            f"{clusters} is more than the {len(discovered)} discovered tokens of CLUSTERS_FROM; "
            "ask for fewer clusters, or collect with a larger phase0.k",
        )


CHECKS = (
    check_selection,
    check_template,
    check_addresses,
    check_commands,
    check_secrets,
    check_models,
    check_limits,
    check_faults,
    check_questions,
    check_deltas,
    check_discovered,
)


def urlsplit_or_none(url: str, schemes: tuple[str, ...]) -> object | None:
    """The parts of `url`, or None when it has another scheme, no place to go, or cannot be split."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return (
        parts if parts.scheme in schemes and (parts.hostname or (parts.path and "http" not in parts.scheme)) else None
    )


def _hide_password(url: str) -> str:
    before, at, host = url.rpartition("@")
    return before.partition("://")[0] + "://***@" + host if at else url


def _count_lines(path: Path) -> int | None:
    try:
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    except OSError:
        return None
