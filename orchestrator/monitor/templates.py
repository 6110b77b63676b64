"""Flower's pages with ours among them: a tab for runs, the Retry of a task, and whose task it is.

Flower has no hook for any of it, so each addition names a place in the page that Flower ships.  A place that is not
there, in another version of Flower, ends the start with a clear error.
"""

from __future__ import annotations

from pathlib import Path

import flower
from tornado.template import BaseLoader, Template

OURS = Path(__file__).parent / "pages"
FLOWERS = Path(flower.__file__).parent / "templates"

# page: (after this text of it, comes this file of ours)
ADDITIONS = {
    "navbar.html": ('<ul class="app-nav navbar-nav">', "tab.html"),
    "task.html": ('<div class="detail-actions">', "retry.html"),
    "tasks.html": ("{% block container %}", "list.html"),
}


class Pages(BaseLoader):
    """Tornado's templates: ours, and Flower's with our additions.  Raises: LookupError when Flower's do not fit."""

    def __init__(self) -> None:
        super().__init__(whitespace="single")
        for name in ADDITIONS:
            self.load(name)

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> Template:
        ours = OURS / name
        text = ours.read_text() if ours.exists() else self._added((FLOWERS / name).read_text(), name)
        return Template(text, name=name, loader=self)

    @staticmethod
    def _added(text: str, name: str) -> str:
        if name not in ADDITIONS:
            return text
        place, file = ADDITIONS[name]
        if text.count(place) != 1:
            raise LookupError(f"this version of Flower has no {place!r} in {name}; Whetstone needs Flower 2.2")
        return text.replace(place, place + (OURS / file).read_text())
