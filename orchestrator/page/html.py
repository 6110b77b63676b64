"""The page itself: the files of `static`, put together with the data of runs.

A page needs no network and may load nothing: its content security policy allows the one style and the one script that
are in it, by their hashes.  The data are JSON that no browser executes, and the script shows all of them as text.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from orchestrator.digest import digest_of
from orchestrator.page.collected import collection_data
from orchestrator.page.evolution import CALL_CHARACTERS, evolution_data
from orchestrator.page.packing import TextPack
from orchestrator.results import COLLECT, EVOLVE, RunResults
from orchestrator.settings.kconfig import default_values
from tasks.store.address import redacted

SCRIPTS = (
    "dom.js", "chart.js", "answer.js", "systems.js", "search.js", "lineage.js", "clusters.js", "answers.js", "cost.js",
    "settings.js", "tables.js", "page.js",
)  # fmt: skip
POLICY = "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
PROJECT = "Whetstone"
HIDDEN = "***"
_KEY = re.compile(r"(--(?:api|admin)-key[ =])\S+")


def page_data(runs: Sequence[RunResults]) -> dict[str, Any]:
    """The data of a page, as JSON."""
    texts = TextPack()
    found = [_run_data(run, texts, CALL_CHARACTERS // len(runs)) for run in runs]
    return {"runs": found, "texts": texts.document()}


def _run_data(results: RunResults, texts: TextPack, call_characters: int) -> dict[str, Any]:
    if results.kind == EVOLVE:
        own = evolution_data(results, texts, call_characters)
    elif results.kind == COLLECT:
        own = collection_data(results)
    else:
        own = {"figures": results.figures, "tables": [asdict(table) for table in results.tables]}
    return {
        "digest": digest_of(results),
        "usage": dict(results.usage),
        "failures": [asdict(failure) for failure in results.status.failures],
        "questions": {name: len(ids) for name, ids in results.questions.items()},
        "settings": settings_table(results),
        "settings_changes": [
            {"generation": one.generation, "options": {k: list(map(public, v)) for k, v in one.options.items()}}
            for one in results.settings_changes
        ],
        "forked_from": "" if results.fork is None else f"{results.fork['run']} at {results.fork['at']}",
        "versions": [asdict(one) for one in results.versions],
        "servers": [_public_server(server) for server in results.servers],
        "answered": dict(results.generations[-1].answered) if results.kind == EVOLVE and results.generations else {},
        **own,
    }


def settings_table(results: RunResults) -> list[list[Any]]:
    """[name, value, whether it differs from the default] of each setting; only an evolution has defaults."""
    defaults = default_values() if results.kind == EVOLVE else {}
    return [[name, public(value), value != defaults.get(name)] for name, value in results.settings.items()]


def _public_server(server: Mapping[str, Any]) -> dict[str, Any]:
    """What a server has reported of itself, its arguments as one text, since a key may be an argument of its own."""
    shown = {name: public(value) if isinstance(value, str) else value for name, value in server.items()}
    return shown | {"arguments": public(" ".join(map(str, server.get("arguments") or ())))}


def public(value: str) -> str:
    """A setting without the passwords and keys that it may hold: a page is made to be sent."""
    return _KEY.sub(rf"\1{HIDDEN}", redacted(value))


def render_page(data: Mapping[str, Any], made: datetime.datetime) -> str:
    """The whole page."""
    style, script = _static("page.css"), _script()
    policy = POLICY.format(style=_hash(style), script=_hash(script))
    whole = {**data, "made": made.isoformat(timespec="seconds")}
    return Template(_static("page.html")).substitute(
        title=escape(page_title(data)),
        policy=escape(policy),
        summary="\n".join(f"<p>{escape(line)}</p>" for line in summary_of(data)),
        style=style,
        data=embedded_json(whole),
        script=script,
    )


def page_title(data: Mapping[str, Any]) -> str:
    return " and ".join(run["digest"]["run"] for run in data["runs"]) + f" · {PROJECT}"


def summary_of(data: Mapping[str, Any]) -> list[str]:
    """What the page says where no script runs."""
    digests = [run["digest"] for run in data["runs"]]
    return [f"{one['run']}: {one['verdict'] or one['state'] + ', ' + one['progress']}" for one in digests]


def embedded_json(value: object) -> str:
    """JSON that ends no element of the page, whatever its texts hold."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def _script() -> str:
    """All scripts as one, in a scope of their own."""
    return '(() => {\n"use strict";\n' + "\n".join(_static(name) for name in SCRIPTS) + "})();\n"


@cache
def _static(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
