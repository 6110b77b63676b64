"""`orchestrator judge`: a verdict for each answer in a file."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from pathlib import Path

from orchestrator.commands import common
from orchestrator.settings import judging_settings
from orchestrator.signals import Terminated, raise_on_sigterm
from tasks.dataset import DatasetError
from tasks.judging.rows import Row, read_rows
from tasks.records import Verdict
from tasks.run import Endpoint, Judge

DESCRIPTION = """\
Judge the answers in a file: one JSON object a line, with the fields question, gold and answer.

One verdict a line is written in the same order: is_correct (true, false, or null where stage 1 alone decides nothing),
stage (1 by rule, 2 by a model, 3 by the model's own arithmetic) and reasoning.  Nothing is written when a row is
malformed or a call fails.  Without a key the rules of the embedded endpoint stand in for the model: docs/judge.md."""

EPILOG = """\
examples:
  orchestrator judge answers.jsonl --stage 1
  orchestrator judge answers.jsonl --tolerance 0.15 --config configs/gpu.config --output verdicts.jsonl"""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("judge", DESCRIPTION, EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the rows to judge, as JSON lines")
    parser.add_argument(
        "--tolerance", type=_tolerance, metavar="SHARE", help="relative error of a number, in place of the settings'"
    )
    parser.add_argument("--stage", type=int, choices=[1], help="1: by rule alone, without a call")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a .config with judge and endpoint; else defaults")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write, in place of standard output")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.guarded(lambda: judge(arguments))


def judge(arguments: argparse.Namespace) -> int:
    """Raises: SettingsError, OutputError."""
    try:
        rows = read_rows(arguments.file)
    except DatasetError as error:
        return common.fail(common.WRONG, str(error))
    settings, endpoint = judging_settings(arguments.config)
    if arguments.tolerance is not None:
        settings = dataclasses.replace(settings, tolerance=arguments.tolerance)
    raise_on_sigterm()
    try:
        verdicts = _by_rule(rows, settings) if arguments.stage == 1 else _by_all(rows, settings, endpoint)
    except KeyboardInterrupt:
        return common.fail(common.INTERRUPTED, "interrupted; nothing was written")
    except Terminated:
        return common.fail(common.TERMINATED, "terminated; nothing was written")
    except _Failed as error:
        return common.fail(common.BROKEN, f"{error}; nothing was written")
    _write(verdicts, arguments.output)
    _say(_summary(verdicts))
    return common.DONE


class _Failed(Exception):
    """A call failed for good."""


def _by_rule(rows: list[Row], settings: Judge) -> list[Verdict | None]:
    from orchestrator.runs.judging import judge_rows

    return judge_rows(rows, settings, None, lambda done, total: None)


def _by_all(rows: list[Row], settings: Judge, endpoint: Endpoint) -> list[Verdict | None]:
    # Here, because the SDK and what goes with it take a second to import.
    from orchestrator.runs.endpoint import judge_asker, open_endpoint
    from orchestrator.runs.judging import judge_rows
    from tasks.judging.verdict import JudgeReplyError
    from tasks.openai.answerer import listed
    from tasks.openai.errors import CallError
    from tasks.openai.purse import LocalPurse
    from workers.process import ProcessFailed

    answerers: set[str] = set()
    try:
        with open_endpoint(endpoint, _say) as there:
            purse = LocalPurse(there)
            asker = judge_asker(there, settings, purse, answerers.add)
            verdicts = judge_rows(rows, settings, asker, _Tenths())
    except (CallError, JudgeReplyError, ProcessFailed) as error:
        raise _Failed(f"{type(error).__name__}: {error}") from error
    if answerers:
        _say(f"judged by {listed(answerers)}")
    used = purse.used
    _say(f"{used.requests} calls, {used.prompt + used.completion:,} tokens, {purse.money.spent:.2f} US dollars")
    return verdicts


class _Tenths:
    """Progress as a line whenever another tenth is done."""

    def __init__(self) -> None:
        self._told = -1

    def __call__(self, done: int, total: int) -> None:
        if (tenth := 10 * done // total) != self._told:
            self._told = tenth
            _say(f"judged {done} of {total} answers that differ")


def _write(verdicts: list[Verdict | None], output: Path | None) -> None:
    from orchestrator.output import write_atomic
    from orchestrator.runs.judging import verdict_row
    from tasks.openai.quoting import one_line

    text = "".join(one_line(verdict_row(verdict)) + "\n" for verdict in verdicts)
    if output is None:
        print(text, end="")
        return
    write_atomic(output, text)


def _summary(verdicts: list[Verdict | None]) -> str:
    said = Counter("left open" if v is None else "correct" if v.is_correct else "wrong" for v in verdicts)
    stages = Counter(v.stage for v in verdicts if v is not None)
    counted = ", ".join(f"{said[word]} {word}" for word in ("correct", "wrong", "left open") if said[word])
    by_stage = ", ".join(f"{stages[stage]} by stage {stage}" for stage in sorted(stages))
    return f"{len(verdicts)} rows: {counted}" + (f" ({by_stage})" if by_stage else "")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
