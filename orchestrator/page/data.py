"""What the page shows of a run, whatever its kind."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.collect.report import CollectedPair
from orchestrator.digest import digest_of
from orchestrator.page.evolution import answer_set, evolution_data
from orchestrator.page.formats import cell, number, plural, visible
from orchestrator.report.statistics import JudgedAnswer
from orchestrator.results import COLLECT, EVOLVE, RunResults
from orchestrator.settings.kconfig import default_values
from tasks.common.logs import redacted

HIDDEN = "***"
_KEY = re.compile(r"(--(?:api|admin)-key[ =])\S+")


def run_data(results: RunResults) -> dict[str, Any]:
    """All of one run; `charts` is for the script."""
    own = {EVOLVE: evolution_data, COLLECT: _collection_data}
    digest = digest_of(results)
    return {
        "digest": digest,
        "spent": [(name.replace("_", " "), cell(value)) for name, value in digest.items() if value is not None],
        "failures": results.status.failures,
        "facts": _facts(results),
        # The arguments as one text, since a key may be an argument of its own.
        "servers": [
            {name: public(" ".join(map(str, v)) if isinstance(v, list) else str(v)) for name, v in server.items()}
            for server in results.servers
        ],
        "settings": settings_table(results),
        "tables": results.tables,
        "figures": results.figures,
        "charts": {},
        **(own[results.kind](results) if results.kind in own else {}),
    }


def _collection_data(results: RunResults) -> dict[str, Any]:
    """The tokens that a model wastes, and the answers that show it."""
    found = results.collection
    if found is None:
        return {}
    wasted = [
        (visible(one.text), *(number(100 * share, 3) for share in (one.verbose, one.compressed, one.delta)))
        for one in found.tokens
    ]
    tags = ("retained", "discarded")
    answers = answer_set("pairs", tags, map(_pair, found.pairs), lambda _, after: [tags[not after.is_right]])
    return {"wasted": wasted, "answers": [answers]}


def _pair(one: CollectedPair) -> tuple[JudgedAnswer, JudgedAnswer]:
    """Only the compressed answer has been judged."""
    before, after = one.verbose_tokens or 0, one.compressed_tokens or 0
    return (
        JudgedAnswer(one.example, before, True, one.verbose, one.question, one.gold, ""),
        JudgedAnswer(one.example, after, one.is_retained, one.compressed, one.question, one.gold, one.reasoning),
    )


def _facts(results: RunResults) -> list[tuple[str, str]]:
    """What it takes to repeat the run, beside its settings and servers."""
    found = [(f"{name} set", plural(len(ids), "question")) for name, ids in results.questions.items()]
    if results.fork is not None:
        found.append(("forked from", f"{results.fork['run']} at {results.fork['at']}"))
    for change in results.settings_changes:
        texts = (f"{name} {public(old)} → {public(new)}" for name, (old, new) in change.options.items())
        found.append((f"from generation {change.generation} on", ", ".join(texts)))
    for one in results.versions:
        packages = ", ".join(" ".join(package) for package in one.packages.items())
        found += [("code", one.code), ("Python", f"{one.python} on {one.system}"), ("packages", packages)]
    return found


def settings_table(results: RunResults) -> list[tuple[str, str, bool]]:
    """(name, value, whether it differs from the default) of each setting; only an evolution has defaults."""
    defaults = default_values() if results.kind == EVOLVE else {}
    return [(name, public(value), value != defaults.get(name)) for name, value in results.settings.items()]


def public(value: str) -> str:
    """A setting without the passwords and keys that it may hold: a page is made to be sent."""
    return _KEY.sub(rf"\1{HIDDEN}", redacted(value))
