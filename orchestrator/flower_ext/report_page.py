"""The page of one run in Flower: that of `orchestrator report`, which asks for its data again while the run is at work.

The data are made anew only when a file of the run has changed, in a thread beside Flower's loop.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from flower.api import BaseApiHandler
from flower.views import BaseHandler
from tornado.ioloop import IOLoop
from tornado.web import HTTPError, authenticated

from orchestrator.flower_ext.state import Monitor
from orchestrator.output import OutputError
from orchestrator.page.html import embedded_json, page_data, render_page
from orchestrator.results import RunResults
from orchestrator.runs.status import is_locked

KEPT = 2
"""Pages whose data are kept in memory; those of a large run have some MB."""
NOT_HERE, UNREADABLE = 404, 409


class _RunShown:
    """What both addresses share: the run's folder, and its data in another thread."""

    monitor: Monitor

    def initialize(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def folder(self, run: str) -> Path:
        """Raises: HTTPError for a run that is unknown, or whose folder is not visible from here."""
        view = self.monitor.views.get(run)
        if view is None or view.status is None:
            reason = (view and view.problem) or f"run {run} is not known here, or its output folder is elsewhere"
            raise HTTPError(NOT_HERE, reason)
        return Path(view.status.folder)

    async def in_thread(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Raises: HTTPError with the reason, for a file of the run that cannot be used."""
        try:
            return await IOLoop.current().run_in_executor(self.monitor.executor, work, *arguments)
        except (OutputError, OSError) as error:
            raise HTTPError(UNREADABLE, str(error)) from None


class ReportPage(_RunShown, BaseHandler):  # type: ignore[misc]  # Flower has no types
    """The page, with the data that there are."""

    @authenticated
    async def get(self, run: str) -> None:
        try:
            data = await self.in_thread(shown_data, self.folder(run))
        except HTTPError as error:
            self.set_status(error.status_code)
            self.render("404.html", message=error.log_message)
            return
        live_url = self.reverse_url("run_report_data", run)
        self.write(render_page(data, _now(), live_url, getattr(self.request, "nonce", "")))


class ReportData(_RunShown, BaseApiHandler):  # type: ignore[misc]  # Flower has no types
    """The data alone; 304 when they are those that the page has."""

    @authenticated
    async def get(self, run: str) -> None:
        folder = self.folder(run)
        seen = await self.in_thread(folder_signature, folder)
        self.set_header("ETag", f'"{hashlib.sha256(repr(seen).encode()).hexdigest()[:32]}"')
        self.set_header("Content-Type", "application/json")
        if self.check_etag_header():
            self.set_status(304)
            return
        data = await self.in_thread(shown_data, folder)
        self.finish(embedded_json({**data, "made": _now().isoformat(timespec="seconds")}))


def shown_data(folder: Path) -> dict[str, Any]:
    """The data of the run's page.  Raises: OutputError, OSError."""
    return _data(folder, folder_signature(folder))


@lru_cache(maxsize=KEPT)
def _data(folder: Path, signature: tuple[object, ...]) -> dict[str, Any]:
    return page_data([RunResults.open(folder)])


def folder_signature(folder: Path) -> tuple[object, ...]:
    """Another one whenever a file of the run has changed, or a process has begun or ceased to work on it."""
    with os.scandir(folder) as entries:
        files = sorted(
            (one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in entries if one.name != "run.log"
        )
    return (is_locked(folder), *files)


def _now() -> datetime.datetime:
    return datetime.datetime.now().astimezone()
