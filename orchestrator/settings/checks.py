"""Checks of the value of one option, and of options that depend on each other.

The check of a value returns its argument, or raises ValueError with a message that continues the option's name.
A cross-field check gets the values that are sound by themselves (some may be missing), and yields the names of options
and what is wrong with them.  Only `check_questions`, `check_initial_deltas`, `check_discovered` and `check_waste`
read files.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator

from orchestrator.settings.clusters import ClusterLayout, cluster_layout, pinned_positions
from orchestrator.settings.references import (
    ALL,
    BEST_PROMPT,
    overlap,
    parse_indices,
    read_deltas,
    read_discovered_tokens,
    read_sides,
    select_indices,
)
from tasks.dataset import DatasetError
from tasks.escape import quote
from tasks.judging.grader import THREE_STAGES
from tasks.plan import ExampleSet
from tasks.store.address import password_in
from tasks.tables import format_of
from tasks.template import missing_placeholders

Values = Mapping[str, Any]
Findings = Iterator[tuple[str, str]]

EXAMPLE_SETS: Sequence[str] = get_args(ExampleSet)
COLUMNS = ("question_column", "answer_column", "context_column", "id_column", "split_column")
_JUDGE = re.compile(r"[\w.]+:[\w.]+|[\w.-]+")
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


def judge_name(name: str) -> str:
    """One of the judges that have names, a function as module:function, or an entry point."""
    if not _JUDGE.fullmatch(name):
        raise ValueError(f"{quote(name)} is neither a judge's name nor of the form module:function")
    return name


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
    elif population is not None and size > population:
        yield needed.upper(), f"{size} is more than POPULATION_SIZE ({population})"


def check_optimiser(values: Values) -> Findings:
    """The population suits the optimiser, options of "reflective" are set for it alone, and a cluster is searched."""
    optimiser, population = values.get("optimiser"), values.get("population_size")
    if optimiser == "nsga2" and population is not None and population % 4:
        yield "POPULATION_SIZE", f"{population} is not a multiple of 4, and OPTIMISER 'nsga2' pairs parents by fours"
    proposals = values.get("hybrid_proposals")
    if optimiser == "hybrid" and population is not None and proposals is not None and 2 * proposals > population:
        yield "HYBRID_PROPOSALS", f"{proposals} is more than half of POPULATION_SIZE ({population})"
    if optimiser not in (None, "reflective"):
        for option in ("initial_spread", "vary_proposals"):
            if values.get(option):
                yield option.upper(), f"is an option of OPTIMISER 'reflective', which is {optimiser!r}"
    layout = _layout(values)
    if "pinned_clusters" in values and optimiser is not None and layout is not None:
        try:
            pinned = pinned_positions(values["pinned_clusters"], layout, optimiser)
        except ValueError as error:
            yield "PINNED_CLUSTERS", str(error)
            return
        if len(pinned) == layout.count:
            also = "" if layout.rest is None else f" but {layout.rest}, which is pinned anyway"
            yield "PINNED_CLUSTERS", f"names all {layout.count} clusters{also}, so that nothing is left to search"


def check_limits(values: Values) -> Findings:
    """Each single call is within the tokens per minute; otherwise it would wait forever."""
    limit = values.get("openai_tokens_per_minute")
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        longest = None if option.startswith("judge") and values.get("judge") != THREE_STAGES else values.get(option)
        if limit is not None and longest is not None and longest > limit:
            yield (
                "OPENAI_TOKENS_PER_MINUTE",
                f"{limit} is less than {option.upper()} ({longest}): no such call could be made",
            )
            return


def check_columns(values: Values) -> Findings:
    """No two of the five columns have one name."""
    first: dict[str, str] = {}
    for option in COLUMNS:
        if (name := values.get(option)) and first.setdefault(name, option) != option:
            yield option.upper(), f"is {quote(name)}, and so is {first[name].upper()}"


def check_context(values: Values) -> Findings:
    """The reflector's prompt and its longest reply share the context of the model; 0 is no limit."""
    context, longest = values.get("reflector_context_tokens"), values.get("reflector_max_completion_tokens")
    if context and longest is not None and context <= longest:
        yield (
            "REFLECTOR_CONTEXT_TOKENS",
            f"{context} leaves no room for a prompt: it must be more than REFLECTOR_MAX_COMPLETION_TOKENS ({longest})",
        )


