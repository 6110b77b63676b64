"""Our pages and addresses in Flower: a tab for runs, Retry for a task or a run, and the run of each task.

Flower has no hook for additions to its pages, so each one names a place in a page that Flower ships.  In a version of
Flower without that place, the start fails with a clear error.

All of our addresses ask for user name and password.  Retry is a POST, which Flower refuses when it comes from the page
of another site (by Sec-Fetch-Site, or by Origin where a browser sends only that).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import flower
from flower.api import BaseApiHandler
from flower.views import BaseHandler
from flower.views.error import NotFoundErrorHandler
from flower.views.monitor import Metrics
from tornado.template import BaseLoader, Template
from tornado.web import HTTPError, StaticFileHandler, authenticated, url

from orchestrator.flower_ext.retry_policy import RetryRejected
from orchestrator.flower_ext.state import Monitor
from orchestrator.flower_ext.views import as_json, make_row

OURS = Path(__file__).parent / "pages"
FLOWERS = Path(flower.__file__).parent / "templates"

# Flower's page: (the text in it after which something is inserted, the file in `pages` that is inserted)
ADDITIONS = {
    "navbar.html": ('<ul class="app-nav navbar-nav">', "tab.html"),
    "task.html": ('<div class="detail-actions">', "retry.html"),
    "tasks.html": ("{% block container %}", "list.html"),
}
# Flower's page: (a text in it, what replaces it).  A script in a page needs a nonce (orchestrator/flower_ext/guard.py).
REPLACEMENTS = {
    "workers.html": ('<script type="text/javascript">', '<script nonce="{{ request.nonce }}">'),
}


class Pages(BaseLoader):
    """Tornado's templates: ours, and Flower's with our additions.  Raises: LookupError when Flower's do not fit."""

    def __init__(self) -> None:
        super().__init__(whitespace="single")
        for name in (*ADDITIONS, *REPLACEMENTS):
            self.load(name)

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        return name

    def _create_template(self, name: str) -> Template:
        ours = OURS / name
        text = ours.read_text() if ours.exists() else self._added((FLOWERS / name).read_text(), name)
        return Template(text, name=name, loader=self)

    @staticmethod
    def _added(text: str, name: str) -> str:
        place, new = "", ""
        if name in ADDITIONS:
            place, file = ADDITIONS[name]
            new = place + (OURS / file).read_text()
        elif name in REPLACEMENTS:
            place, new = REPLACEMENTS[name]
        if place and text.count(place) != 1:
            raise LookupError(f"this version of Flower has no {place!r} in {name}; Whetstone needs Flower 2.2")
        return text.replace(place, new) if place else text


ACCEPTED, SEE_OTHER = 202, 303


def routes(monitor: Monitor) -> list[Any]:
    """Our addresses, to be asked before Flower's."""
    ours = {"monitor": monitor}
    task, run = {**ours, "what": "task"}, {**ours, "what": "run"}
    return [
        url(r"/runs", RunsPage, ours, name="runs"),
        url(r"/task/retry/([^/]+)", RetryInPage, task, name="retry_task"),
        url(r"/run/retry/([^/]+)", RetryInPage, run, name="retry_run"),
        url(r"/api/runs", RunsInApi, ours),
        url(r"/api/task/retry/([^/]+)", RetryInApi, task),
        url(r"/api/run/retry/([^/]+)", RetryInApi, run),
        url(r"/metrics", GuardedMetrics),
        url(r"/ours/(.*)", StaticFileHandler, {"path": str(OURS / "static")}, name="ours"),
        # A message made by hand belongs to no run.
        url(r"/api/task/(?:apply|async-apply|send-task)/.*", NotFoundErrorHandler),
    ]


class RunsPage(BaseHandler):  # type: ignore[misc]  # Flower has no types
    def initialize(self, monitor: Monitor) -> None:
        self.monitor = monitor

    @authenticated
    def get(self) -> None:
        self.render("runs.html", rows=[make_row(view, self.monitor) for view in self.monitor.views.values()])


class RunsInApi(BaseApiHandler):  # type: ignore[misc]  # Flower has no types
    def initialize(self, monitor: Monitor) -> None:
        self.monitor = monitor

    @authenticated
    async def get(self) -> None:
        try:
            await self.monitor.refresh()
        except RetryRejected as refused:
            raise HTTPError(refused.status, refused.reason) from None
        self.write({"runs": [as_json(view, self.monitor) for view in self.monitor.views.values()]})


class Retry:
    """Go on with a run, given by its own id or by that of a failed task."""

    def initialize(self, monitor: Monitor, what: Literal["task", "run"]) -> None:
        self.begin = monitor.retry_task if what == "task" else monitor.retry_run


class RetryInPage(Retry, BaseHandler):  # type: ignore[misc]  # Flower has no types
    """The buttons: they lead to the page of runs, or to a page with the reason for a refusal."""

    @authenticated
    async def post(self, name: str) -> None:
        try:
            await self.begin(name)
        except RetryRejected as refused:
            self.set_status(refused.status)
            self.render("404.html", message=refused.reason)
            return
        self.redirect(self.reverse_url("runs"), status=SEE_OTHER)


class RetryInApi(Retry, BaseApiHandler):  # type: ignore[misc]  # Flower has no types
    """202 and the run that goes on; 404, 409 or 503 with the reason as text."""

    @authenticated
    async def post(self, name: str) -> None:
        try:
            run = await self.begin(name)
        except RetryRejected as refused:
            raise HTTPError(refused.status, refused.reason) from None
        self.set_status(ACCEPTED)
        self.write({"run": run, "retry": "started"})


class GuardedMetrics(Metrics):  # type: ignore[misc]  # Flower has no types
    """Flower's own metrics, which it would show without a password."""

    @authenticated
    async def get(self) -> None:
        await super().get()
