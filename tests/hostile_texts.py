"""A run whose texts try to be markup: questions, answers, reasons, prompts and scratchpads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

HOSTILE = "</script><script>window.hacked=1</script><!-- <img src=x onerror=window.hacked=2> & \u2028 ]]> \\u003c '\""
TEXTS = ("text", "question", "gold", "reasoning", "system_prompt", "scratchpad", "description")


def with_hostile_texts(run: Path, folder: Path) -> Path:
    """A copy of a finished run at `folder`, with hostile texts in all of its files."""
    shutil.copytree(run, folder)
    for name in ("answers.json", "systems.json", "clusters.json"):
        if (folder / name).exists():
            (folder / name).write_text(json.dumps(_hostile(json.loads((folder / name).read_text()))))
    if (individuals := folder / "individuals.jsonl").exists():
        lines = map(json.loads, individuals.read_text().splitlines())
        individuals.write_text("".join(json.dumps(_hostile(line)) + "\n" for line in lines))
    return folder


def _hostile(value: Any) -> Any:
    """The value with HOSTILE for each text of TEXTS, at any depth, and for each text with spaces in a list."""
    if isinstance(value, dict):
        return {name: HOSTILE if name in TEXTS else _hostile(one) for name, one in value.items()}
    if isinstance(value, list):
        return [HOSTILE if isinstance(one, str) and " " in one else _hostile(one) for one in value]
    return value
