"""The page itself: the templates, style and scripts of `static`, put together with the data of runs.

A page needs no network and may load nothing: its content security policy allows the one style and the one script that
are in it, by their hashes.  The templates escape all texts of a run; the data of the charts are JSON that no browser
executes.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Sequence
from importlib import resources

from jinja2 import Environment, PackageLoader, Template

from orchestrator.page.data import run_data
from orchestrator.page.formats import FILTERS
from orchestrator.results import RunResults

STYLES, SCRIPTS = ("page.css",), ("chart.js", "systems.js", "lineage.js", "page.js")
POLICY = "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'"


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
        made=made,
        style=style,
        script=script,
        policy=POLICY.format(_hash(style), _hash(script)),
    )


def _template() -> Template:
    environment = Environment(loader=PackageLoader("orchestrator.page", "static"), autoescape=True, trim_blocks=True)
    environment.filters |= FILTERS
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template("page.html")


def _source(names: Sequence[str]) -> str:
    """Files of the project as they are: no text of a run is in them."""
    folder = resources.files(__package__) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
