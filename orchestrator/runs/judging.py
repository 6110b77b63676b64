"""Judging a file of answers: each text once, by rule alone or with a model for what the rules leave open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tasks.judging.rows import Row
from tasks.judging.verdict import Ask, judge
from tasks.records import Verdict
from tasks.run import Judge

AskFor = Callable[[Row], Ask]
"""Makes the call to the judge for a row."""

Progress = Callable[[int, int], None]
"""Called as (done, total), in rows that differ."""


class _LeftOpen(Exception):
    """Stage 1 has decided nothing."""


def by_rule(row: Row, settings: Judge) -> Verdict | None:
    """What stage 1 says by itself, or None for nothing."""

    def leave(system: str, user: str, schema_name: str, schema: dict[str, Any]) -> dict[str, Any]:
        raise _LeftOpen

    try:
        return judge(row.question, row.gold, row.answer, settings, leave)
    except _LeftOpen:
        return None


def judge_rows(
    rows: Sequence[Row], settings: Judge, ask_for: AskFor | None, progress: Progress
) -> list[Verdict | None]:
    """A verdict for each row, in order; without `ask_for`, None where stage 1 decides nothing.

    Raises: what a call raises, as soon as one fails; calls under way are awaited, and no more are made.
    """
    different = list(dict.fromkeys(rows))
    found: dict[Row, Verdict | None] = {row: by_rule(row, settings) for row in different}
    left = [row for row in different if found[row] is None] if ask_for is not None else []
    done = len(different) - len(left)
    progress(done, len(different))
    if ask_for is not None and left:
        found.update(_asked(left, settings, ask_for, lambda more: progress(done + more, len(different))))
    return [found[row] for row in rows]


def _asked(
    rows: Sequence[Row], settings: Judge, ask_for: AskFor, progress: Callable[[int], None]
) -> dict[Row, Verdict]:
    stopped = threading.Event()

    def one(row: Row) -> Verdict | None:
        if stopped.is_set():
            return None
        return judge(row.question, row.gold, row.answer, settings, ask_for(row))

    found: dict[Row, Verdict] = {}
    with ThreadPoolExecutor(settings.concurrency) as pool:
        futures = {pool.submit(one, row): row for row in rows}
        try:
            for future in as_completed(futures):
                verdict = future.result()
                assert verdict is not None  # only after `stopped`, and then nobody looks
                found[futures[future]] = verdict
                progress(len(found))
        except BaseException:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def verdict_row(verdict: Verdict | None) -> dict[str, Any]:
    """One line of the result."""
    if verdict is None:
        return {"is_correct": None, "stage": 1, "reasoning": "Stage 1 decides nothing here."}
    return {"is_correct": verdict.is_correct, "stage": verdict.stage, "reasoning": verdict.reasoning}
