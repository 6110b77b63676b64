"""What commands share: their class, their options, and errors as one clear line.

Imports only what `--help` needs; the rest is imported when a command runs.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from orchestrator import console
from tasks.common.files import NO_ROOM
from tasks.common.text import escape_control

if TYPE_CHECKING:
    from orchestrator.settings.farm import FarmOptions
    from orchestrator.settings.options import Settings

DEFAULT_CONFIG = Path(".config")

Decorator = Callable[[Callable[..., int]], Callable[..., int]]
Drives = bool | Callable[[Mapping[str, Any]], bool]
O = TypeVar("O", bound="FarmOptions")  # noqa: E741


class Command(click.Command):
    """A command, which returns its exit status.  Its help is its docstring as it is written, its options in between.

    `drives`: whether it drives a run, with these parameters.  A run goes on when its output is lost, and parks when a
    disk is full.
    """

    def __init__(self, *arguments: Any, drives: Drives = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.drives = drives
        about, examples, rest = inspect.cleandoc(self.help or "").partition("examples:\n")
        self.help, self.epilog = about.rstrip(), examples + rest or self.epilog

    def invoke(self, ctx: click.Context) -> Any:
        if drives := self.drives(ctx.params) if callable(self.drives) else self.drives:
            console.keep_running_without_output()
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if (status := explain(error, console.PARKED if drives else console.BROKEN)) is None:
                raise
            return status

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{self.help}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{self.epilog}\n" if self.epilog else "")


def command(*, drives: Drives = False) -> Callable[[Callable[..., int]], Command]:
    return click.command(cls=Command, drives=drives)


class CommandWithForms(Command, click.Group):
    """A command that has other forms, each with arguments of its own: `orchestrator guide promote RUN`."""

    command_class = Command

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, invoke_without_command=True, subcommand_metavar="[FORM ...]", **options)


def explain(error: Exception, full_disk: int) -> int | None:
    from orchestrator.farm import FarmUnavailable
    from orchestrator.runs.folder import OutputError, OutputNotWritable, RunInUse
    from orchestrator.settings import SettingsError
    from tasks.common.logs import SecretError
    from tasks.store.address import AddressError

    status, lines = console.WRONG, [str(error)]
    match error:
        case SettingsError():
            lines = list(error.problems)
        case RunInUse():
            status = console.IN_USE
        case OutputNotWritable(is_full=True):
            status = full_disk
        case SecretError() | AddressError() | OutputError():  # Celery's application is made of the environment
            pass
        case FarmUnavailable():
            status = console.BROKEN
        case BrokenPipeError():  # for example `head`, which has read enough
            console.abandon_output()
            status, lines = console.OUTPUT_CLOSED, []
        case OSError() if error.filename or error.errno in NO_ROOM:
            console.abandon_output()
            is_full = error.errno in NO_ROOM
            where = f"{error.filename}: " if error.filename else ""
            hint = f"; make room on the disk and in {os.environ.get('TMPDIR', '/tmp')}" if is_full else ""
            status, lines = full_disk if is_full else console.BROKEN, [f"{where}{error.strerror}{hint}"]
        case _:
            return None
    return console.fail(status, *lines)


path_option = click.Path(path_type=Path)
run_argument = click.argument("run", metavar="RUN", type=path_option)
runs_argument = click.argument("runs", metavar="RUN...", type=path_option, nargs=-1, required=True)
json_option = click.option("--json", "as_json", is_flag=True, help="print JSON")
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="NAME=VALUE",
    help="replace the value of one option; may be repeated",
)  # fmt: skip
farm_option = click.option(
    "--config", type=path_option, metavar="FILE",
    help="a .config that names the farm (default: the farm of WHETSTONE_REDIS_URL, else that of `docker compose up` in "
    "this folder, else that of .config, else that of configs/embedded.config)",
)  # fmt: skip
plain_option = click.option("--plain", is_flag=True, help="print plain lines, also in a terminal")
retry_wait_option = click.option(
    "--retry-wait", "retry_wait_s", type=float, default=0.0, metavar="SECONDS",
    help="when only failed tasks are left, wait this long for a retry before parking (0)",
)  # fmt: skip


def decorate(made: Sequence[Any]) -> Decorator:
    def decorated(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(made):
            function = option(function)
        return function

    return decorated


def settings_options(config: Path | None = DEFAULT_CONFIG) -> Decorator:
    compose = "and a farm of `docker compose up` runs in this folder, ops/compose.config"
    other = compose if config else "configs/embedded.config"
    text = f"the settings file (default: {DEFAULT_CONFIG}; if there is none, {other})"
    return decorate([
        click.option("--config", type=path_option, default=config, metavar="FILE", help=text),
        set_option,
        click.option("--output", metavar="DIR", help="the output folder, in place of CONFIG_OUTPUT_DIR"),
    ])  # fmt: skip


def field_options(kind: type[FarmOptions]) -> Decorator:
    """An option for each field of the model that has a description."""
    kinds, made = get_type_hints(kind), []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        about = [one.description for one in getattr(hint, "__metadata__", ()) if getattr(one, "description", None)]
        type_ = kinds[name]
        if get_origin(type_) is Literal:
            type_ = click.Choice(get_args(type_))
        elif get_args(type_):  # of `float | None` the number
            type_ = next(one for one in get_args(type_) if isinstance(one, type))
        flag: dict[str, Any] = {"is_flag": True} if type_ is bool else {"type": type_}
        made += [click.option(option_of(name), name, help=text, **flag) for text in about]
    return decorate(made)


def option_of(field: str) -> str:
    """`--retry-wait` of `retry_wait_s`: fields have their units, options do not."""
    return "--" + field.removeprefix("is_").removesuffix("_s").removesuffix("_usd").replace("_", "-")


def parse_options(kind: type[O], given: Mapping[str, Any]) -> O:
    """The options of a command whose file has no keys of them; None is one that was not given."""
    from orchestrator.settings import SettingsError
    from orchestrator.settings.documents import parse_document
    from orchestrator.settings.farm import FARM_CHECKS

    try:
        return parse_document({name: value for name, value in given.items() if value is not None}, kind, FARM_CHECKS)
    except SettingsError as error:
        named = (problem.partition(":") for problem in error.problems)
        raise SettingsError([f"{option_of(name)}:{reason}" for name, _, reason in named]) from None


def load_given(config: Path, overrides: Sequence[str], output: str | None) -> Settings:
    from orchestrator.settings.kconfig import load_settings

    return load_settings(config_file(config), overrides_of(overrides, output))


def overrides_of(overrides: Sequence[str], output: str | None) -> list[str]:
    """What --set and --output put in place of the file's values, as NAME=VALUE."""
    return [*overrides, *([] if output is None else [f"OUTPUT_DIR={output}"])]


def config_file(named: Path) -> Path:
    """The file that is named; that of this folder's compose farm where none is named and there is no .config."""
    from orchestrator.farm.connection import COMPOSE_CONFIG, compose_address

    if named != DEFAULT_CONFIG or named.exists() or compose_address(Path.cwd()) is None:
        return named
    print(f"no .config: the settings are {COMPOSE_CONFIG}, for the farm of docker compose", file=sys.stderr)
    return COMPOSE_CONFIG


def print_found(as_json: bool, value: object, lines: Iterable[str]) -> None:
    if as_json:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        print(text.encode("utf-8", "backslashreplace").decode())  # an argument may be no UTF-8
        return
    for line in lines:
        print(escape_control(line, keep_lines=True))
