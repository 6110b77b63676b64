"""A run whose texts try to be markup: answers, questions, reasons, prompts, scratchpads, and the conclusion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

HOSTILE = "</script><script>window.hacked=1</script><!-- <img src=x onerror=window.hacked=2> & \u2028 ]]> \\u003c '\""


def with_hostile_texts(run: Path, folder: Path) -> Path:
    """A copy of a finished run at `folder`, with hostile texts in all of its files."""
    shutil.copytree(run, folder)
    answers = json.loads((folder / "answers.json").read_text())
    for comparison in answers:
        for one in (*comparison["before"], *comparison["after"]):
            one |= {"text": HOSTILE, "question": HOSTILE, "gold": HOSTILE, "reasoning": HOSTILE}
    (folder / "answers.json").write_text(json.dumps(answers))
    report = json.loads((folder / "report.json").read_text())
    report["verdict"] = HOSTILE
    report["conclusion"]["sentences"] = [HOSTILE, HOSTILE]
    for system in (*report["systems"], *report["rivals"]):
        system["system_prompt"] = HOSTILE
    (folder / "report.json").write_text(json.dumps(report))
    lines = [json.loads(line) for line in (folder / "individuals.jsonl").read_text().splitlines()]
    hostile = "".join(json.dumps(one | {"scratchpad": HOSTILE}) + "\n" for one in lines)
    (folder / "individuals.jsonl").write_text(hostile)
    return folder
