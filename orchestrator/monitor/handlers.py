"""What the monitor answers beside Flower: the page of runs, and Retry for a task or a run, in the page and the API.

Every one of them asks for user name and password.  Retry is a POST, which Flower refuses when it comes from the page
of another site (by Sec-Fetch-Site, or by Origin where a browser sends only that).
"""

from __future__ import annotations

from typing import Any, Literal

from flower.api import BaseApiHandler
from flower.views import BaseHandler
from flower.views.error import NotFoundErrorHandler
from flower.views.monitor import Metrics
from tornado.web import HTTPError, StaticFileHandler, authenticated, url

from orchestrator.monitor.deciding import Refused
from orchestrator.monitor.monitor import Monitor
from orchestrator.monitor.showing import as_json, row
from orchestrator.monitor.templates import OURS

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
        # A message that was put together by hand belongs to no plan.
        url(r"/api/task/(?:apply|async-apply|send-task)/.*", NotFoundErrorHandler),
    ]


class RunsPage(BaseHandler):  # type: ignore[misc]  # Flower has no types
    def initialize(self, monitor: Monitor) -> None:
        self.monitor = monitor

    @authenticated
    def get(self) -> None:
        self.render("runs.html", rows=[row(view, self.monitor) for view in self.monitor.views.values()])


class RunsInApi(BaseApiHandler):  # type: ignore[misc]  # Flower has no types
    def initialize(self, monitor: Monitor) -> None:
        self.monitor = monitor

    @authenticated
    async def get(self) -> None:
        try:
            await self.monitor.refresh()
        except Refused as refused:
            raise HTTPError(refused.status, refused.reason) from None
        self.write({"runs": [as_json(view, self.monitor) for view in self.monitor.views.values()]})


class Retry:
    """A run goes on: its own id is given, or that of a task that failed."""

    def initialize(self, monitor: Monitor, what: Literal["task", "run"]) -> None:
        self.begin = monitor.retry_task if what == "task" else monitor.retry_run


class RetryInPage(Retry, BaseHandler):  # type: ignore[misc]  # Flower has no types
    """A button was pressed: the runs are shown, or a page that says why not."""

    @authenticated
    async def post(self, name: str) -> None:
        try:
            await self.begin(name)
        except Refused as refused:
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
        except Refused as refused:
            raise HTTPError(refused.status, refused.reason) from None
        self.set_status(ACCEPTED)
        self.write({"run": run, "retry": "started"})


class GuardedMetrics(Metrics):  # type: ignore[misc]  # Flower has no types
    """Flower's own metrics, which it shows to anybody."""

    @authenticated
    async def get(self) -> None:
        await super().get()
