"""`orchestrator collect`: from questions to the tokens that a model wastes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchestrator.collect.settings import CollectOptions
from orchestrator.commands import options


@options.command(drives=True)
@click.option("--config", type=options.path_option, required=True, metavar="FILE", help="the YAML file")
@click.option("--resume", is_flag=True, help="skip what the checkpoint files hold")
@options.field_options(CollectOptions)
def collect(config: Path, resume: bool, **farm: Any) -> int:
    """Find the tokens that a model wastes: sample verbose answers of the target, have the reflector compress them, keep
    the pairs whose compressed answer the judge finds correct, and compare how often each token occurs on the two sides.

    Everything comes from a YAML file in which every key is set (see configs/collect.yaml and docs/collect.md).

    examples:
      orchestrator collect --config configs/collect.yaml
      orchestrator collect --config configs/collect.yaml --resume
      orchestrator collect --config configs/collect.yaml --farm external --redis-url redis://127.0.0.1:6379/0
      orchestrator collect --config c.yaml --budget 5 --price-prompt 2.5 --price-cached 1.25 --price-completion 10

    results: the file phase0.output_path of the YAML, and beside it checkpoints and the log; a summary on standard
    output.
    exit status: 0 done; 1 the file or arguments are wrong, nothing was started; 2 an error of the farm; 3 parked: tasks
    failed for good; 4 another process works on this collection; 130 interrupted; 143 terminated.  Except after 0, 1 and
    4, `orchestrator retry FOLDER`, or the same command with --resume, resumes it.
    """
    from orchestrator.collect.settings import read_collect_settings
    from orchestrator.runs.folder import check_inputs

    if resume and farm["is_fresh"]:
        raise click.UsageError("--resume and --fresh exclude each other")
    settings, chosen = read_collect_settings(config), options.parse_options(CollectOptions, farm)
    check_inputs("phase0.output_path", Path(settings.phase0.output_path), {"--config": config})
    # Imported here: this needs Celery, and wrong settings are reported at once.
    from orchestrator.collect.run import start_collection

    return start_collection(settings, chosen, resume=resume).exit(settings.phase0.output_path)
