"""What several commands share: options, exit statuses, and how an error becomes one clear line."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from orchestrator.output import OutputError
from orchestrator.settings import Settings, SettingsError, load_settings
from orchestrator.terminal_text import EscapingParser
from tasks.escape import escape_control
from tasks.secret import SecretError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
DONE, WRONG, BROKEN, PARKED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


def parser_for(command: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    return EscapingParser(
        prog=f"orchestrator {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """--config, --set and --output."""
    parser.add_argument(
        "--config", type=Path, default=Path(".config"), metavar="FILE",
        help="what `make menuconfig` writes (default: .config)",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides",
        help="set one option for this run, as if the file said so; may be repeated",
    )  # fmt: skip
    parser.add_argument("--output", metavar="DIR", help="the run's folder, in place of CONFIG_OUTPUT_DIR")


def add_farm(parser: argparse.ArgumentParser) -> None:
    """--config, for a command that only looks at a farm or tells it something."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="the .config that names the farm (without: WHETSTONE_REDIS_URL, else configs/embedded.config)",
    )  # fmt: skip


def read_settings(arguments: argparse.Namespace) -> Settings:
    """Raises: SettingsError."""
    overrides = list(arguments.overrides)
    if arguments.output is not None:
        overrides.append(f"OUTPUT_DIR={arguments.output}")
    return load_settings(arguments.config, overrides)


def fail(status: int, *lines: str) -> int:
    """Print lines to standard error and give back the status."""
    for line in lines:
        print(f"orchestrator: {escape_control(line, keep_lines=True)}", file=sys.stderr)
    return status


def handle_errors(work: Callable[[], int]) -> int:
    """Do `work`; an error that a user can mend is told in one line each, and never as a traceback."""
    from orchestrator.farm.connection import FarmUnavailable

    try:
        return work()
    except SettingsError as error:
        return fail(WRONG, *error.problems)
    except (OutputError, SecretError) as error:
        return fail(WRONG, str(error))
    except FarmUnavailable as error:
        return fail(BROKEN, str(error))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return fail(BROKEN, f"{where}{error.strerror}; make room on the disk and in {os.environ.get('TMPDIR', '/tmp')}")
