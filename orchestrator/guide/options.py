"""The options of `orchestrator guide`, for which its YAML file has no keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StrictFloat, StrictStr

from orchestrator.settings.documents import Count, Document, Text
from orchestrator.settings.value_checks import no_password, optional, redis_address, server_address, server_arguments

Price = Annotated[StrictFloat, Field(ge=0)] | None


@dataclass(frozen=True)
class GuideOptions(Document):
    """The options of the command line, for which the file has no keys.

    `rollout_jobs` and `endpoint_jobs` are jobs in flight over all workers.  `sglang_url` names a server that runs
    already; without it each gpu worker starts one by `sglang_command` and `sglang_args`.  Prices are US dollars for a
    million tokens of the endpoint; None is unknown.  `budget_usd` is for all its calls; 0 is no limit.
    `retry_wait_s` is how long a run with nothing left but failures waits for a retry before it parks.
    """

    farm: Literal["embedded", "external"] = "embedded"
    redis_url: Annotated[StrictStr, optional(redis_address), no_password("WHETSTONE_REDIS_PASSWORD")] = ""
    farm_dir: Text = "outputs/farm"
    rollout_jobs: Annotated[Count, Field(le=4096)] = 64
    endpoint_jobs: Annotated[Count, Field(le=256)] = 4
    sglang_url: Annotated[StrictStr, optional(server_address)] = ""
    sglang_command: Annotated[StrictStr, AfterValidator(server_arguments)] = "python -m sglang.launch_server"
    sglang_args: Annotated[StrictStr, AfterValidator(server_arguments)] = ""
    requests_per_minute: Count = 100_000
    tokens_per_minute: Count = 1_000_000_000
    retry_wait_s: Annotated[StrictFloat, Field(ge=0)] = 0.0
    price_prompt: Price = None
    price_cached: Price = None
    price_completion: Price = None
    budget_usd: Annotated[StrictFloat, Field(ge=0)] = 0.0
    callbacks: StrictStr = ""
    log_level: Literal["debug", "logging", "warning"] = "logging"

    @property
    def prices(self) -> tuple[float | None, ...]:
        return (self.price_prompt, self.price_cached, self.price_completion)
