r"""A `.config`: read with Kconfig's types, ranges and defaults, checked, and written.

A string has two spellings beside what the program uses:

- typed: what a person types into menuconfig or after `--set NAME=`; a newline is ``\n``, a backslash ``\\``.
- quoted: what is in the file, as Kconfig's own tools write it: the typed text in double quotes, with a backslash before
  each quote and backslash.  A newline is ``\\n`` there; a single ``\n`` is refused, because these tools would read it
  as ``n``.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args, get_type_hints

import kconfiglib
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from orchestrator.settings import SettingsError
from orchestrator.settings.documents import read_text
from orchestrator.settings.inputs import (
    FORK,
    FORK_FILE,
    cluster_layout,
    overlap,
    parse_selection,
    pinned_positions,
    population_problem,
    read_discovered_tokens,
    read_population,
    read_sides,
)
from orchestrator.settings.options import EMBEDDED, Settings, options
from tasks.common.files import write_atomic
from tasks.common.text import quote
from tasks.common.validation import OPTION_CHARACTERS, fault_of
from tasks.judging.graders import THREE_STAGES
from tasks.plan import EXAMPLE_SETS

PREFIX = "CONFIG_"
SPECIFIED = {"FINANCEBENCH_POOL_INDICES": "TRAINING"}
"""The specification's names of options that have another name here; accepted in files and overrides."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_TYPED = str.maketrans({meant: f"\\{letter}" for letter, meant in _ESCAPES.items()})
_QUOTED = re.compile(r'"((?:[^\\"]|\\["\\])*)"')
_ASSIGNED = re.compile(PREFIX + r"(\w+)=(.*)")
_NOT_SET = re.compile("# " + PREFIX + r"(\w+) is not set")

Assignments = dict[str, str]  # the typed text of options, by name without CONFIG_
Problems = dict[str, str]  # what is wrong, by option or line
Findings = Iterator[tuple[str, str]]


def load_settings(
    config: Path | None, overrides: Mapping[str, str] | Sequence[str] = (), only: tuple[str, ...] = ("",)
) -> Settings:
    """The settings in the file `config`, if any, with the values of `overrides` in place of those in the file.

    An override is NAME=VALUE or CONFIG_NAME=VALUE; the value is what a person types into menuconfig.  An option that
    is in neither has Kconfig's default.  Relative paths start at the working directory.  `only`: the beginnings of the
    names that are wanted; other options are neither checked nor there.

    Raises: SettingsError with all problems.  Nothing is started and nothing is written.
    """
    hint = "; `orchestrator init` or `make menuconfig` writes one, and configs/evolve.config is for a small model, free"
    assigned, problems = read_assignments("" if config is None else read_text(config, hint))
    overridden, wrong = _read_overrides(overrides)
    for name in overridden:
        problems.pop(PREFIX + name, None)
    problems |= wrong
    typed = default_values() | assigned | overridden
    for name in [name for name in typed if not name.startswith(only)]:
        del typed[name]
        problems.pop(PREFIX + name, None)
    values, wrong = read_values({name: text for name, text in typed.items() if PREFIX + name not in problems})
    for name, reason in (wrong | _out_of_range(values)).items():
        problems[PREFIX + name] = "is not set" if typed[name] == default_values()[name] in ("", "-1") else reason
    for check in CHECKS:
        with suppress(KeyError):  # an option that it needs is wrong itself
            for name, problem in check(values):
                problems.setdefault(PREFIX + name, problem)
    if problems:
        raise SettingsError(_in_order(problems))
    return Settings(**values) if only == ("",) else cast(Settings, SimpleNamespace(**values))


def write_config(settings: Settings, path: Path) -> None:
    """Write every option; `load_settings(path)` gives equal settings again."""
    lines = ["# Settings of Whetstone, complete."]
    for name, kind in options().items():
        typed = typed_value(getattr(settings, name.lower()))
        written = typed if kind in (bool, int) else f'"{kconfiglib.escape(typed)}"'
        is_off = kind is bool and typed == "n"
        lines.append(f"# {PREFIX}{name} is not set" if is_off else f"{PREFIX}{name}={written}")
    write_atomic(path, "\n".join(lines) + "\n")


def typed_value(value: Any) -> str:
    """What a person would type into menuconfig for `value`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value).translate(_TYPED)


@functools.cache
def symbols() -> Mapping[str, Any]:
    """The symbol of each option, by name; Kconfig lies at a checkout's root, or in this folder of a wheel."""
    installed = Path(__file__).parent / "Kconfig"
    path = installed if installed.is_file() else Path(__file__).parents[2] / "Kconfig"
    return {symbol.name: symbol for symbol in kconfiglib.Kconfig(str(path), warn=False).unique_defined_syms}


