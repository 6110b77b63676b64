"""`orchestrator init`: four questions, and a complete .config with what its run will take."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator import exit_status
from orchestrator.commands import common
from orchestrator.shell import command_line
from orchestrator.signals import raise_on_signals

if TYPE_CHECKING:
    from orchestrator.init.budget import RunBudget
    from orchestrator.init.fitting import FittedRun
    from orchestrator.init.plan import Answers, Planner
    from orchestrator.settings import Settings

DESCRIPTION = """\
Ask four questions, and write a complete .config, with the time and the cost that its run will take at most.

  model      "embedded", a folder, a Hugging Face id, or one of these and @URL of a running SGLang server
  questions  a file; columns with unusual names behind it, as in  questions.csv question=Frage answer=Antwort
  judge      "rules" (free), "exact_number" (free), module:function (free), or a model such as gpt-4o
  budget     as in  "$5", "60 evaluations", "2 hours", "20 min": the largest run that needs no more at most is written

Each answer is checked when it is given.  An answer that is given as an option is not asked for.  The target's speed is
measured with a few real answers where it can be reached from here, and assumed otherwise.  A file that exists is never
replaced without asking.  `make menuconfig` shows and changes everything that was written."""

EPILOG = """\
examples:
  orchestrator init
  orchestrator init --model embedded --data configs/data/sample_questions.jsonl --judge rules --budget "20 min" --yes
  orchestrator init --data questions.csv --judge gpt-4o --budget '$5' --config my.config

