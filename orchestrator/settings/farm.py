"""What each kind with a YAML file has: options of the farm, of which the file says nothing, and an output folder."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictStr

from orchestrator.settings.documents import Count, Document, Text
from orchestrator.settings.options import no_password, optional, redis_address
from tasks.common.logs import secret

LogLevel = Annotated[
    Literal["debug", "logging", "warning"], Field(description="the lowest level to log; `logging` is INFO (logging)")
]


LEVELS = {"debug": "DEBUG", "logging": "INFO", "warning": "WARNING"}
"""The level of a log, as Python names it, by `log_level`."""


def _price(kind: str) -> object:
    return Field(ge=0, lt=1e9, description=f"price of a million {kind} tokens, in USD (default: unknown)")


@dataclass(frozen=True)
class FarmOptions(Document):
    """The farm, for every kind.  A field with a description is an option of the kind's command."""

    farm: Annotated[
        Literal["embedded", "external"],
        Field(description="start a farm for this command, or use the workers at --redis-url (embedded)"),
    ] = "embedded"
    redis_url: Annotated[
        StrictStr,
        optional(redis_address),
        no_password("WHETSTONE_REDIS_PASSWORD"),
        Field(description="address of an external farm (default: WHETSTONE_REDIS_URL)"),
    ] = ""
    farm_dir: Annotated[Text, Field(description="folder of the embedded farm (outputs/farm)")] = "outputs/farm"
    retry_wait_s: Annotated[
        StrictFloat,
        Field(ge=0, description="when only failed tasks are left, wait so many seconds for a retry, then park (0)"),
    ] = 0.0
    callbacks: Annotated[
        StrictStr, Field(description="callbacks that follow the run, named as in CONFIG_CALLBACKS (docs/python.md)")
    ] = ""

    @property
    def folder(self) -> Path:
        return Path(self.farm_dir).resolve()


@dataclass(frozen=True)
class EndpointOptions(FarmOptions):
    """The limits and prices of a kind that calls OpenAI endpoints: of each endpoint, over all workers together."""

    requests_per_minute: Annotated[Count, Field(description="most requests a minute to an endpoint (100000)")] = 100_000
    tokens_per_minute: Annotated[Count, Field(description="most tokens a minute to an endpoint (10^9)")] = 1_000_000_000
    price_prompt: Annotated[StrictFloat | None, _price("prompt")] = None
    price_cached: Annotated[StrictFloat | None, _price("cached")] = None
    price_completion: Annotated[StrictFloat | None, _price("completion")] = None
    budget_usd: Annotated[
        StrictFloat,
        Field(ge=0, lt=1e9, description="USD; park before the calls cost more; needs the prices (0: no limit)"),
    ] = 0.0

    @property
    def prices(self) -> tuple[float | None, ...]:
        """US dollars a million tokens of prompt, cached prompt and completion; None where unknown."""
        return (self.price_prompt, self.price_cached, self.price_completion)


def _check_address(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if values.get("redis_url") and values.get("farm") != "external":
        yield "redis_url", "goes with an external farm, and only with that"


def _check_prices(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    prices = [values.get(f"price_{kind}") for kind in ("prompt", "cached", "completion")]
    if values.get("budget_usd") and None in prices:
        yield (
            "budget_usd",
            "needs the prices --price-prompt, --price-cached and --price-completion (--set price_prompt and so on)",
        )


FARM_CHECKS = (_check_address, _check_prices)


def missing_key(name: str, variable: str) -> Iterator[str]:
    """That the variable which the setting `name` names has no key, in the environment of this command."""
    if not secret(variable):
        yield f"{name}: neither {variable} nor the file named by {variable}_FILE holds a key"


def folder_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,79}", name):
        raise ValueError("is no name of a folder: letters, digits, '_', '-' and '.', at most 80, no '.' at the start")
    return name


@dataclass(frozen=True)
class RunOutput(Document):
    """The run's folder is `{root}/{run_id}`; without `run_id` it is made of the file's name and its content."""

    root: Text
    run_id: Annotated[StrictStr, AfterValidator(folder_name)] | None = None
    fail_if_exists: StrictBool = True

    @property
    def path(self) -> Path:
        assert self.run_id is not None  # `named` has set it
        return Path(self.root) / self.run_id

    @property
    def goes_on(self) -> str:
        """Which command goes on with an unfinished run, beside `orchestrator retry`; "" where it begins anew."""
        return "the same command" if self.fail_if_exists else ""

    def named(self, name: str, kind: str, settings_hash: str) -> RunOutput:
        """The same with a `run_id`, by default of the name of the settings' file (`kind`, if that has no letter)."""
        if self.run_id is not None:
            return self
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60].strip("-") or kind
        return dataclasses.replace(self, run_id=f"{stem}-{settings_hash[:8]}")


def unwritable_folder(name: str, folder: Path) -> Iterator[str]:
    """Why nothing can be written into the folder that the option `name` names, asked before anything is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        yield f"{name}: {folder}: {error.strerror}"
