"""Flower for a farm: its process, a tab for runs, Retry for a task or a run, and the run of each task.

Flower has no hook for additions to its pages, so each one names a place in a page that Flower ships.  All of our
addresses ask for user name and password.  Retry is a POST, which Flower refuses when it comes from the page of another
site.
"""

from __future__ import annotations

import dataclasses
import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import flower
import redis
from celery import Celery
from celery.events.state import Task
from flower.app import Flower
from flower.options import options
from flower.urls import settings as flower_settings
from flower.views import BaseHandler
from flower.views.error import NotFoundErrorHandler
from flower.views.monitor import Metrics
from flower.views.tasks import TASK_COLUMNS
from tornado.ioloop import IOLoop
from tornado.template import BaseLoader, Template
from tornado.web import HTTPError, authenticated, url

from orchestrator.farm.connection import make_sender
from orchestrator.flower_ext.runs import RetryRejected, RunView, index_runs, retry
from tasks.common import logs
from tasks.common.files import check_own_file, private_folder
from tasks.queues import STAGE_TASKS, parse_label
from tasks.store.address import store_url
from tasks.store.client import NO_WAITING, connect
from tasks.store.keys import JOBS
from tasks.store.store import Store

OURS = Path(__file__).parent / "pages"
FLOWERS = Path(flower.__file__).parent / "templates"
ADDITIONS = {
    "navbar.html": ('<ul class="app-nav navbar-nav">', "tab.html"),
    "task.html": ('<div class="detail-actions">', "retry.html"),
}
"""Flower's page: (the text in it after which something is inserted, the file in `pages` that is inserted)."""
COLUMNS = {"run": "Run", "generation": "Generation", "individual": "Individual"}
SHOWN = "name,uuid,state,run,generation,individual,received,runtime,worker"


@dataclass(frozen=True)
class Farm:
    """What the pages need: whom to send to, where runs are, and where the logs of retries go."""

    app: Celery
    outputs: Path
    store: Store
    logs: Path


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
        text = ours.read_text() if ours.exists() else (FLOWERS / name).read_text()
        if name in ADDITIONS:
            place, file = ADDITIONS[name]
            if text.count(place) != 1:
                raise LookupError(f"this version of Flower has no {place!r} in {name}; Whetstone needs Flower 2.2")
            text = text.replace(place, place + (OURS / file).read_text())
        return Template(text, name=name, loader=self)


def add_run_fields(task: Any) -> Any:
    """Flower's task, of which this is a copy, with run, generation and individual, as its arguments name them."""
    label = parse_label(task.args or "")
    task.run, task.generation = label.get("run", ""), label.get("generation", "")
    task.individual = label.get("child") or label.get("job", "")
    task._fields = (*COLUMNS, *task._fields)
    return task


class RunsPage(BaseHandler):  # type: ignore[misc]  # Flower has no types
    def initialize(self, farm: Farm, what: Literal["task", "run"] = "run") -> None:
        self.farm, self.what = farm, what

    async def views(self) -> Mapping[str, RunView]:
        farm = self.farm
        try:
            return await IOLoop.current().run_in_executor(None, index_runs, farm.outputs, farm.store)
        except redis.RedisError as error:
            raise HTTPError(503, f"the farm's store does not answer: {error}") from None

    @authenticated
    async def get(self) -> None:
        self.set_header("Refresh", "5")
        self.render("runs.html", views=(await self.views()).values())


class RunsInApi(RunsPage):
    @authenticated
    async def get(self) -> None:
        self.write({"runs": [{**dataclasses.asdict(v), "state": v.state} for v in (await self.views()).values()]})


class TaskPage(RunsPage):
    """Flower's page of a task; of a failed one that Flower has not seen, what the store knows."""

    @authenticated
    async def get(self, name: str) -> None:
        task = self.application.events.state.tasks.get(name)
        if task is None:
            found = (one for view in (await self.views()).values() for one in view.failed if one.task == name)
            if (failed := next(found, None)) is None:
                raise HTTPError(404, f"Unknown task '{name}'")
            kind = "job" if failed.record == JOBS else "child"
            task = Task(
                uuid=name, name=STAGE_TASKS.get(failed.stage, failed.stage), state="FAILURE", failed=failed.at,
                args=f"run={failed.run} {kind}={failed.node}", exception=failed.error, retries=failed.tries - 1,
            )  # fmt: skip
        self.render("task.html", task=self.format_task(task), read_only=True)


