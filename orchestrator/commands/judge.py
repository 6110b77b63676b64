"""`orchestrator judge`: a verdict for each answer in a file."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.signals import Terminated, raise_on_signals

if TYPE_CHECKING:
    from tasks.judging.grader import Grader
    from tasks.judging.rows import AnswerRow
    from tasks.models import Endpoint, Judge, Verdict

DESCRIPTION = """\
Judge the answers in a file: one JSON object a line, with the fields question, gold and answer.

One verdict is written for each line, in the same order: is_correct (true, false, or null where stage 1 alone cannot
decide), stage (1: rules, 2: a model, 3: the model's own arithmetic) and reasoning.  Nothing is written when a row is
malformed, a call fails or the budget is reached; what the calls until then have cost is printed.  With --output FILE
the model's verdicts until then are kept in FILE.partial: the same command goes on from there, and --budget is what it
may cost this time.

Who judges in stage 2 says --endpoint, or else the file of --config: the rules of the embedded endpoint, which cost
nothing and are no language model, or a model at an OpenAI endpoint, which may cost money.  Without both it is the
rules, whatever keys the environment has.  The first line on standard error names the judge and the highest cost.  The
judges "exact_number" and module:function call no model."""

EPILOG = """\
examples:
  orchestrator judge answers.jsonl --stage 1
  orchestrator judge answers.jsonl --judge my_judges.py:contains
  orchestrator judge answers.jsonl --tolerance 0.15 --config configs/gpu.config --output verdicts.jsonl
  orchestrator judge answers.jsonl --endpoint openai --price-prompt 2.5 --price-cached 1.25 --price-completion 10 \\
      --budget 2

results: one JSON object a line, to --output or standard output; counts and costs on standard error.
exit status: 0 all rows are judged; 1 the arguments, the settings or a row are wrong; 2 a call failed, or the budget is
reached; 130 interrupted; 143 terminated."""


PROGRESS_S = 5.0


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("judge", DESCRIPTION, EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the rows to judge, as JSON lines")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="SHARE",
        help="relative error of a number, in place of JUDGE_TOLERANCE",
    )
    parser.add_argument(
        "--judge",
        metavar="NAME",
        help="three_stages, exact_number, or module:function of your own, in place of CONFIG_JUDGE",
    )
    parser.add_argument("--stage", type=int, choices=[1], help="1: rules only, without calls")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a .config with judge and endpoint (Kconfig's defaults)"
    )
    parser.add_argument(
        "--endpoint", choices=("rules", "openai"), help="who judges in stage 2 (that of --config; without it, rules)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the file to write, in place of standard output")
    common.add_cost(parser, "the calls of stage 2", default="that of --config, or of Kconfig without it")
    return parser


def run(arguments: argparse.Namespace) -> int:
    return common.handle_errors(lambda: _judge(arguments))


def _judge(arguments: argparse.Namespace) -> int:
    """Raises: SettingsError, OutputError."""
    from orchestrator.settings import SettingsError, judging_settings
    from tasks.dataset import DatasetError
    from tasks.judging.rows import count_answer_rows, read_answer_rows

    partial = _partial(arguments)
    chosen = None if arguments.endpoint is None else arguments.endpoint == "rules"
    settings, endpoint, rules = judging_settings(arguments.config, chosen)
    endpoint = _with_cost(endpoint, arguments)
    if arguments.tolerance is not None:
        settings = dataclasses.replace(settings, tolerance=arguments.tolerance)
    settings = dataclasses.replace(settings, name=arguments.judge or settings.name)
    grader = _load_grader(settings)
    partial = partial if grader is None else None  # only a model's verdicts are kept
    if grader is not None and arguments.stage is not None:
        raise SettingsError([f"--stage: only the judge 'three_stages' has stages, and it is {settings.name!r}"])
    raise_on_signals()
    try:
        with _regular(arguments.file) as path, _open_output(arguments.output) as out:
            total = count_answer_rows(path)
            rows = _with_progress(read_answer_rows(path), total)
            if grader is not None:
                found = _by_grader(rows, grader, settings.name)
            elif arguments.stage == 1:
                found = _by_rule(rows, settings)
            else:
                found = _by_all(rows, settings, endpoint, rules, partial)
            summary = _write(found, out)
    except DatasetError as error:
        return exit_status.fail(exit_status.WRONG, str(error))
    except KeyboardInterrupt:
        return _end(exit_status.INTERRUPTED, "interrupted", partial)
    except Terminated as ended:
        return _end(exit_status.BY_SIGNAL + ended.number, str(ended), partial)
    except _Failed as error:
        return _end(exit_status.BROKEN, str(error), partial)
    if partial is not None:
        partial.unlink(missing_ok=True)
    _print_status(summary)
    return exit_status.DONE


def _partial(arguments: argparse.Namespace) -> Path | None:
    """Where a model's verdicts are kept until all are there.

    Raises: OutputError for an output that is an input or a folder.
    """
    from orchestrator.output import OutputError, check_inputs
    from orchestrator.runs.kept_verdicts import partial_path

    if arguments.output is None:
        return None
    if arguments.output.is_dir():
        raise OutputError(f"--output: {arguments.output} is a folder; name a file")
    partial = partial_path(arguments.output)
    inputs = {"the rows to judge": arguments.file, **({"--config": arguments.config} if arguments.config else {})}
    for path in (arguments.output, partial):
        check_inputs("--output", path, inputs)
    return partial if arguments.stage is None else None


def _end(status: int, reason: str, partial: Path | None) -> int:
    """An end before the last verdict."""
    lines = [f"{reason}; nothing was written"]
    if partial is not None and partial.exists():
        lines.append(f"the verdicts of the model until then are in {partial}: the same command goes on from there")
    return exit_status.fail(status, *lines)


def _with_cost(endpoint: Endpoint, arguments: argparse.Namespace) -> Endpoint:
    """The endpoint with the prices and the budget of the command line.  Raises: SettingsError."""
    from orchestrator.settings import SettingsError
    from tasks.openai.provider import is_priced

    given = {
        "price_prompt": arguments.price_prompt,
        "price_cached": arguments.price_cached,
        "price_completion": arguments.price_completion,
        "budget_usd": arguments.budget,
    }
    endpoint = dataclasses.replace(endpoint, **{name: value for name, value in given.items() if value is not None})
    if endpoint.budget_usd and not is_priced(endpoint):
        raise SettingsError(["--budget: needs --price-prompt, --price-cached and --price-completion"])
    return endpoint


class _Failed(Exception):
    """A call failed for good."""


def _load_grader(settings: Judge) -> Grader | None:
    """The judge that calls no model; None for the three stages.  Raises: SettingsError."""
    from orchestrator.settings import SettingsError
    from tasks.judging.grader import make_grader, needs_model
    from tasks.judging.user_function import UserFunctionError

    if needs_model(settings.name):
        return None
    try:
        return make_grader(settings.name, _no_endpoint)
    except UserFunctionError as error:
        raise SettingsError([str(error)]) from None


def _no_endpoint() -> Grader:
    raise AssertionError("called for the three stages alone")


def _by_grader(rows: Iterator[AnswerRow], grader: Grader, name: str) -> Iterator[Verdict | None]:
    from tasks.judging.exact_number import GoldError
    from tasks.judging.grader import title_of
    from tasks.judging.user_function import UserFunctionError

    _print_status(f"judge: {title_of(name)}; cost: free")
    try:
        for row in rows:
            yield grader.grade(row.question, row.gold, row.answer)
    except (GoldError, UserFunctionError) as error:
        raise _Failed(f"{error}") from error


def _by_rule(rows: Iterator[AnswerRow], settings: Judge) -> Iterator[Verdict | None]:
    from orchestrator.runs.judge_file import judge_rows

    return judge_rows(rows, settings, None)


def _by_all(
    rows: Iterator[AnswerRow], settings: Judge, endpoint: Endpoint, rules: bool, partial: Path | None
) -> Iterator[Verdict | None]:
    # Here, because the SDK takes a second to import.
    from orchestrator.farm.embedded import ProcessFailed
    from orchestrator.report.announcement import highest_cost, provider_at
    from orchestrator.report.formatting import format_cost
    from orchestrator.runs.judge_file import judge_asker, judge_rows, open_endpoint
    from orchestrator.runs.kept_verdicts import KeptVerdicts
    from tasks.judging.verdict import JudgeReplyError
    from tasks.openai.budget import LocalBudget
    from tasks.openai.errors import CallError
    from tasks.openai.provider import RULES, is_priced, listed, url_of

    providers: set[str] = set()
    budget = LocalBudget(endpoint)  # its prices are those of the endpoint that is opened
    try:
        judge_name = provider_at(settings.model, endpoint, rules=rules)
        _print_status(f"judge: {judge_name}; cost: {highest_cost(endpoint, rules=rules)}")
        kept = KeptVerdicts(partial)
        if count := len(kept):
            _print_status(f"going on with {count:,} verdicts of {partial}")
        with open_endpoint(endpoint, rules) as opened:
            asker = judge_asker(opened, settings, budget, providers.add)
            yield from judge_rows(rows, settings, asker, kept, RULES if rules else url_of(endpoint))
    except (CallError, JudgeReplyError, ProcessFailed) as error:
        raise _Failed(f"{type(error).__name__}: {error}") from error
    finally:  # calls before a failure are paid too
        if providers:
            _print_status(f"judged by {listed(providers)}")
        used = budget.used
        cost = format_cost(budget.spending.spent if is_priced(endpoint) else None, endpoint.budget_usd)
        _print_status(f"{used.requests} calls, {used.prompt + used.completion:,} tokens, cost: {cost}")


def _with_progress(rows: Iterator[AnswerRow], total: int) -> Iterator[AnswerRow]:
    """A line on standard error every few seconds."""
    printed = time.monotonic()
    for number, row in enumerate(rows):
        if time.monotonic() - printed >= PROGRESS_S:
            printed = time.monotonic()
            _print_status(f"judged about {number:,} of {total:,} rows")
        yield row


@contextmanager
def _regular(path: Path) -> Iterator[Path]:
    """The file itself, or a copy of what can be read only once, such as a pipe.

    Raises: DatasetError for more than `PIPED_ROWS_BYTES` through a pipe.
    """
    from tasks.dataset import DatasetError
    from tasks.limits import MIB, PIPED_ROWS_BYTES

    if path.is_file() or not path.exists() or path.is_dir():
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as copy, path.open("rb") as once:
        copied = 0
        while part := once.read(MIB):
            copied += len(part)
            if copied > PIPED_ROWS_BYTES:
                raise DatasetError(
                    f"{path}: more than {PIPED_ROWS_BYTES:,} bytes; judge a file, or fewer rows at a time"
                )
            copy.write(part)
        copy.flush()
        yield Path(copy.name)


@contextmanager
def _open_output(path: Path | None) -> Iterator[BinaryIO]:
    """A file for the verdicts; all of them appear at the end.  Raises: OutputNotWritable."""
    from orchestrator.output import open_output

    if path is None:
        with tempfile.TemporaryFile() as out:
            yield out
            out.seek(0)
            shutil.copyfileobj(out, sys.stdout.buffer)
        return
    with open_output(path) as out:
        yield out


def _write(verdicts: Iterator[Verdict | None], out: BinaryIO) -> str:
    """Write one line for each verdict; returns the counts of each kind as text."""
    from orchestrator.runs.judge_file import verdict_row
    from tasks.openai.prompt_escaping import one_line

    outcomes: Counter[str] = Counter()
    stages: Counter[int] = Counter()
    for verdict in verdicts:
        out.write(one_line(verdict_row(verdict)).encode() + b"\n")
        outcomes["left open" if verdict is None else "correct" if verdict.is_correct else "wrong"] += 1
        if verdict is not None:
            stages[verdict.stage] += 1
    counted = ", ".join(f"{outcomes[word]} {word}" for word in ("correct", "wrong", "left open") if outcomes[word])
    by_stage = ", ".join(f"{stages[stage]} by stage {stage}" for stage in sorted(stages))
    return f"{outcomes.total()} rows: {counted}" + (f" ({by_stage})" if by_stage else "")


def _print_status(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _tolerance(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value
