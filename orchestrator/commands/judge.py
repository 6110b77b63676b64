"""`orchestrator judge`: a verdict for each answer in a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from tasks.openai.limits import Limits
    from tasks.questions import AnswerRow
    from tasks.records import Endpoint, Judge

OPEN = {"is_correct": None, "stage": 1, "reasoning": "Rules decide nothing here."}
MOST_UNUSABLE = 5  # calls in succession, each of which is repeated
PARTS = ("JUDGE", "OPENAI_", "BUDGET_", "FARM")  # of a .config, which this command reads


class _Undecided(Exception):
    """Stage 2 needs a model, and there is none."""


@options.command()
@click.argument("file", type=options.path_option, metavar="FILE")
@click.option("--tolerance", type=click.FloatRange(0, 1), metavar="SHARE",
              help="relative error of a number that is allowed, in place of CONFIG_JUDGE_TOLERANCE")  # fmt: skip
@click.option("--judge", "name", metavar="NAME", help="three_stages, exact_number, or your own file.py:function, "
              "in place of CONFIG_JUDGE")  # fmt: skip
@click.option("--config", type=options.path_option, metavar="FILE",
              help="a .config that names judge and endpoint (default: Kconfig's defaults)")  # fmt: skip
@click.option("--output", type=options.path_option, metavar="FILE",
              help="the file to write, in place of standard output")  # fmt: skip
def judge(file: Path, tolerance: float | None, name: str | None, config: Path | None, output: Path | None) -> int:
    """Judge the answers in a file: one JSON object a line, with the fields question, gold and answer.

    One verdict is written for each line, in the same order.  is_correct is true, false, or null (rules decide nothing,
    and no model is asked).  stage is 1 (rules or a function), 2 (a model) or 3 (arithmetic with the model's numbers).
    reasoning says why.

    A model is asked only if --config names one at an OpenAI endpoint; prices and budget are those of the file.  Without
    --config rules decide, also when the environment has a key.

    examples:
      orchestrator judge answers.jsonl
      orchestrator judge answers.jsonl --judge my_judges.py:contains
      orchestrator judge answers.jsonl --tolerance 0.15 --config configs/gpu.config --output verdicts.jsonl

    results: one JSON object a line, to --output or standard output; counts and costs on standard error.

    exit status: 0 all rows are judged; 1 the arguments, the settings or a row are wrong; 2 some rows could not be
    judged, for example because the endpoint's filter refuses them: they are named, their verdicts are null, and all
    others are written; 2 also if the endpoint or the function fails, five rows in succession get no usable reply of the
    model, or the budget is spent: the verdicts of the rows before are written, and those of later rows that a model
    has given already, with null for the rows between.
    """
    from orchestrator.report.format import format_cost, highest_cost, provider_at
    from orchestrator.runs.folder import check_inputs
    from orchestrator.settings.kconfig import load_settings
    from orchestrator.settings.run import by_rules, endpoint_of, judge_of
    from tasks.judging.graders import UserFunctionError, needs_model, unfit
    from tasks.openai.endpoint import CallError, is_priced
    from tasks.openai.limits import Limits
    from tasks.questions import read_answer_rows
    from tasks.tables import DatasetError

    given = {"JUDGE": name, "JUDGE_TOLERANCE": None if tolerance is None else str(tolerance)}
    chosen = load_settings(config, {key: value for key, value in given.items() if value is not None}, PARTS)
    settings = judge_of(chosen)
    asks = config is not None and not by_rules(chosen) and needs_model(settings.name)
    endpoint = endpoint_of(chosen) if asks else None
    limits = Limits(endpoint) if endpoint else None
    if output is not None:
        check_inputs("--output", output, {"the rows to judge": file})
    counts: Counter[str] = Counter()
    refused: list[str] = []
    with ExitStack() as stack:
        try:
            rows = read_answer_rows(file)
            if problem := unfit(settings.name, {f"row {number}": row.gold for number, row in enumerate(rows, start=1)}):
                return console.fail(console.WRONG, f"{file}: {problem}; name another judge")
            grade = _grade(settings, endpoint, limits)
        except (DatasetError, UserFunctionError) as error:
            return console.fail(console.WRONG, str(error))
        if endpoint is not None:
            where, cost = provider_at(settings.model, endpoint, rules=False), highest_cost(endpoint, rules=False)
            print(f"judge: {where}; cost: {cost}", file=sys.stderr)
        out = sys.stdout if output is None else stack.enter_context(output.open("w", buffering=1))
        stack.enter_context(redirect_stdout(sys.stderr))  # what a function of the user prints is no verdict
        pool = stack.enter_context(ThreadPoolExecutor(settings.concurrency))
        calls = {row: pool.submit(grade, row) for row in dict.fromkeys(rows)}  # equal rows are asked once
        stack.enter_context(console.ticking(console.say, _how_far([calls[row] for row in rows])))
        try:
            for verdict, problem in _verdicts(calls[row] for row in rows):
                refused += [f"row {counts.total() + 1}: {problem}"] if problem else []
                _write(verdict, out, counts)
        except (CallError, UserFunctionError) as error:
            refused.append(f"row {counts.total() + 1}: {error}")
            pool.shutdown(cancel_futures=True)
            for verdict in _until_last_paid([calls[row] for row in rows[counts.total() :]]):
                _write(verdict, out, counts)
            return console.fail(console.BROKEN, *refused)
        finally:
            pool.shutdown(cancel_futures=True)
            judged = ", ".join(f"{n} {word}" for word, n in counts.items())
            print(f"{console.format_count(counts.total(), 'rows')}: {judged or 'nothing was judged'}", file=sys.stderr)
            if endpoint is not None and limits is not None:
                spent, dollars = limits.spending, limits.spending.spent if is_priced(endpoint) else None
                cost = format_cost(dollars, endpoint.budget_usd, spent.unconfirmed)
                print(f"{limits.used.requests} calls, cost: {cost}", file=sys.stderr)
    return console.fail(console.BROKEN if refused else console.DONE, *refused)


def _how_far(calls: Sequence[Future[dict[str, Any]]]) -> Callable[[], str]:
    from orchestrator.report.live import Pace

    pace = Pace()
    return lambda: pace.told(sum(call.done() for call in calls), len(calls), "rows judged")


def _write(verdict: dict[str, Any], out: TextIO, counts: Counter[str]) -> None:
    counts[{True: "correct", False: "wrong", None: "left open"}[verdict["is_correct"]]] += 1
    out.write(json.dumps({field: verdict[field] for field in OPEN}, ensure_ascii=False) + "\n")


def _verdicts(calls: Iterable[Future[dict[str, Any]]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each verdict, and why this row alone could not be judged, or ""."""
    from tasks.common.text import PromptTooLong
    from tasks.openai.endpoint import ContextExceededError, UnusableReplyError

    unusable: set[Future[dict[str, Any]]] = set()
    for call in calls:
        try:
            verdict, problem = call.result(), ""
            if verdict["stage"] > 1:  # by the model
                unusable.clear()
        except (ContextExceededError, PromptTooLong, UnusableReplyError) as error:
            if isinstance(error, UnusableReplyError):
                unusable.add(call)  # of equal rows it is one
                if len(unusable) == MOST_UNUSABLE:
                    raise
            verdict, problem = _not_judged(str(error)), str(error)
        yield verdict, problem


def _until_last_paid(calls: Iterable[Future[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What calls that are done or cancelled have given, to the last verdict of a model: it is paid, and so kept.

    The rows between have their lines too, so that line and row stay together.
    """
    found, paid = [], 0
    for call in calls:
        error = CancelledError("the command ended before") if call.cancelled() else call.exception()
        found.append(_not_judged(str(error)) if error else call.result())
        if not error and found[-1]["stage"] > 1:  # by the model
            paid = len(found)
    return found[:paid]


def _not_judged(reason: str) -> dict[str, Any]:
    return {"is_correct": None, "stage": 2, "reasoning": f"Not judged: {reason}"}


def _grade(settings: Judge, endpoint: Endpoint | None, limits: Limits | None) -> Callable[[AnswerRow], dict[str, Any]]:
    """Judges a row; without an endpoint by rules alone, which leave open what only a model can decide."""
    from tasks.judging.graders import make_grader
    from tasks.judging.verdict import judge as decide
    from tasks.judging.verdict import verdict_key
    from tasks.openai.client import OpenAIClient
    from tasks.openai.judge import verdict_record

    grader = make_grader(settings.name)
    client = OpenAIClient(endpoint, limits) if endpoint and limits else None

    def leave_open(*call: object) -> Any:
        raise _Undecided

    def grade(row: AnswerRow) -> dict[str, Any]:
        texts = row.question, row.gold, row.answer
        if grader is not None:
            return dataclasses.asdict(grader.grade(*texts))
        if client is not None and endpoint is not None:
            return verdict_record(client, settings, f"judge-{verdict_key(*texts, settings, endpoint.base_url)}", texts)
        try:
            return dataclasses.asdict(decide(*texts, settings, leave_open))
        except _Undecided:
            return OPEN

    return grade
