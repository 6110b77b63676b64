"""`orchestrator collect`: Phase 0, from questions to the tokens that a model wastes."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import tempfile
from pathlib import Path

from orchestrator.collect.build import FarmOptions
from orchestrator.collect.settings import EMBEDDED, CollectSettings
from orchestrator.commands import common
from orchestrator.output import OutputFolder, OutputNotWritable
from orchestrator.settings import SettingsError
from orchestrator.signals import Terminated, raise_on_sigterm
from tasks import logs
from tasks.secret import secret

DESCRIPTION = """\
Collect what Phase 1 needs: sample verbose answers of the target, have the reflector compress them, keep the pairs whose
compressed answer the judge finds correct, and compare how often each token occurs on the two sides.

Everything comes from a YAML file in which every key is set (see configs/collect.yaml and docs/collect.md)."""

EPILOG = """\
exit status: 0 done; 1 the file or arguments are wrong, nothing was started; 2 something broke while running, and
the same command with --resume goes on; 130 interrupted, likewise."""

NO_LIMIT_REQUESTS, NO_LIMIT_TOKENS = 100_000, 1_000_000_000


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser_for("collect", DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the YAML file")
    parser.add_argument("--resume", action="store_true", help="skip what the checkpoint files hold")
    farm = parser.add_argument_group("the farm, of which the file says nothing")
    farm.add_argument("--farm", choices=("embedded", "external"), default="embedded",
                      help="start one for this command, or use the workers at --redis-url")  # fmt: skip
    farm.add_argument(
        "--redis-url", default="", metavar="URL", help="of an external farm (default: WHETSTONE_REDIS_URL)"
    )
    farm.add_argument("--farm-dir", type=Path, default=Path("outputs/farm"), metavar="DIR",
                      help="folder of the embedded farm (outputs/farm)")  # fmt: skip
    farm.add_argument("--requests-per-minute", type=_count, default=NO_LIMIT_REQUESTS, metavar="N",
                      help="most requests a minute to an OpenAI endpoint, of all workers together")  # fmt: skip
    farm.add_argument("--tokens-per-minute", type=_count, default=NO_LIMIT_TOKENS, metavar="N",
                      help="most tokens a minute, likewise")  # fmt: skip
    return parser


def run(arguments: argparse.Namespace) -> int:
    def work() -> int:
        from orchestrator.collect.settings import read_settings

        settings = read_settings(arguments.config)
        options = FarmOptions(arguments.farm, arguments.redis_url, arguments.farm_dir,
                              arguments.requests_per_minute, arguments.tokens_per_minute)  # fmt: skip
        check_surroundings(settings, options)
        return collect(settings, options, resume=arguments.resume)

    return common.handle_errors(work)


def check_surroundings(settings: CollectSettings, options: FarmOptions) -> None:
    """What the file and the command line must keep together.  Raises: SettingsError."""
    problems = []
    if options.redis_url and options.farm != "external":
        problems.append("--redis-url: goes with --farm external, and only with that")
    correctness = settings.phase0.correctness
    named = {"reflector.api_key_env": settings.reflector.api_key_env}
    named["phase0.correctness.evaluator_api_key_env"] = correctness.evaluator_api_key_env
    if settings.reflector.api_base == EMBEDDED:
        if options.farm == "external":
            problems.append('reflector.api_base: "embedded" needs --farm embedded')
    elif options.farm == "embedded":
        # Workers elsewhere have an environment of their own; these have ours.
        problems += [f"{key}: neither {name} nor the file named by {name}_FILE holds a key"
                     for key, name in named.items() if not secret(name)]  # fmt: skip
    if problems:
        raise SettingsError(problems)


def check_output_path(path: Path) -> None:
    """Whether the output can be written at the end, when all that it costs has been spent.  Raises: SettingsError."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SettingsError([f"phase0.output_path: {path}: {error.strerror}"]) from None


def collect(settings: CollectSettings, options: FarmOptions, *, resume: bool) -> int:
    """Collect, and return the exit status.  Raises: SettingsError, OutputError, FarmUnavailable."""
    from orchestrator.collect import runner
    from orchestrator.collect.document import DocumentError
    from orchestrator.dispatch.scheduler import CollectionFailed

    parts = runner.choose_split(settings)
    output = OutputFolder(Path(settings.output_dir))
    output.open()
    check_output_path(Path(settings.phase0.output_path))
    _log_to(output.path / "collect.log", settings.log_level)
    raise_on_sigterm()
    go_on = "go on with the same command and --resume"
    try:
        path = runner.collect(settings, options, parts, resume=resume)
    except CollectionFailed as failed:
        return common.fail(common.BROKEN, str(failed), go_on)
    except OutputNotWritable as error:
        return common.fail(common.BROKEN, str(error), f"make room, then {go_on}")
    except DocumentError as error:
        return common.fail(common.BROKEN, f"the output is not what its schema says: {error}")
    except KeyboardInterrupt:
        return common.fail(common.INTERRUPTED, f"interrupted; {go_on}")
    except Terminated:
        return common.fail(common.TERMINATED, f"terminated; {go_on}")
    finally:
        output.close()
    print(path)
    return common.DONE


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _log_to(path: Path, level: str) -> None:
    """What is logged goes to a file beside the checkpoints, and to standard error."""
    logging.raiseExceptions = False  # a full disk is told once, by the command, and not for each line of the log
    handlers: list[logging.Handler] = [logging.FileHandler(path, encoding="utf-8"), logging.StreamHandler(sys.stderr)]
    try:
        logs.set_up(handlers, level)
    except ValueError as error:  # of a format in the environment
        raise SettingsError([str(error)]) from None
