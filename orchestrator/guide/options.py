"""The options of `orchestrator guide`, for which its YAML file has no keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

from orchestrator.settings.documents import Count
from orchestrator.settings.farm import EndpointOptions, LogLevel
from orchestrator.settings.value_checks import optional, server_address, server_arguments


@dataclass(frozen=True)
class GuideOptions(EndpointOptions):
    """The jobs in flight, and the server of the target."""

    rollout_jobs: Annotated[
        Count, Field(le=4096, description="jobs of the target in flight, over all workers (64)")
    ] = 64
    endpoint_jobs: Annotated[Count, Field(le=256, description="calls of the endpoint in flight (4)")] = 4
    sglang_url: Annotated[
        StrictStr,
        optional(server_address),
        Field(description="a server of the model that runs already (default: each gpu worker starts one)"),
    ] = ""
    sglang_command: Annotated[StrictStr, AfterValidator(server_arguments)] = "python -m sglang.launch_server"
    sglang_args: Annotated[
        StrictStr, AfterValidator(server_arguments), Field(description="more arguments of a server that is started")
    ] = ""
    log_level: LogLevel = "logging"
