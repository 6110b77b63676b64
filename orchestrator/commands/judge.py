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
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.signals import Terminated, raise_on_signals

if TYPE_CHECKING:
    from tasks.judging.rows import AnswerRow
    from tasks.models import Endpoint, Verdict

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
    from orchestrator.runs.judge_file import judge_rows
    from orchestrator.runs.piped_rows import regular_file
    from orchestrator.runs.verdict_sources import JudgingFailed, by_grader, by_model, load_grader
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
    grader = load_grader(settings)
    partial = partial if grader is None else None  # only a model's verdicts are kept
    if grader is not None and arguments.stage is not None:
        raise SettingsError([f"--stage: only the judge 'three_stages' has stages, and it is {settings.name!r}"])
    raise_on_signals()
    try:
        with regular_file(arguments.file) as path, _open_output(arguments.output) as out:
            total = count_answer_rows(path)
            rows = _with_progress(read_answer_rows(path), total)
            if grader is not None:
                found = by_grader(rows, grader, settings.name, _print_status)
            elif arguments.stage == 1:
                found = judge_rows(rows, settings, None)
            else:
                found = by_model(rows, settings, endpoint, rules, partial, _print_status)
            with redirect_stdout(sys.stderr):  # what a function of the user prints is no verdict
                summary = _write(found, out)
    except DatasetError as error:
        return exit_status.fail(exit_status.WRONG, str(error))
    except KeyboardInterrupt:
        return _end(exit_status.INTERRUPTED, "interrupted", partial)
    except Terminated as ended:
        return _end(exit_status.BY_SIGNAL + ended.number, str(ended), partial)
    except JudgingFailed as error:
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


def _with_progress(rows: Iterator[AnswerRow], total: int) -> Iterator[AnswerRow]:
    """A line on standard error every few seconds."""
    printed = time.monotonic()
    for number, row in enumerate(rows):
        if time.monotonic() - printed >= PROGRESS_S:
            printed = time.monotonic()
            _print_status(f"judged about {number:,} of {total:,} rows")
        yield row


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
