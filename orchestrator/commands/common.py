"""Shared by the commands: options, JSON output, and errors as one clear line.

Imports only what `--help` needs; the rest is imported when a command runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from orchestrator import console
from orchestrator.completing import complete_run, complete_setting, with_completer
from tasks.common.files import NO_ROOM
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.settings import Settings
    from orchestrator.settings.documents import Document

DEFAULT_CONFIG = Path(".config")


LISTED = """
results: standard output, a table or with --json JSON; errors go to standard error.  Nothing is changed."""
"""The end of the help of a command that only shows something."""

PRICES = ("prompt", "cached", "completion")

D = TypeVar("D", bound="Document")

OF_A_FARM = "exit status: 0 done; 1 the arguments or the settings are wrong; 2 the farm cannot be reached."


class EscapingParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose error messages are safe to print."""

    def error(self, message: str) -> NoReturn:
        super().error(escape_control(message, keep_lines=True))


class InterleavingParser(EscapingParser):
    """Takes options between the arguments of a list, too, as in `retry RUN --set X=1 TASK`."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        return self.parse_intermixed_args(args, namespace)


def parser_for(
    command: str, description: str, epilog: str = "", kind: type[EscapingParser] = EscapingParser
) -> argparse.ArgumentParser:
    """The parser of a command.  Its epilog has the parts "examples:", "results:" and "exit status:"."""
    return kind(
        prog=f"orchestrator {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_settings(parser: argparse.ArgumentParser, config: Path = DEFAULT_CONFIG) -> None:
    """--config, whose default is `config`, --set and --output."""
    default = ".config; without one, and with a farm of `docker compose up` in this folder, ops/compose.config"
    parser.add_argument(
        "--config", type=Path, default=config, metavar="FILE",
        help=f"a settings file, as `make menuconfig` writes it (default: "
             f"{default if config == DEFAULT_CONFIG else config})",
    )  # fmt: skip
    add_set(parser, "set one option in place of the file's value; may be repeated")
    parser.add_argument("--output", metavar="DIR", help="output folder, in place of CONFIG_OUTPUT_DIR")


def add_set(parser: argparse.ArgumentParser, text: str) -> None:
    """--set, described by `text`."""
    action = parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides", help=text
    )  # fmt: skip
    with_completer(action, complete_setting)


def add_forms(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """FORM, for a command that takes --config FILE or names another form, which has arguments of its own."""
    parser.usage = f"{parser.prog} --config FILE [option ...]\n       {parser.prog} FORM ..."
    return parser.add_subparsers(
        dest="form", metavar="FORM", prog=parser.prog, help="another form of the command, as listed below"
    )


def parse_options(arguments: argparse.Namespace, kind: type[D]) -> D:
    """The options of a command whose file has no keys of them: `arguments` have the names of the fields of `kind`."""
    from orchestrator.settings import SettingsError
    from orchestrator.settings.documents import key_names, parse_document

    names = [name for name in key_names(kind) if hasattr(arguments, name)]
    try:
        return parse_document({name: getattr(arguments, name) for name in names}, kind)
    except SettingsError as error:
        named = (problem.partition(":") for problem in error.problems)
        raise SettingsError([f"{_option_of(name)}:{reason}" for name, _, reason in named]) from None


def _option_of(field: str) -> str:
    """`--retry-wait` of `retry_wait_s`: fields have their units, options do not."""
    return "--" + field.removesuffix("_s").removesuffix("_usd").replace("_", "-")


def add_farm(parser: argparse.ArgumentParser) -> None:
    """--config, for a command that needs only the address of a farm."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="the .config that names the farm (default: WHETSTONE_REDIS_URL, else the farm of `docker compose "
             "up` in this folder, else configs/embedded.config)",
    )  # fmt: skip


