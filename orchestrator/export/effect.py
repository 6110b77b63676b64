"""What a list of biases does: the run's model answers questions of the run plain, with all biases, and with the list.

The answers are greedy, and the biases are sent as clusters of a vocabulary: one cluster for each distinct bias.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from orchestrator.export.logit_bias import BiasEffect, ChosenBiases
from orchestrator.output import OutputError
from orchestrator.results import RunResults
from tasks.context import content_hash
from tasks.gpu.target import Generated
from tasks.models import Example, Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUESTIONS = 40


def measure_effect(results: RunResults, chosen: ChosenBiases, notify: Callable[[str], None]) -> BiasEffect:
    """Ask the run's target on this machine the first questions of its validation set, or else of its training set.

    Raises: SettingsError when settings or questions cannot be read any more; OutputError when no server answers.
    """
    from orchestrator.runs.setup import choose_examples
    from orchestrator.settings import load_settings
    from orchestrator.settings.run import make_run

    settings = load_settings(results.output.config, [])
    target = make_run(settings, results.run).target
    greedy = dataclasses.replace(target.sampling, temperature=0.0)
    target = dataclasses.replace(target, lifecycle="resident", sampling=greedy)
    examples = choose_examples(settings)
    name = "validation" if examples["validation"] else "training"
    asked = examples[name][:QUESTIONS]
    prompt = results.system_prompt
    arms = {"plain": None, "all biases": chosen.biases, "these biases": chosen.limited}
    means = mean_tokens(target, target.system_prompt if prompt is None else prompt, asked, arms, notify)
    return BiasEffect(len(asked), name, means["plain"], means["all biases"], means["these biases"])


def mean_tokens(
    target: Target,
    system_prompt: str,
    examples: list[Example],
    arms: dict[str, NDArray[np.float64] | None],
    notify: Callable[[str], None],
) -> dict[str, float]:
    """Mean tokens of the answers with each arm's biases [V]; None is the model as it is.  Raises: OutputError."""
    from orchestrator.farm.own_target import own_target
    from tasks.gpu.answer import prompt_batch, requests_for
    from tasks.gpu.ask import ask_target
    from tasks.gpu.host import TargetUnavailable
    from tasks.gpu.target import TargetDown, TargetRefused

    found: dict[str, float] = {}
    with own_target() as host:
        texts = tuple((one.id, one.context, one.question) for one in examples)
        batch = prompt_batch(host.model_folder(target), system_prompt, target.prompt_template, texts)
        for name, biases in arms.items():
            notify(f"{len(examples)} questions with {name}" if biases is not None else f"{len(examples)} questions")
            deltas, clustering = ((), "") if biases is None else write_biases(biases, host.labels_folder())
            lengths: list[int] = []

            def keep(_: int, answer: Generated, lengths: list[int] = lengths) -> None:
                lengths.append(answer.completion_tokens)

            requests = requests_for(target, clustering, deltas, batch, {i: f"{name} {i}" for i in range(len(texts))})
            try:
                ask_target(target, dict(enumerate(requests)), keep, max_retries=1)
            except (TargetUnavailable, TargetDown, TargetRefused) as error:
                raise OutputError(f"the run's model cannot be asked on this machine: {error}") from None
            found[name] = fmean(lengths)
    return found


def write_biases(biases: NDArray[np.float64], folder: Path) -> tuple[tuple[float, ...], str]:
    """Biases [V] as deltas and the name of their clustering, whose labels are written for the server."""
    import numpy as np

    values, labels = np.unique(biases, return_inverse=True)
    clustering = content_hash(labels.tolist())[:32]
    kind = np.uint8 if len(values) <= 256 else np.uint16
    np.save(folder / f"{clustering}.npy", labels.astype(kind), allow_pickle=False)
    return tuple(map(float, values)), clustering