def check_questions(values: Values) -> Findings:
    """The indices are those of rows, and no two sets have a row in common.

    Rows are counted here in files of one row a line only, and splits are not read: `choose_examples` checks the rest.
    """
    file_format, count = None, None
    if "data_path" in values and "data_format" in values:
        try:
            file_format, count = _look_at(values["data_path"], values["data_format"])
        except DatasetError as error:
            yield "DATA_PATH", str(error)
    sound: dict[str, tuple[str, Sequence[range]]] = {}
    for which in EXAMPLE_SETS:
        indices, split = values.get(f"{which}_indices"), values.get(f"{which}_split")
        if indices is None or split is None:
            continue
        split = "" if file_format == "financebench" else split
        try:
            if count is not None and not split:
                select_indices(indices, count)
            sound[which] = split, parse_indices(indices) or (ALL if split else ())
        except ValueError as error:
            yield f"{which.upper()}_INDICES", str(error)
    if count == 0:
        yield "DATA_PATH", f"{quote(str(values['data_path']))} has no questions"
    for (one, (split, some)), (other, (other_split, others)) in itertools.combinations(sound.items(), 2):
        if split == other_split and (common := overlap(some, others)):
            yield f"{other.upper()}_INDICES", f"has question {common[0]} in common with {one.upper()}_INDICES"


def _look_at(path: Path, named: str) -> tuple[str, int | None]:
    """The format of the questions, and how many there are where each has a line.  Raises: DatasetError."""
    file_format = format_of(path) if named == "auto" else named
    return file_format, _count_lines(path) if file_format in ("financebench", "jsonl") else None


def check_initial_deltas(values: Values) -> Findings:
    """The initial deltas are one finite number for each cluster."""
    layout = _layout(values)
    if "initial_deltas_path" not in values or layout is None:
        return
    try:
        read_deltas(values["initial_deltas_path"], layout)
    except ValueError as error:
        yield "INITIAL_DELTAS_PATH", str(error)


def check_discovered(values: Values) -> Findings:
    """The discovered tokens can be read, and there are enough of them for the clusters."""
    path, clusters = values.get("clusters_from"), values.get("kmeans_clusters")
    if path is None:
        return
    if values.get("clusters_by") == "waste":
        yield "CLUSTERS_FROM", "is of CLUSTERS_BY 'meaning', which is 'waste'; name the file in CLUSTERS_WASTE_FROM"
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


def check_waste(values: Values) -> Findings:
    """The pairs of answers can be read."""
    path, by = values.get("clusters_waste_from"), values.get("clusters_by")
    if path is None or by is None:
        return
    if by != "waste":
        yield "CLUSTERS_WASTE_FROM", f"is of CLUSTERS_BY 'waste', which is {by!r}"
        return
    try:
        read_sides(path)
    except ValueError as error:
        yield "CLUSTERS_WASTE_FROM", str(error)


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


def check_start(values: Values) -> Findings:
    """The best prompt can be chosen only among prompts."""
    if values.get("target_system_prompt") == BEST_PROMPT and "prompts_path" in values and not values["prompts_path"]:
        yield "PROMPTS_PATH", f"is empty, and TARGET_SYSTEM_PROMPT {BEST_PROMPT!r} chooses among its prompts"


def check_base_url(values: Values) -> Findings:
    """An address that would not be used is an error."""
    if _by_rules(values) and values.get("openai_base_url"):
        yield "OPENAI_BASE_URL", "is not used when EMBEDDED_ENDPOINT is 'rules'; set 'openai', or leave this empty"


def check_samples(values: Values) -> Findings:
    """Greedy answers to one question are all alike."""
    if values.get("samples", 1) > 1 and values.get("target_temperature") == 0:
        yield "SAMPLES", f"{values['samples']} answers to a question need a TARGET_TEMPERATURE above 0"


def check_lifecycle(values: Values) -> Findings:
    """A running server that Whetstone did not start is never restarted."""
    if values.get("sglang_url") and values.get("sglang_lifecycle") == "restart":
        yield (
            "SGLANG_LIFECYCLE",
            "'restart' cannot restart the running server at SGLANG_URL; leave SGLANG_URL empty, or use 'resident'",
        )


CROSS_CHECKS = (
    check_selection,
    check_optimiser,
    check_weights,
    check_lifecycle,
    check_samples,
    check_limits,
    check_context,
    check_prices,
    check_base_url,
    check_start,
    check_columns,
    check_questions,
    check_initial_deltas,
    check_discovered,
    check_waste,
)


def _layout(values: Values) -> ClusterLayout | None:
    """The clusters; None where an option that decides them is not sound."""
    try:
        return cluster_layout(values["clusters_by"], values["kmeans_clusters"], values["waste_buckets"])
    except KeyError:
        return None


def _by_rules(values: Values) -> bool:
    return (values.get("farm"), values.get("embedded_endpoint")) == ("embedded", "rules")


def _count_lines(path: Path) -> int | None:
    try:
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    except OSError:
        return None