class Retry(RunsPage):
    """Go on with a run, given by its own id or by that of a failed task; leads to the page of runs."""

    async def get(self, name: str) -> None:
        raise HTTPError(405)

    @authenticated
    async def post(self, name: str) -> None:
        views = await self.views()
        run, tasks = (name, []) if self.what == "run" else (self.run_of(name, views), [name])
        try:
            if run not in views:
                raise RetryRejected(404, f"no {self.what} {name} is known here")
            farm, view = self.farm, views[run]
            await IOLoop.current().run_in_executor(None, retry, farm.app, farm.store, view, tasks, farm.logs)
        except RetryRejected as refused:
            self.set_status(refused.status)
            self.render("404.html", message=str(refused))
            return
        self.redirect(self.reverse_url("runs"), status=303)

    def run_of(self, task: str, views: Mapping[str, RunView]) -> str:
        """The run of a task, "" where it is not known."""
        if found := next((v.run for v in views.values() for failed in v.failed if failed.task == task), ""):
            return found
        seen = self.application.events.state.tasks.get(task)
        return "" if seen is None or seen.state != "FAILURE" else parse_label(seen.args or "").get("run", "")


class GuardedMetrics(Metrics):  # type: ignore[misc]  # Flower has no types
    """Flower's own metrics, which it would show without a password."""

    @authenticated
    async def get(self) -> None:
        await super().get()


SAVE_EVERY_MS = 5000  # what a kill may cost of the history
TASKS_KEPT = 20_000  # in memory and in the history: saving them takes well under a second
STORE_TIMEOUT_S = 5.0


def serve(
    redis_url: str, outputs: Path, data: Path, address: str, port: int, credentials: Sequence[str], note: str = ""
) -> None:
    """Serve until SIGTERM or SIGINT, with the runs under `outputs`, and Flower's history in `data`.

    `credentials` are of the form USER:PASSWORD; `note` is printed in place of the address.  Flower is read-only but for
    Retry: pausing and stopping are the commands of the farm, and a task that is revoked behind the back of its run
    would leave that run waiting.
    """
    history = private_folder(data) / "history"
    for file in data.glob(f"{history.name}*"):
        check_own_file(file)  # Flower loads it as a pickle, which runs what its writer wants
    logs.set_up([logging.StreamHandler()], logging.INFO)
    logging.getLogger("tornado.access").setLevel(logging.WARNING)  # who was refused, and not every picture
    store = Store(connect(store_url(redis_url), NO_WAITING, timeout_s=STORE_TIMEOUT_S))
    farm = Farm(make_sender(redis_url), outputs, store, data / "retries")
    TASK_COLUMNS.update(COLUMNS)
    values: dict[str, Any] = {
        "address": address, "port": port, "basic_auth": list(credentials), "read_only": True, "persistent": True,
        "db": str(history), "state_save_interval": SAVE_EVERY_MS, "max_tasks": TASKS_KEPT, "tasks_columns": SHOWN,
        "format_task": add_run_fields,
    }  # fmt: skip
    for name, value in values.items():
        setattr(options, name, value)
    app = Flower(capp=farm.app, options=options, template_loader=Pages(), **flower_settings)
    ours = {"farm": farm}
    routes = [  # asked before Flower's
        url(r"/runs", RunsPage, ours, name="runs"),
        url(r"/api/runs", RunsInApi, ours),
        url(r"/task/([^/]+)", TaskPage, ours),
        url(r"/task/retry/([^/]+)", Retry, {**ours, "what": "task"}, name="retry_task"),
        url(r"/run/retry/([^/]+)", Retry, {**ours, "what": "run"}, name="retry_run"),
        url(r"/metrics", GuardedMetrics),
        # A message made by hand belongs to no run.
        url(r"/api/task/(?:apply|async-apply|send-task)/.*", NotFoundErrorHandler),
    ]
    app.add_handlers(".*", routes)
    listening = app.start_http_server()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: IOLoop.current().add_callback_from_signal(app.io_loop.stop))
    print(note or f"http://{address}:{listening}", flush=True)
    try:
        app.start()
    finally:
        app.stop()
