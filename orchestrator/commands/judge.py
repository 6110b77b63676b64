"""`orchestrator judge`: a verdict for each answer in a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import console
from orchestrator.commands import options

if TYPE_CHECKING:
    from tasks.openai.limits import LocalLimits
    from tasks.questions import AnswerRow
    from tasks.records import Endpoint, Judge

Record = dict[str, Any]


class _NoModel(Exception):
    """Stage 2 needs a model, and there is none."""


OPEN: Record = {"is_correct": None, "stage": 1, "reasoning": "Rules decide nothing here."}


@options.command()
@click.argument("file", type=options.path_option, metavar="FILE")
@click.option("--tolerance", type=click.FloatRange(0, 1), metavar="SHARE",
              help="relative error of a number, in place of JUDGE_TOLERANCE")  # fmt: skip
@click.option("--judge", "name", metavar="NAME", help="three_stages, exact_number, or file.py:function of your own, "
              "in place of CONFIG_JUDGE")  # fmt: skip
@click.option("--config", type=options.path_option, metavar="FILE",
              help="a .config with judge and endpoint (Kconfig's defaults)")  # fmt: skip
@click.option("--output", type=options.path_option, metavar="FILE",
              help="the file to write, in place of standard output")  # fmt: skip
def judge(file: Path, tolerance: float | None, name: str | None, config: Path | None, output: Path | None) -> int:
    """Judge the answers in a file: one JSON object a line, with the fields question, gold and answer.

    One verdict is written for each line, in the same order: is_correct (true, false, or null where rules decide nothing
    and no model is asked), stage (1: rules or a function, 2: a model, 3: the model's own arithmetic) and reasoning.

    A model is asked only where --config names one at an OpenAI endpoint; its prices and its budget are those of the
    file. Without --config rules decide, whatever keys the environment has.

    examples:
      orchestrator judge answers.jsonl
      orchestrator judge answers.jsonl --judge my_judges.py:contains
      orchestrator judge answers.jsonl --tolerance 0.15 --config configs/gpu.config --output verdicts.jsonl

    results: one JSON object a line, to --output or standard output; counts and costs on standard error.

    exit status: 0 all rows are judged; 1 the arguments, the settings or a row are wrong; 2 a call failed, or the
    budget is reached: the verdicts of the rows before it are written.
    """
    from orchestrator.report.format import format_cost, highest_cost, provider_at
    from orchestrator.runs.folder import check_inputs
    from orchestrator.settings import judging_settings
    from tasks.common.text import PromptTooLong
    from tasks.judging.graders import UserFunctionError, needs_model
    from tasks.openai.endpoint import CallError, is_priced
    from tasks.openai.limits import LocalLimits
    from tasks.tables import DatasetError

    settings, endpoint = judging_settings(config)
    if tolerance is not None:
        settings = dataclasses.replace(settings, tolerance=tolerance)
    settings = dataclasses.replace(settings, name=name or settings.name)
    if output is not None:
        check_inputs("--output", output, {"the rows to judge": file})
    if not needs_model(settings.name):
        endpoint = None
    limits = None if endpoint is None else LocalLimits(endpoint)
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        try:
            rows = _read_rows(file, settings.name)
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
        try:
            for row in rows:
                verdict = calls[row].result()
                counts[{True: "correct", False: "wrong", None: "left open"}[verdict["is_correct"]]] += 1
                out.write(json.dumps({field: verdict[field] for field in OPEN}, ensure_ascii=False) + "\n")
        except (CallError, PromptTooLong, UserFunctionError) as error:
            return console.fail(console.BROKEN, f"row {counts.total() + 1}: {error}")
        finally:
            pool.shutdown(cancel_futures=True)
            print(f"{counts.total()} rows: " + ", ".join(f"{n} {word}" for word, n in counts.items()), file=sys.stderr)
            if endpoint is not None and limits is not None:
                cost = format_cost(limits.spending.spent if is_priced(endpoint) else None, endpoint.budget_usd)
                print(f"{limits.used.requests} calls, cost: {cost}", file=sys.stderr)
    return console.DONE


def _read_rows(file: Path, judge: str) -> list[AnswerRow]:
    from tasks.judging.graders import unfit
    from tasks.questions import read_answer_rows
    from tasks.tables import DatasetError

    rows = read_answer_rows(file)
    if problem := unfit(judge, {f"row {number}": row.gold for number, row in enumerate(rows, start=1)}):
        raise DatasetError(f"{file}: {problem}; name another judge")
    return rows


def _grade(settings: Judge, endpoint: Endpoint | None, limits: LocalLimits | None) -> Callable[[AnswerRow], Record]:
    """Judges a row; without an endpoint by rules alone."""
    from tasks.judging.graders import make_grader
    from tasks.judging.verdict import judge as decide
    from tasks.judging.verdict import verdict_key
    from tasks.openai.client import OpenAIClient
    from tasks.openai.judge import verdict_record

    def leave_open(*call: object) -> Any:
        raise _NoModel

    def by_rules(row: AnswerRow) -> Record:
        try:
            return dataclasses.asdict(decide(row.question, row.gold, row.answer, settings, leave_open))
        except _NoModel:
            return OPEN

    if (grader := make_grader(settings.name)) is not None:
        return lambda row: dataclasses.asdict(grader.grade(row.question, row.gold, row.answer))
    if endpoint is None or limits is None:
        return by_rules
    client = OpenAIClient(endpoint, limits)

    def by_model(row: AnswerRow) -> Record:
        texts = row.question, row.gold, row.answer
        call = f"judge-{verdict_key(*texts, settings, endpoint.base_url)}"
        return verdict_record(client, settings, call, texts)

    return by_model