results: the file of --config (.config); what its run takes on standard output.  Nothing else is started.
exit status: 0 written; 1 an answer is wrong or missing, or nobody wanted it written; 130 interrupted."""

DEFAULTS = {"data": "configs/data/sample_questions.jsonl"}


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("init", DESCRIPTION, EPILOG)
    parser.add_argument("--model", metavar="MODEL", help="the model to steer")
    parser.add_argument("--data", metavar="FILE", help="the questions")
    parser.add_argument("--judge", metavar="JUDGE", help="who decides whether an answer is right")
    parser.add_argument("--budget", metavar="AMOUNT", help="what the run may take at most")
    parser.add_argument("--config", type=Path, default=Path(".config"), metavar="FILE", help="what to write (.config)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="the run's output folder (outputs/run)")
    parser.add_argument("--yes", action="store_true", help="write without asking, but replace no file")
    parser.add_argument("--replace", action="store_true", help="replace the file without asking")
    parser.add_argument("--no-measure", action="store_true", help="assume the target's speed")
    common.add_prices(parser.add_argument_group("a judge's model"), "those of gpt-4o for it, else unknown")
    common.add_json(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    from orchestrator.init.asking import NoAnswer, WrongAnswer

    def work() -> int:
        try:
            return initialise(arguments)
        except (WrongAnswer, NoAnswer) as error:
            return exit_status.fail(exit_status.WRONG, str(error))

    return common.handle_errors(work)


def initialise(arguments: argparse.Namespace) -> int:
    """Raises: WrongAnswer, NoAnswer, SettingsError, OutputNotWritable."""
    from orchestrator.init.asking import can_ask, confirm
    from orchestrator.output import writing
    from orchestrator.settings import write_config

    raise_on_signals()  # what measures the target is stopped
    is_asking = can_ask() and not arguments.json
    if not is_asking:
        _check_complete(arguments)
    _check_places(arguments, is_asking=is_asking)
    answers = _first_answers(arguments, is_asking=is_asking)
    planner = _planner(arguments, answers)
    budget, fitted = _budget(arguments, planner, is_asking=is_asking)
    settings = _settings(planner, budget, fitted)
    about = list(_lines(budget, fitted, planner))
    if is_asking:
        print("\n".join(about))
        if not arguments.yes and not confirm(f"write this to {arguments.config}?", default=True):
            return exit_status.fail(exit_status.WRONG, "nothing was written")
    with writing(arguments.config):
        write_config(settings, arguments.config)
    done = [f"written: {arguments.config}", f"start it: {command_line('evolve', '--config', arguments.config)}"]
    values = _as_json(arguments.config, budget, fitted, planner)
    common.print_found(arguments, values, done if is_asking else [*about, *done])
    return exit_status.DONE


def _check_complete(arguments: argparse.Namespace) -> None:
    """Without a terminal everything must be given.  Raises: WrongAnswer."""
    from orchestrator.init.asking import WrongAnswer

    missing = [f"--{name}" for name in ("model", "data", "judge", "budget", "yes") if not getattr(arguments, name)]
    if missing:
        raise WrongAnswer(f"there is no terminal to ask at: give {', '.join(missing)}")


def _check_places(arguments: argparse.Namespace, *, is_asking: bool) -> None:
    """Refuse what cannot be written, and ask whether a file may be replaced, before anything else is answered.

    Raises: WrongAnswer, NoAnswer, OutputNotWritable.
    """
    from orchestrator.init.asking import WrongAnswer, confirm
    from orchestrator.init.config import check_output, check_writable

    check_writable(arguments.config)
    if arguments.output is not None:
        check_output(arguments.output)
    if not arguments.config.exists() or arguments.replace:
        return
    if not is_asking:
        raise WrongAnswer(f"{arguments.config} exists; give --replace, or write another file with --config")
    if not confirm(f"{arguments.config} exists; replace it at the end?", default=False):
        raise WrongAnswer("nothing was written; --config names another file")
    arguments.replace = True


def _first_answers(arguments: argparse.Namespace, *, is_asking: bool) -> Answers:
    from orchestrator.init.judge import read_judge
    from orchestrator.init.model import read_model
    from orchestrator.init.plan import Answers
    from orchestrator.init.questions import read_questions_file

    data = DEFAULTS["data"] if Path(DEFAULTS["data"]).exists() else ""
    given = {kind.upper(): getattr(arguments, f"price_{kind}") for kind in common.PRICES}
    prices = {kind: f"{price:g}" for kind, price in given.items() if price is not None}
    model = _answer(arguments.model, "1  model", read_model, "embedded", is_asking=is_asking)
    questions = _answer(arguments.data, "2  questions", read_questions_file, data, is_asking=is_asking)
    rows = [example for some in questions.examples.values() for example in some]
    external = model.options["FARM"] == "external"

    def check(text: str) -> Any:
        return read_judge(text, rows, prices, external=external)

    judge = _answer(arguments.judge, "3  judge", check, "" if external else "rules", is_asking=is_asking)
    return Answers(model, questions, judge)


def _answer(given: str | None, question: str, check: Any, default: str, *, is_asking: bool) -> Any:
    """The checked answer, from the option or from a person; what was found is printed."""
    from orchestrator.init.asking import ask

    found = check(given) if given is not None else ask(question, check, default)
    print(f"   {found.about}", file=sys.stdout if is_asking else sys.stderr)
    return found


def _planner(arguments: argparse.Namespace, answers: Answers) -> Planner:
    from orchestrator.init.config import free_folder
    from orchestrator.init.fitting import MOST_GENERATIONS
    from orchestrator.init.plan import Planner, rates_for

    folder = arguments.output or free_folder()
    settings = answers.settings(answers.questions.sizes(), MOST_GENERATIONS, 0.0, folder)
    rates = rates_for(settings, answers, lambda line: print(line, file=sys.stderr), measure=not arguments.no_measure)
    return Planner(settings, answers, rates)


def _budget(arguments: argparse.Namespace, planner: Planner, *, is_asking: bool) -> tuple[RunBudget, FittedRun]:
    from orchestrator.init.asking import ask
    from orchestrator.init.budget import read_budget

    def check(text: str) -> tuple[RunBudget, FittedRun]:
        budget = read_budget(text, planner.answers.judge)
        return budget, planner.plan(budget)

    if arguments.budget is not None or not is_asking:
        return check(arguments.budget)
    return ask("4  budget", check, "1 hour")


def _settings(planner: Planner, budget: RunBudget, fitted: FittedRun) -> Settings:
    """With a paid judge the run parks before it costs more than the budget, or than it may take at most."""
    limit, folder = _most_dollars(budget, fitted), planner.settings.output_dir
    return planner.answers.settings(fitted.sizes, fitted.generations, limit or 0.0, folder)


def _most_dollars(budget: RunBudget, fitted: FittedRun) -> float | None:
    """None where prices are not known."""
    dollars = fitted.estimate.most.dollars
    if dollars is None:
        return None
    return math.ceil(100 * min(dollars, budget.amount if budget.unit == "dollars" else dollars)) / 100


def _lines(budget: RunBudget, fitted: FittedRun, planner: Planner) -> Iterator[str]:
    """What the run asks, what each part of it takes, and what all of it takes at most."""
    from orchestrator.init.fitting import POPULATION
    from orchestrator.report.formatting import format_count, format_duration, format_money
    from orchestrator.report.layout import format_table

    estimate, sizes = fitted.estimate, fitted.sizes
    sets = f"{sizes['training']} questions to train on, {sizes['validation']} to choose on, {sizes['test']} to test on"
    yield f"{sets}; {format_count(fitted.generations, 'generations')} of {POPULATION} candidates (CMA-ES)"
    yield ""
    rows = [(part.name, f"{part.answers:,} answers" if part.answers else "", format_duration(part.seconds))
            for part in estimate.parts]  # fmt: skip
    yield from (f"  {line}" for line in format_table(rows))
    yield ""
    expected, most = estimate.expected, estimate.most
    yield f"time   about {format_duration(expected.seconds)}, at most {format_duration(most.seconds)}"
    if planner.answers.judge.is_paid:
        limit = format_money(_most_dollars(budget, fitted))
        yield f"cost   about {format_money(expected.dollars)}, at most {limit}, where the run parks"
        yield f"calls  about {expected.calls:,.0f}, at most {most.calls:,.0f}"
    else:
        yield "cost   free"
    yield f"rates  {planner.rates.source}"


def _as_json(config: Path, budget: RunBudget, fitted: FittedRun, planner: Planner) -> dict[str, Any]:
    from orchestrator.init.fitting import POPULATION

    estimate = fitted.estimate
    return {
        "config": str(config),
        "budget": str(budget),
        "questions": dict(fitted.sizes),
        "generations": fitted.generations,
        "population": POPULATION,
        "parts": [dataclasses.asdict(part) for part in estimate.parts],
        "expected": dataclasses.asdict(estimate.expected),
        "most": {**dataclasses.asdict(estimate.most), "dollars": _most_dollars(budget, fitted)},
        "rates": dataclasses.asdict(planner.rates),
    }