def default_values() -> Assignments:
    """What each option is where nobody sets it; "" or -1 for one without a default."""
    return {name: symbol.defaults[0][0].str_value for name, symbol in symbols().items()}


def read_assignments(config: str) -> tuple[Assignments, Problems]:
    """The assignments of a `.config`.  One that is made twice is a problem, although Kconfig takes the last value."""
    found: Assignments = {}
    problems: Problems = {}
    other: list[tuple[int, str]] = []
    for number, line in enumerate(map(str.rstrip, config.split("\n")), start=1):
        match = _ASSIGNED.fullmatch(line) or _NOT_SET.fullmatch(line)
        if match is None:
            if line and not line.lstrip().startswith("#"):
                other.append((number, line))
            continue
        name = SPECIFIED.get(match[1], match[1])
        try:
            typed = _unquoted(name, match[2] if match.re is _ASSIGNED else None)
            if name in found:
                raise ValueError("is given twice")
            found[name] = typed
        except ValueError as error:
            problems[PREFIX + name] = str(error)
    no_config = "; this is no .config" if len(other) > 3 else ""
    named = {f"line {n}": f"{quote(line)} is not of the form {PREFIX}NAME=VALUE{no_config}" for n, line in other[:3]}
    return found, named | problems


def _read_overrides(overrides: Mapping[str, str] | Sequence[str]) -> tuple[Assignments, Problems]:
    pairs = overrides.items() if isinstance(overrides, Mapping) else [one.partition("=")[::2] for one in overrides]
    bare = () if isinstance(overrides, Mapping) else [one for one in overrides if "=" not in one]
    found: Assignments = {}
    problems: Problems = {}
    for given, value in pairs:
        name = given.strip().upper().removeprefix(PREFIX)
        name = SPECIFIED.get(name, name)
        if given in bare:
            problems[PREFIX + name] = "has no value; write NAME=VALUE"
        elif name not in symbols():
            problems[PREFIX + name] = _unknown(name)
        elif name in found:
            problems[PREFIX + name] = f"is set twice, to {quote(found[name])} and to {quote(value)}"
        else:
            found[name] = value
    return found, problems


def _unquoted(name: str, written: str | None) -> str:
    """The typed text of what is written in the file; None is "is not set"."""
    if name not in symbols():
        raise ValueError(_unknown(name))
    kind = symbols()[name].orig_type
    if written is None:
        if kind is not kconfiglib.BOOL:
            raise ValueError('cannot be "not set"; give it a value')
        return "n"
    if kind is not kconfiglib.STRING:
        if not written or '"' in written:
            raise ValueError(f"{quote(written)} is neither a whole number nor y or n")
        return written
    if (match := _QUOTED.fullmatch(written)) is None:
        escaped = ", with \\\\ for each backslash" if "\\" in written else ""
        raise ValueError(f'{quote(written)} must be in double quotes, as in {PREFIX}{name}="..."{escaped}')
    return str(kconfiglib.unescape(match[1]))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), symbols(), n=1)
    return "there is no such option" + (f"; did you mean {PREFIX}{near[0]}?" if near else "")


@functools.cache
def _adapter() -> TypeAdapter[Any]:
    """Of any of the fields, so that those that are sound have values beside those that are not."""
    hints = get_type_hints(Settings, include_extras=True)
    fields: Any = TypedDict("fields", hints, total=False)  # type: ignore[misc]  # a type checker wants a literal
    setattr(fields, "__pydantic_config__", ConfigDict(allow_inf_nan=False))  # noqa: B010  # where pydantic looks
    return TypeAdapter(fields)


def read_values(typed: Mapping[str, str]) -> tuple[dict[str, Any], Problems]:
    r"""The values of options whose texts a person has typed, by field; and what is wrong with others, by name.

    An unknown escape such as ``\d`` stays as it is.
    """
    given: dict[str, Any] = {}
    problems: Problems = {}
    for name, kind in options().items():
        if (text := typed.get(name)) is None:
            continue
        if len(text) > OPTION_CHARACTERS:
            problems[name] = f"is longer than {OPTION_CHARACTERS:,} characters"
        elif text.strip() or kind is str:
            given[name.lower()] = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), text)
        elif type(None) in get_args(kind):
            given[name.lower()] = None
        else:
            problems[name] = "is empty"
    try:
        return _adapter().validate_python(given), problems
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            field = str(detail["loc"][0])
            given.pop(field, None)
            problems.setdefault(field.upper(), fault_of(detail))
        return _adapter().validate_python(given), problems


def _out_of_range(values: Mapping[str, Any]) -> Problems:
    found = {}
    for name, symbol in symbols().items():
        for low, high, _ in symbol.ranges if name.lower() in values else ():
            if not int(low.str_value) <= values[name.lower()] <= int(high.str_value):
                found[name] = f"{values[name.lower()]} is out of range ({low.str_value} to {high.str_value})"
    return found


