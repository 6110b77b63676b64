"""`orchestrator init`: four questions, and a complete .config."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import console
from orchestrator.commands import common
from orchestrator.console import command_line

if TYPE_CHECKING:
    from orchestrator.init import Answer

DESCRIPTION = """\
Ask four questions, and write a complete .config.

  model      "embedded", a folder, a Hugging Face id, or one of these and @URL of a running SGLang server
  questions  a file; columns with unusual names behind it, as in  questions.csv question=Frage answer=Antwort
  judge      "rules" (free), "exact_number" (free), file.py:function (free), or a model such as gpt-4o
  budget     as in  "60 evaluations" of the search, "$5", at which the run parks, or both

Each answer is checked when it is given.  An answer that is given as an option is not asked for.  `make menuconfig`
shows and changes everything that was written."""

EPILOG = """\
examples:
  orchestrator init
  orchestrator init --model embedded --data configs/data/sample_questions.jsonl --judge rules --budget "60 evaluations"
  orchestrator init --data questions.csv --judge gpt-4o --budget '$5' --config my.config

results: the file of --config (.config).  Nothing else is started.
exit status: 0 written; 1 an answer is wrong or missing; 130 interrupted."""


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("init", DESCRIPTION, EPILOG)
    parser.add_argument("--model", metavar="MODEL", help="the model to steer")
    parser.add_argument("--data", metavar="FILE", help="the questions")
    parser.add_argument("--judge", metavar="JUDGE", help="who decides whether an answer is right")
    parser.add_argument("--budget", metavar="AMOUNT", help="what the run may take at most")
    parser.add_argument("--config", type=Path, default=Path(".config"), metavar="FILE", help="what to write (.config)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="the run's output folder (outputs/run)")
    parser.add_argument("--replace", action="store_true", help="replace a file that exists")
    common.add_prices(parser.add_argument_group("a judge's model"), "those of gpt-4o for it, else unknown")
    return parser


def run(arguments: argparse.Namespace) -> int:

    def work() -> int:
        try:
            return initialise(arguments)
        except ValueError as error:
            return console.fail(console.WRONG, str(error))

    return common.handle_errors(work)


def initialise(arguments: argparse.Namespace) -> int:
    from orchestrator import init
    from orchestrator.runs.folder import writing
    from orchestrator.settings import write_config

    if arguments.config.exists() and not arguments.replace:
        raise ValueError(f"{arguments.config} exists; give --replace, or write another file with --config")
    folder = arguments.output or _free_folder()
    if (folder / "run.json").exists():
        raise ValueError(f"{folder} holds a run: name another folder with --output")
    model = _answer(arguments, "model", init.read_model, "embedded")
    sizes = init.SIZES[model.options["DEVICE"]]
    sample = str(init.SAMPLE) if init.SAMPLE.exists() else ""
    data = _answer(arguments, "data", lambda text: init.read_data(text, sizes), sample)
    is_external = model.options["FARM"] == "external"
    given = [getattr(arguments, f"price_{kind}") for kind in common.PRICES]
    prices = "" if None in given else " ".join(f"{price:g}" for price in given)
    judge = _answer(
        arguments,
        "judge",
        lambda text: init.read_judge(text, data.examples, prices, external=is_external),
        "" if is_external else "rules",
    )
    budget = _answer(arguments, "budget", lambda text: init.read_budget(text, judge.options), "60 evaluations")
    settings = init.settings_of({**model.options, **data.options, **judge.options, **budget.options}, folder)
    with writing(arguments.config):
        write_config(settings, arguments.config)
    print(f"written: {arguments.config}\nstart it: {command_line('evolve', '--config', arguments.config)}")
    return console.DONE


def _answer(arguments: argparse.Namespace, name: str, check: Callable[[str], Answer], default: str) -> Answer:
    """The checked answer, from the option or from a person at a terminal, who is asked until it can be used."""

    given = getattr(arguments, name)
    if given is None and not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError(f"there is no terminal to ask at: give --{name}")
    with suppress(ImportError):  # not every Python has it; the arrow keys and Tab work in what is typed
        import readline

        readline.parse_and_bind("tab: complete")
        readline.set_completer_delims(" =\t\n")
    while True:
        try:
            found = check(given if given is not None else input(f"{name} [{default}]: ").strip() or default)
        except EOFError:
            raise ValueError("the input has ended; nothing was written") from None
        except ValueError as error:
            if given is not None:
                raise
            console.fail(console.WRONG, *str(error).splitlines()[:10])
        else:
            print(f"   {found.about}")
            return found


def _free_folder() -> Path:
    """outputs/run, or else outputs/run-2 and so on: a folder that no run has yet."""
    folder, number = Path("outputs/run"), 1
    while folder.exists():
        number += 1
        folder = Path(f"outputs/run-{number}")
    return folder