def add_own_farm(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options of the farm and --callbacks, for a command whose file says nothing of them.  Returns their group."""
    farm = parser.add_argument_group("the farm")
    farm.add_argument("--farm", choices=("embedded", "external"), default="embedded",
                      help="start one for this command, or use the workers at --redis-url")  # fmt: skip
    farm.add_argument("--redis-url", default="", metavar="URL",
                      help="of an external farm (default: WHETSTONE_REDIS_URL)")  # fmt: skip
    farm.add_argument("--farm-dir", default="outputs/farm", metavar="DIR",
                      help="folder of the embedded farm (outputs/farm)")  # fmt: skip
    add_retry_wait(farm)
    parser.add_argument("--callbacks", default="", metavar="NAMES",
                        help="what follows the run, as CONFIG_CALLBACKS of an evolution (docs/python.md)")  # fmt: skip
    return farm


def add_retry_wait(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--retry-wait", type=float, default=0.0, metavar="SECONDS", dest="retry_wait_s",
                        help="when only failed tasks remain, wait so long for a retry before parking (0)")  # fmt: skip


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """--log-level, for a command whose file has no key of it."""
    parser.add_argument("--log-level", choices=("debug", "logging", "warning"), default="logging",
                        help="what is logged; `logging` is INFO (logging)")  # fmt: skip


def add_cost(parser: argparse.ArgumentParser, calls: str) -> None:
    """--price-prompt, --price-cached, --price-completion and --budget."""
    cost = parser.add_argument_group(f"cost, of {calls}")
    add_prices(cost, "unknown")
    cost.add_argument("--budget", type=_dollars, metavar="USD", dest="budget_usd", default=0.0,
                      help="stop before the calls cost more; needs the prices (0: no limit)")  # fmt: skip


def add_prices(parser: argparse._ActionsContainer, default: str) -> None:
    """--price-prompt, --price-cached and --price-completion."""
    for kind in PRICES:
        text = f"price of a million {kind} tokens (default: {default})"
        parser.add_argument(f"--price-{kind}", type=_dollars, metavar="USD", help=text)


def _dollars(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not an amount of US dollars")
    return value


def add_run(parser: argparse.ArgumentParser, **options: Any) -> None:
    """RUN, the output folder of a run."""
    action = parser.add_argument("run", metavar="RUN", type=Path, **{"help": "the run's output folder", **options})
    with_completer(action, complete_run)


def add_run_list(parser: argparse.ArgumentParser) -> None:
    """RUN, one or several; `runs` of the arguments."""
    action = parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="the output folder of a run")
    with_completer(action, complete_run)


def add_json(parser: argparse._ActionsContainer) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print JSON; docs/start.md has the keys")


def print_found(arguments: argparse.Namespace, value: object, lines: Iterable[str]) -> None:
    """Print what a command has found: `value` as JSON with --json, else the lines."""
    if arguments.json:
        print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
        return
    for line in lines:
        print(escape_control(line, keep_lines=True))


def settings_from_arguments(arguments: argparse.Namespace) -> Settings:
    """The settings that the options of `add_settings` name."""
    from orchestrator.settings import load_settings

    return load_settings(config_file(arguments.config), overrides_of(arguments))


def is_without_settings(named: Path) -> bool:
    """Whether no file is named, there is no .config, and no compose farm of this folder has settings."""
    from orchestrator.farm import compose

    return named == DEFAULT_CONFIG and not named.exists() and compose.compose_address(Path.cwd()) is None


def overrides_of(arguments: argparse.Namespace) -> list[str]:
    """What --set and --output put in place of the file's values, as NAME=VALUE."""
    output = [] if arguments.output is None else [f"OUTPUT_DIR={arguments.output}"]
    return [*arguments.overrides, *output]


def config_file(named: Path) -> Path:
    """The file that is named; that of this folder's compose farm where none is named and there is no .config."""
    from orchestrator.farm import compose

    if named != DEFAULT_CONFIG or named.exists() or is_without_settings(named):
        return named
    print(f"no .config: the settings are {compose.CONFIG}, for the farm of docker compose", file=sys.stderr)
    return compose.CONFIG


def handle_errors(work: Callable[[], int], *, full_disk: int = console.BROKEN) -> int:
    """Do `work`; print an error that a user can fix as one line for each problem, never as a traceback.

    `full_disk` is the exit status when a disk takes no more: a command that drives a run parks.
    """
    from tasks.common.logs import SecretError
    from tasks.store.client import AddressError

    try:
        from orchestrator.farm.connection import FarmUnavailable
        from orchestrator.runs.folder import OutputError, OutputNotWritable, RunInUse
        from orchestrator.settings import SettingsError
    except (SecretError, AddressError) as error:  # Celery's application is made of the environment
        return console.fail(console.WRONG, str(error))
    try:
        return work()
    except SettingsError as error:
        return console.fail(console.WRONG, *error.problems)
    except (OutputError, SecretError, AddressError) as error:
        status = console.IN_USE if isinstance(error, RunInUse) else console.WRONG
        is_full = isinstance(error, OutputNotWritable) and error.is_full
        return console.fail(full_disk if is_full else status, str(error))
    except FarmUnavailable as error:
        return console.fail(console.BROKEN, str(error))
    except OSError as error:
        is_full = error.errno in NO_ROOM
        if not error.filename and not is_full:
            raise  # one of the program
        hint = f"; make room on the disk and in {os.environ.get('TMPDIR', '/tmp')}" if is_full else ""
        where = f"{error.filename}: " if error.filename else ""
        return console.fail(full_disk if is_full else console.BROKEN, f"{where}{error.strerror}{hint}")
