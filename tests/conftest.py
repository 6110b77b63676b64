"""What every test may use: a real Valkey, one for each process of the tests, emptied before each test that uses it.

`--quick` skips what starts a process of its own; `-n 2 --dist loadfile` runs files side by side.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest
from refusing_valkey import RefusingValkey

from tasks.routing.sandbox import Sandbox, SandboxUnavailable
from tasks.store.address import store_url
from tasks.store.client import connect
from tasks.store.store import Store
from workers.embedded.valkey import READY_S, redis_url, remove_socket, socket_path, valkey_process
from workers.queues import OPENMP_ENV

os.environ |= OPENMP_ENV | os.environ  # before torch is imported: threads of two processes wait for the same cores

# Where the tests are that take the most time.
LONG_FOLDERS = ("tests/e2e/", "tests/workers/", "tests/tasks/gpu/")
# Programs that libraries ask about the machine.
ABOUT_THE_MACHINE = ("lscpu", "fc-list", "uname")
STARTS_A_PROCESS = "starts a process; `make test` runs it"
# With `--quick`, of a property that does not say how many; `make test` tries hypothesis' own number, a hundred.
QUICK_EXAMPLES = 30


class Processes:
    """Whether a test may start a process: with `--quick` only the session's Valkey is started."""

    def __init__(self) -> None:
        self.allowed, self.refused = True, False

    def watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """An audit hook. Raises: pytest.skip.Exception where a process is about to start that may not."""
        if event == "subprocess.Popen" and not self.allowed and arguments[0] not in ABOUT_THE_MACHINE:
            self.refused = True
            pytest.skip(STARTS_A_PROCESS)

    @contextmanager
    def allow(self) -> Iterator[None]:
        before, self.allowed = self.allowed, True
        yield
        self.allowed = before


PROCESSES = Processes()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="skip each test that starts a process of its own, when it does"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        sys.addaudithook(PROCESSES.watch)
        hypothesis.settings.register_profile("quick", max_examples=QUICK_EXAMPLES, deadline=None)
        hypothesis.settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported now stays until the end: the garbage collector need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """While a test is set up and runs, the hook watches; pytest itself starts what it likes."""
    PROCESSES.allowed, PROCESSES.refused = False, False
    try:
        return (yield)
    finally:
        PROCESSES.allowed = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip the test also where its own code, or another thread, caught the exception of the hook."""
    try:
        yield
    finally:
        if PROCESSES.refused:
            pytest.skip(STARTS_A_PROCESS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files: with `pytest -n`, the short ones at the end fill the processes evenly."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_FOLDERS))


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape what is not UTF-8 in a report: with `pytest -n` one process sends it to another."""
    return escaped((yield))


def escaped(value: Any) -> Any:
    """The value with lone surrogates in its texts as escapes, at any depth."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {escaped(key): escaped(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(escaped(each) for each in value)
    return value


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> None:
    """For a test whose processes start in another thread, where the exception of the hook does not end the test."""
    if request.config.getoption("--quick"):
        pytest.skip(STARTS_A_PROCESS)


@pytest.fixture(scope="session")
def confinement() -> None:
    """Skips what runs strangers' programs where the kernel cannot confine them (docs/route.md says what it needs)."""
    try:
        with Sandbox():
            pass
    except SandboxUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The WHETSTONE_REDIS_URL of a server that lives as long as the session."""
    folder = tmp_path_factory.mktemp("valkey")
    socket = socket_path(folder)
    server = valkey_process(folder, socket, None)
    with PROCESSES.allow():
        server.start()
    url = redis_url(socket)
    try:
        server.wait_ready(lambda: _answers(url), READY_S)
        yield url
    finally:
        server.stop(5.0)
        remove_socket(folder)


@pytest.fixture(scope="module")
def refusing_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RefusingValkey]:
    """A server of the test's own, which refuses writes when the test says so."""
    server = RefusingValkey(tmp_path_factory.mktemp("refusing"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def store(valkey_url: str) -> Store:
    """An empty store."""
    client = connect(store_url(valkey_url))
    client.flushall()
    return Store(client)


def _answers(url: str) -> bool:
    import redis

    try:
        return bool(redis.Redis.from_url(store_url(url)).ping())
    except redis.RedisError:
        return False
