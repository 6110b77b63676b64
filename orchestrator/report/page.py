"""The page that shows runs: one HTML file with its data, style and scripts in it.

A page needs no network and may load nothing: its content security policy allows the one style and the one script that
are in it, by their hashes.  The templates of `static` escape all texts of a run; the data of the charts are JSON that
no browser executes.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, Template

from orchestrator.collect.report import CollectedExample, CollectedPair, token_counts
from orchestrator.digest import digest_of, direct_comparison
from orchestrator.evolve.choice import front
from orchestrator.evolve.records import Individual
from orchestrator.export import engines_for
from orchestrator.report.format import format_duration, format_money, format_points
from orchestrator.report.model import ReportedSystem, reported_systems
from orchestrator.report.statistics import Point
from orchestrator.results import COLLECT, EVOLVE, RunResults
from orchestrator.settings.kconfig import default_values
from tasks.common.logs import redacted
from tasks.records import JudgedAnswer

STYLES, SCRIPTS = ("page.css",), ("chart.js", "systems.js", "lineage.js", "page.js")
POLICY = "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'"
SETS = ("validation", "test", "ordering", "training")
PROMPT_CHARACTERS = 8_000_000
"""Of the reflector's prompts; a page names the files of more."""
DESCENT = ("parent", "mutation", "next")
INDIVIDUAL = ("generation", "stage", "fitness", "mean_tokens", "correctness", "arm", "target", "scratchpad")
TAGS = ("changed", "lost", "gained", "cut after", "wrong after")
MINUS = "−"
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
_KEY = re.compile(r"(--(?:api|admin)-key[ =])\S+")

Pair = tuple[JudgedAnswer, JudgedAnswer]


def render_page(runs: Sequence[RunResults], made: datetime.datetime) -> str:
    """The whole page of one or several runs."""
    found = [run_data(run) for run in runs]
    digests = [run["digest"] for run in found]
    figures = [(name.replace("_", " "), *(one[name] for one in digests)) for name in digests[0]]
    style, script = _source(STYLES), _source(SCRIPTS)
    return _template().render(
        runs=found,
        names={place: one["run"] for place, one in enumerate(digests)},
        side_by_side=[row for row in figures if any(value not in (None, "") for value in row[1:])],
        direct=direct_comparison(runs),
        made=made,
        style=style,
        script=script,
        policy=POLICY.format(_hash(style), _hash(script)),
    )


def _template() -> Template:
    environment = Environment(loader=PackageLoader("orchestrator.report", "static"), autoescape=True, trim_blocks=True)
    environment.filters |= {one.__name__: one for one in (number, points, plural, arrows, cell, align, visible)}
    environment.filters |= {"money": format_money, "duration": format_duration, "share_in_points": format_points}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template("page.html")