def _in_order(problems: Problems) -> list[str]:
    """One line for each problem: first those of no option, then the options as in Kconfig, then unknown options."""
    place = {PREFIX + name: number for number, name in enumerate(options())}

    def rank(name: str) -> int:
        return place.get(name, len(place) if name.startswith(PREFIX) else -1)

    return [f"{name}: {problems[name]}" for name in sorted(problems, key=rank)]


# Options that depend on each other, and the files that they name.  A check that needs a value which is wrong itself
# is left out.


def _check_elites(v: Mapping[str, Any]) -> Findings:
    if v["optimiser"] == "reflective" and v["elitism_size"] >= v["population_size"]:
        yield "ELITISM_SIZE", f"{v['elitism_size']} is not less than POPULATION_SIZE ({v['population_size']})"


def _check_selection(v: Mapping[str, Any]) -> Findings:
    option = {"tournament": "tournament_size", "truncation": "truncation_top_k"}[v["selection"]]
    if v["optimiser"] == "reflective" and not 2 <= v[option] <= v["population_size"]:
        unset = "is not set" if v[option] == -1 else f"is {v[option]}"
        yield option.upper(), f"{unset}, and SELECTION {v['selection']!r} needs 2 to {v['population_size']}"


def _check_variation(v: Mapping[str, Any]) -> Findings:
    if v["optimiser"] == "reflective" and v["mutpb"] == 0:
        yield "MUTPB", "is 0: every individual would be a copy of the first"


def _check_weights(v: Mapping[str, Any]) -> Findings:
    if v["lambda_shortness"] == v["lambda_correctness"] == 0:
        yield "LAMBDA_CORRECTNESS", "is 0, and so is LAMBDA_SHORTNESS: every fitness would be 0"


def _check_lifecycle(v: Mapping[str, Any]) -> Findings:
    if v["sglang_url"] and v["sglang_lifecycle"] == "restart":
        yield "SGLANG_LIFECYCLE", "'restart' cannot restart the running server at SGLANG_URL"


def _check_limits(v: Mapping[str, Any]) -> Findings:
    """Prompt and longest reply share the context of the model (0 is no limit) and the tokens per minute."""
    for option in ("reflector_max_completion_tokens", "judge_max_completion_tokens"):
        if option.startswith("judge") and v["judge"] != THREE_STAGES:
            continue
        for limit in ("openai_tokens_per_minute", "openai_context_tokens"):
            if 0 < v[limit] <= v[option]:
                yield limit.upper(), f"{v[limit]} is not more than {option.upper()} ({v[option]}): no prompt would fit"


def _check_prices(v: Mapping[str, Any]) -> Findings:
    by_rules = v["farm"] == EMBEDDED and not v["openai_base_url"]
    if v["budget_usd"] and not v["openai_prices"] and not by_rules:
        yield "BUDGET_USD", "needs OPENAI_PRICES: without prices the cost is unknown"


def _check_sets(v: Mapping[str, Any]) -> Findings:
    chosen = {which: parse_selection(v[which]) for which in EXAMPLE_SETS}
    for (one, some), (other, others) in itertools.combinations(chosen.items(), 2):
        if some.split == others.split and (common := overlap(some.ranges, others.ranges)):
            yield other.upper(), f"has row {common[0]} in common with {one.upper()}"


def _check_initial_deltas(v: Mapping[str, Any]) -> Findings:
    layout = cluster_layout(v["clusters_by"], v["clusters"])
    if v["initial_deltas_path"] == FORK and not (v["output_dir"] / FORK_FILE).is_file():
        yield "INITIAL_DELTAS_PATH", "`orchestrator evolve --fork` alone sets it to 'fork'"
        return
    try:
        vectors = read_population(v["initial_deltas_path"], layout)
        pinned = pinned_positions(layout, v["optimiser"])
        problem = population_problem(vectors, v["optimiser"], v["population_size"], pinned)
    except ValueError as error:
        problem = str(error)
    if problem:
        yield "INITIAL_DELTAS_PATH", problem


def _check_collected(v: Mapping[str, Any]) -> Findings:
    path = v["clusters_from"]
    try:
        if path is not None and v["clusters_by"] == "waste":
            read_sides(path)
        elif path is not None and v["clusters"] > len(tokens := read_discovered_tokens(path)):
            yield "CLUSTERS", f"{v['clusters']} is more than the {len(tokens)} discovered tokens of CLUSTERS_FROM"
    except ValueError as error:
        yield "CLUSTERS_FROM", str(error)


CHECKS = (
    _check_elites, _check_selection, _check_variation, _check_weights, _check_lifecycle, _check_limits, _check_prices,
    _check_sets, _check_initial_deltas, _check_collected,
)  # fmt: skip
