"""What was planned of a run against what its farm has done."""

from __future__ import annotations

import pytest
from run_folder import RunFolder

from orchestrator.run_parts import parts_of, planned_work
from orchestrator.runs.search import make_search
from orchestrator.runs.setup import choose_examples
from orchestrator.settings import load_settings
from orchestrator.settings.brevity import prompts_of


@pytest.mark.long
def test_a_run_generates_about_as_many_answers_as_were_planned(reference_run: RunFolder) -> None:
    settings = load_settings(reference_run.output / "config")
    sizes = {which: len(rows) for which, rows in choose_examples(settings).items()}
    works = planned_work(make_search(settings))
    parts = parts_of(settings, works, settings.ngen, sizes, len(prompts_of(settings)))  # type: ignore[arg-type]
    planned = sum(part.answers for part in parts)
    generated = len(reference_run.answered("target_requests.jsonl"))
    assert planned / 1.5 <= generated <= 1.1 * planned, (planned, generated, parts)