def _source(names: Sequence[str]) -> str:
    """Files of the project as they are: no text of a run is in them."""
    folder = resources.files(__package__) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def run_data(results: RunResults) -> dict[str, Any]:
    """What the page shows of one run; `charts` is for the script."""
    own = {EVOLVE: _evolution, COLLECT: _collection}
    digest = digest_of(results)
    defaults = default_values() if results.kind == EVOLVE else {}  # only an evolution has defaults
    return {
        "digest": digest,
        "spent": [(name.replace("_", " "), cell(value)) for name, value in digest.items() if value is not None],
        "failures": results.status.failures,
        "facts": list(_facts(results)),
        # The arguments as one text, since a key may be an argument of its own.
        "servers": [
            {name: public(" ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in server.items()}
            for server in results.servers
        ],
        # (name, value, whether it differs from the default)
        "settings": [(name, public(value), value != defaults.get(name)) for name, value in results.settings.items()],
        "tables": results.tables,
        "figures": results.figures,
        "charts": {},
        **(own[results.kind](results) if results.kind in own else {}),
    }


def _facts(results: RunResults) -> Iterator[tuple[str, str]]:
    """What it takes to repeat the run, beside its settings and servers."""
    for name, ids in results.question_hashes.items():
        yield f"{name} set", plural(len(ids), "question")
    if results.fork is not None:
        yield "forked from", f"{results.fork['run']} at {results.fork['at']}"
    for change in results.settings_changes:
        texts = (f"{name} {public(old)} → {public(new)}" for name, (old, new) in change.options.items())
        yield f"from generation {change.generation} on", ", ".join(texts)
    for one in results.versions:
        packages = ", ".join(" ".join(package) for package in one.packages.items())
        yield from (("code", one.code), ("Python", f"{one.python} on {one.system}"), ("packages", packages))


def public(value: str) -> str:
    """A setting without the passwords and keys that it may hold: a page is made to be sent."""
    return _KEY.sub(r"\1***", redacted(value))


def _collection(results: RunResults) -> dict[str, Any]:
    """The tokens that a model wastes, and the answers that show it."""
    found = results.collection
    if found is None:
        return {}
    selection, tags = found["token_selection"], ("retained", "discarded")
    wasted = []
    for token in selection["v_steer"]:
        shares = (*(selection[side][str(token["token_id"])] for side in ("freq_raw", "freq_comp")), token["delta"])
        wasted.append((visible(token["token_str"]), *(number(100 * share, 3) for share in shares)))
    train = found["splits"]["train"]
    pairs = (_pair(one, pair) for one in train for pair in (*one["retained_pairs"], *one["discarded_pairs"]))
    answers = _answers("pairs", tags, pairs, lambda _, after: [tags[not after.is_right]])
    return {"wasted": wasted, "answers": [answers]}


def _pair(one: CollectedExample, pair: CollectedPair) -> Pair:
    """Only the compressed answer has been judged."""
    about, verdict = (one["query"], one["gold_answer"]), pair["correctness"]
    before, after = token_counts(pair)
    return (
        JudgedAnswer(one["example_id"], before, True, pair["verbose_answer"], *about, ""),
        JudgedAnswer(
            one["example_id"], after, verdict["is_correct"], pair["compressed_answer"], *about, verdict["reasoning"]
        ),
    )


def _evolution(results: RunResults) -> dict[str, Any]:
    """The systems of an evolution, its search with the descent of individuals, and its answers."""
    report, systems, generations = results.report, _systems(results), results.generations
    return {
        "report": report,
        "systems": systems,
        "plain": next((one for one in systems if one["kind"] == "plain"), None),
        "sets": {
            which: f"{which}, {plural(max(counts), 'question')}"
            for which in SETS
            if (counts := [one[which]["n"] for one in systems if one[which]])
        },
        "answered": generations[-1].get("answered", {}) if generations else {},
        "answers": [_answers(one.name, TAGS, one.pairs(), _tags) for one in reversed(results.comparisons)],
        "charts": {
            "systems": systems,
            "clusters": {
                arm.clustering: [asdict(one) | {"examples": [*map(visible, one.examples)]} for one in arm.clusters]
                for arm in results.arms
            },
            "columns": ("name", *INDIVIDUAL, "note", "deltas"),
            "individuals": [_individual(one) for one in results.individuals],
            "descent": _descent(results),
            "calls": _calls(results),
            "winner": report.winner if report else "",
        },
    }


def _systems(results: RunResults) -> list[dict[str, Any]]:
    """All measured systems, the winner and the plain model first; of a run at work, as far as they are measured."""
    report, whole = results.report, results.values["whole"]
    measured = report.systems if report else reported_systems(results.book, results.values["seed"], whole=whole)
    systems = list[dict[str, Any]]()
    for one in measured:
        if any(getattr(one, which) for which in SETS):
            engines = engines_for(one.kind, one.deltas)
            command = ["orchestrator", "export", str(results.folder), "--system", one.name, "--to", *engines[:1]]
            systems.append(
                asdict(one)
                | {"engines": ", ".join(engines), "command": shlex.join(command) if engines else "", "best_on": []}
                | {"ends": _ends_of(one, whole), "is_winner": bool(report and report.winner == one.name)}
                | {"passed": bool(report and one.passed)}
            )
    for which in SETS:
        asked = [one for one in systems if one[which]]
        for place in front([Point(f["mean_tokens"], f["correct"] / f["n"]) for f in (one[which] for one in asked)]):
            asked[place]["best_on"].append(which)
    return sorted(systems, key=lambda one: (not one["is_winner"], one["kind"] != "plain"))


def _ends_of(system: ReportedSystem, is_whole: bool) -> str:
    """How the answers of a system end, in words."""
    if system.kind == "cut":
        return f"cut at {system.max_tokens} tokens" if system.max_tokens else "after their first sentence"
    raised = system.deltas[0] if system.deltas else 0.0
    where = " after a sentence" if is_whole else ""
    return f"by themselves; {number(raised, 2)} is added to the end of a turn{where}" if raised else "by themselves"


def _individual(one: Individual) -> list[Any]:
    notes = ("kept as elite" if one.is_elite else "", one.skip_reason, one.merge_fallback)
    shown = (getattr(one, name) for name in INDIVIDUAL)
    return [one.node, *shown, "; ".join(filter(None, notes)), [*one.deltas.values()]]


def _calls(results: RunResults) -> list[tuple[str, ...]]:
    """(candidate, for example "g3_child1", title, who answered, reply, prompt) of each call."""
    found = results.reflector_calls
    is_large = sum(len(one.user) for one in found) > PROMPT_CHARACTERS
    prompts = [f"reflector_prompts/{one.file}" if is_large else one.user for one in found]
    return [(one.candidate, one.title, one.provider, one.reply, text) for one, text in zip(found, prompts, strict=True)]


def _descent(results: RunResults) -> list[tuple[int, int, int]]:
    """(place of the ancestor, place of the descendant, place of the kind in DESCENT) of each edge."""
    places = {one.node: place for place, one in enumerate(results.individuals)}
    return [(places[edge["from"]], places[edge["to"]], DESCENT.index(edge["kind"])) for edge in results.descent]


def _answers(
    name: str, tags: Sequence[str], pairs: Iterable[Pair], tags_of: Callable[[JudgedAnswer, JudgedAnswer], list[str]]
) -> dict[str, Any]:
    """The two answers to each question, side by side with their tags; counts: how many have a tag, "" are all."""
    rows = [(before, after, tags_of(before, after)) for before, after in pairs]
    counts = {tag: f"{tag} {sum(tag in has for _, _, has in rows)}" for tag in tags}
    return {"name": name, "counts": {"": f"all {len(rows)}", **counts}, "rows": rows}


def _tags(before: JudgedAnswer, after: JudgedAnswer) -> list[str]:
    lost, gained = before.is_correct and not after.is_correct, after.is_correct and not before.is_correct
    holds = (before.text != after.text, lost, gained, not after.is_whole, not after.is_right)
    return [tag for tag, is_so in zip(TAGS, holds, strict=True) if is_so]


# The filters of the templates


def number(value: float, digits: int = 0) -> str:
    return f"{value:z,.{digits}f}".replace("-", MINUS)


def points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * share:+z.1f}".replace("-", MINUS)


def plural(count: float, one: str) -> str:
    return f"{number(count)} {one if count == 1 else one + 's'}"


def arrows(sentence: str) -> str:
    """A sentence of report.txt, which is written for terminals."""
    return re.sub(r"(^|[\s(])-(?=\d)", rf"\1{MINUS}", sentence.replace(" -> ", "\u00a0→\u00a0"))


def cell(value: Any) -> str:
    """A figure of any kind, in a table."""
    if isinstance(value, tuple):
        return " to ".join(map(cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}".replace("-", MINUS)
    return "–" if value is None else number(value) if isinstance(value, int) else str(value)


def align(value: Any) -> str:
    """The class of a cell: figures stand at the right."""
    return "num" if not isinstance(value, str) or re.fullmatch(r"[-+−]?[\d.,]+ ?%?", value) else ""


def visible(token: str) -> str:
    """A token with signs for the spaces, line ends and other characters in it that are not seen."""
    return _UNSEEN.sub(lambda found: _SIGNS.get(found[0], f"U+{ord(found[0]):04X}"), token)
