"""Checks of the value of one option, and of options that depend on each other.

The check of a value returns its argument, or raises ValueError with a message that continues the option's name.
A cross-field check gets the values that are sound by themselves (some may be missing), and yields the names of options
and what is wrong with them.  Only `check_questions`, `check_deltas` and `check_discovered` read files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import AfterValidator

from orchestrator.settings.references import overlap, parse_indices, read_deltas, read_discovered_tokens, select_indices
from tasks.escape import quote
from tasks.store.address import password_in
from tasks.template import missing_placeholders

Values = Mapping[str, Any]
Findings = Iterator[tuple[str, str]]

OWN_ARGUMENTS = {
    "--model-path": "is TARGET_MODEL",
    "--host": "is set by Whetstone: a server that a worker starts listens on 127.0.0.1",
    "--port": "is set by Whetstone: a server that a worker starts takes a free port",
    "--api-key": "is set by Whetstone: a server that a worker starts gets a key of its own",
    "--config": "is set by Whetstone: write the contents of the file as arguments",
    "--speculative-algorithm": "samples without the deltas",
}


def placeholders(*names: str) -> AfterValidator:
    """A template that has `{name}` for each of `names`."""

    def check(template: str) -> str:
        if missing := missing_placeholders(template, names):
            raise ValueError(f"lacks the placeholder {' and '.join(missing)}")
        return template

    return AfterValidator(check)


def http_address(url: str) -> str:
    if not _has_form(url, ("http", "https")):
        raise ValueError(f"{quote(_hide_password(url))} is not an address of the form http://HOST:PORT")
    return url


def redis_address(url: str) -> str:
    if not _has_form(url, ("redis", "rediss", "unix")):
        raise ValueError(f"{quote(_hide_password(url))} is not an address of the form redis://HOST:PORT/DATABASE")
    return url


def optional(check: Callable[[str], str]) -> AfterValidator:
    """`check`, for texts that are not empty."""
    return AfterValidator(lambda text: check(text) if text else text)


def no_password(instead: str) -> AfterValidator:
    """An address without a password; `instead` is where the password belongs."""

    def check(url: str) -> str:
        if password_in(url):
            raise ValueError(f"contains a password, and settings are stored with the run; put it into {instead}")
        return url

    return AfterValidator(check)


def variable_name(name: str) -> str:
    """The name of an environment variable; the error does not repeat what may be a secret."""
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(
            "is not the name of an environment variable; the key belongs into the environment, and its name here"
        )
    return name


def model_name(model: str) -> str:
    """A model's id, or a folder that exists when the text is plainly a path."""
    if model.startswith(("/", "./", "../")) and not Path(model).is_dir():
        raise ValueError(f"{quote(model)} is not a folder")
    return model


def server_arguments(text: str) -> str:
    """A command or arguments for SGLang: can be split as a shell would, without arguments that Whetstone adds."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ValueError(f"cannot be split as a shell would: {error}") from None
    for word in words:
        if (name := word.partition("=")[0]) in OWN_ARGUMENTS:
            raise ValueError(f"{name} {OWN_ARGUMENTS[name]}")
    return text


def faults(text: str) -> str:
    """Faults that the embedded endpoint can make."""
    # Here, since the endpoint's rules take 50 ms to import.
    from workers.embedded.endpoint.faults import parse_faults
    from workers.embedded.endpoint.rules import all_rules

    parse_faults(text, all_rules())
    return text


def _has_form(url: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname or (parts.path and "http" not in parts.scheme))


def _hide_password(url: str) -> str:
    before, at, host = url.rpartition("@")
    return before.partition("://")[0] + "://***@" + host if at else url


def check_selection(values: Values) -> Findings:
    """Elites leave room for children, and the chosen selection has its parameter."""
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


def check_limits(values: Values) -> Findings:
    """Each single call is within the tokens per minute; otherwise it would wait forever."""
    limit = values.get("openai_tokens_per_minute")
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        longest = values.get(option)
        if limit is not None and longest is not None and longest > limit:
            yield (
                "OPENAI_TOKENS_PER_MINUTE",
                f"{limit} is less than {option.upper()} ({longest}): no such call could be made",
            )
            return


def check_context(values: Values) -> Findings:
    """The reflector's prompt and its longest reply share the context of the model; 0 is no limit."""
    context, longest = values.get("reflector_context_tokens"), values.get("reflector_max_completion_tokens")
    if context and longest is not None and context <= longest:
        yield (
            "REFLECTOR_CONTEXT_TOKENS",
            f"{context} leaves no room for a prompt: it must be more than REFLECTOR_MAX_COMPLETION_TOKENS ({longest})",
        )


def check_questions(values: Values) -> Findings:
    """The pool and the validation set are in the data set and have no question in common."""
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
        yield "FINANCEBENCH_PATH", f"{quote(str(path))} has no questions"
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


def check_weights(values: Values) -> Findings:
    """With both weights 0 every fitness is 0, and selection is random."""
    if values.get("lambda_shortness") == 0 and values.get("lambda_correctness") == 0:
        yield "LAMBDA_CORRECTNESS", "is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0"


def check_prices(values: Values) -> Findings:
    """A budget can be kept only when the prices are known."""
    prices = ("openai_price_prompt", "openai_price_cached", "openai_price_completion")
    unknown = [name.upper() for name in prices if values.get(name, 0) is None]
    if values.get("budget_usd") and unknown and not _by_rules(values):
        yield "BUDGET_USD", f"needs {', '.join(unknown)}: without a price the cost is unknown"


def check_endpoint(values: Values) -> Findings:
    """An address that would not be used is an error."""
    if _by_rules(values) and values.get("openai_base_url"):
        yield "OPENAI_BASE_URL", "is not used when EMBEDDED_ENDPOINT is 'rules'; set 'openai', or leave this empty"


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
    check_lifecycle,
    check_limits,
    check_context,
    check_prices,
    check_endpoint,
    check_questions,
    check_deltas,
    check_discovered,
)


def _by_rules(values: Values) -> bool:
    return (values.get("farm"), values.get("embedded_endpoint")) == ("embedded", "rules")


def _count_lines(path: Path) -> int | None:
    try:
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    except OSError:
        return None
