"""What a run needs before its first generation: its questions, and how long the reflector's prompts may be."""

from __future__ import annotations

import json
from collections.abc import Callable

from orchestrator.settings import Settings, SettingsError, select_indices
from tasks.dataset import DatasetError, load_examples
from tasks.models import Example
from tasks.openai.fitting import prompt_estimate
from tasks.openai.provider import estimate_tokens
from tasks.store.store import Store

Examples = dict[str, list[Example]]
Watch = Callable[[str, tuple[int, int] | None], None]


def choose_examples(settings: Settings) -> Examples:
    """The training and the validation set, fixed for the run.

    Raises: SettingsError for indices that the data set does not have, or a data set that cannot be read.
    """
    try:
        rows = load_examples(settings.financebench_path)
    except DatasetError as error:
        raise SettingsError([f"CONFIG_FINANCEBENCH_PATH: {line}" for line in str(error).splitlines()]) from None
    chosen, problems = {}, []
    for which, option in (("training", "financebench_pool_indices"), ("validation", "validation_indices")):
        try:
            indices = select_indices(getattr(settings, option), len(rows))
        except ValueError as error:
            problems.append(f"CONFIG_{option.upper()}: {error}")
            indices = ()
        chosen[which] = [rows[i] for i in indices]
    shared = {e.id for e in chosen["training"]} & {e.id for e in chosen["validation"]}
    if shared and not problems:
        problems.append(f"CONFIG_VALIDATION_INDICES: {len(shared)} rows are in the training set as well")
    if problems:
        raise SettingsError(problems)
    return chosen


def reflector_prompt_estimate(store: Store, run_id: str, answers: int) -> str:
    """How long the prompts of the reflector may be, and whether their answers have to be cut."""
    descriptions = json.dumps(store.descriptions(run_id), ensure_ascii=False)
    return prompt_estimate(store.run(run_id), answers, estimate_tokens(descriptions))
