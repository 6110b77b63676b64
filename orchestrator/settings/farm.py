"""The options of a run whose YAML file says nothing of the farm: of the command line, and in the saved settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictStr

from orchestrator.settings.documents import Count, Document, Text
from orchestrator.settings.value_checks import no_password, optional, redis_address

NO_LIMIT_REQUESTS, NO_LIMIT_TOKENS = 100_000, 1_000_000_000
"""Requests and tokens a minute where no limit is given."""

NotNegative = Annotated[StrictFloat, Field(ge=0)]
LogLevel = Annotated[
    Literal["debug", "logging", "warning"], Field(description="what is logged; `logging` is INFO (logging)")
]


def _price(kind: str) -> object:
    return Field(ge=0, lt=1e9, description=f"price of a million {kind} tokens in USD (default: unknown)")


@dataclass(frozen=True)
class FarmOptions(Document):
    """The farm, for every kind.  A field with a description is an option of the kind's command."""

    farm: Annotated[
        Literal["embedded", "external"],
        Field(description="start one for this command, or use the workers at --redis-url"),
    ] = "embedded"
    redis_url: Annotated[
        StrictStr,
        optional(redis_address),
        no_password("WHETSTONE_REDIS_PASSWORD"),
        Field(description="of an external farm (default: WHETSTONE_REDIS_URL)"),
    ] = ""
    farm_dir: Annotated[Text, Field(description="folder of the embedded farm (outputs/farm)")] = "outputs/farm"
    retry_wait_s: Annotated[
        NotNegative, Field(description="seconds: with only failed tasks left, wait so long for a retry, then park (0)")
    ] = 0.0
    callbacks: Annotated[
        StrictStr, Field(description="what follows the run, as CONFIG_CALLBACKS of an evolution (docs/python.md)")
    ] = ""


@dataclass(frozen=True)
class EndpointOptions(FarmOptions):
    """The limits and prices of a kind that calls OpenAI endpoints: of each endpoint, over all workers together."""

    requests_per_minute: Annotated[Count, Field(description="most requests a minute to an endpoint")] = (
        NO_LIMIT_REQUESTS
    )
    tokens_per_minute: Annotated[Count, Field(description="most tokens a minute, likewise")] = NO_LIMIT_TOKENS
    price_prompt: Annotated[StrictFloat | None, _price("prompt")] = None
    price_cached: Annotated[StrictFloat | None, _price("cached")] = None
    price_completion: Annotated[StrictFloat | None, _price("completion")] = None
    budget_usd: Annotated[
        StrictFloat,
        Field(ge=0, lt=1e9, description="USD: stop before the calls cost more; needs the prices (0: no limit)"),
    ] = 0.0

    @property
    def prices(self) -> tuple[float | None, ...]:
        """US dollars a million tokens of prompt, cached prompt and completion; None where unknown."""
        return (self.price_prompt, self.price_cached, self.price_completion)
