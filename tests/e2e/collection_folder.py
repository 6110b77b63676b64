"""The folder of one `orchestrator collect`, and an independent computation of its output."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml
from run_folder import ROOT, RunFolder

# Four questions, three samples each: small enough for many runs, and with pairs that are kept and pairs that are not.
SMALL = {
    "data": {"split_ratios": {"train": 0.1, "val": 0.1, "test": 0.8}},
    "target": {"max_new_tokens": 24},
    "phase0": {"verbose_num_samples": 3, "k": 10, "target_concurrency": 3},
}


@dataclass
class CollectionFolder(RunFolder):
    """The folder of one collection with its farm."""

    again = ("--resume",)

    @property
    def data(self) -> Path:
        return self.output / "phase0_data.json"

    def configure(self, *changes: dict[str, Any]) -> None:
        """Write the shipped collect.yaml with few samples, output in this folder, and `changes`."""
        values = yaml.safe_load((ROOT / "configs" / "collect.yaml").read_text())
        here = {"output_dir": str(self.output), "phase0": {"output_path": str(self.data)}}
        for change in (SMALL, here, *changes):
            merge(values, change)
        path = self.folder / "collect.yaml"
        path.write_text(yaml.safe_dump(values))

    def command(self, *arguments: str, **options: str) -> list[str]:
        assert not options, "a collection is configured by its file"
        path = self.folder / "collect.yaml"
        farm = ["--farm-dir", str(self.farm)]
        return [sys.executable, "-m", "orchestrator", "collect", "--config", str(path), *farm, *arguments]

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data.read_text())
        return found

    def result(self) -> dict[str, Any]:
        """The output without its time and its configuration, the only parts in which equal collections differ."""
        found = self.document()
        del found["metadata"]["created_at"], found["metadata"]["config_snapshot"]
        return found


def merge(values: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            merge(values[key], value)
        else:
            values[key] = value


def recompute(document: dict[str, Any], tokenizer: Any) -> list[tuple[int, float]]:
    """The selected ids and their differences, computed from the pairs in the file with exact fractions.

    A token's frequency on one side is the mean over samples of its count; the difference is verbose less compressed.
    Special, empty, punctuation and digit tokens are no candidates.
    """
    sides = []
    for name in ("verbose_token_ids", "compressed_token_ids"):
        counts: dict[int, Fraction] = {}
        for example in document["splits"]["train"]:
            for pair in example["retained_pairs"]:
                for token in pair[name]:
                    counts[token] = counts.get(token, Fraction(0)) + Fraction(1, example["num_retained"])
        total = sum(counts.values())
        sides.append({token: count / total for token, count in counts.items()})
    raw, comp = sides
    delta = {token: raw.get(token, 0) - comp.get(token, 0) for token in {*raw, *comp}}
    special = set(tokenizer.all_special_ids)
    special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    candidates = []
    for token in delta:
        word = tokenizer.decode([token]).strip()
        dropped = token in special or token == tokenizer.eos_token_id
        dropped = dropped or not word or all(unicodedata.category(letter)[0] == "P" for letter in word)
        if not dropped and not re.fullmatch("[0-9]+", word):
            candidates.append(token)
    candidates.sort(key=lambda token: (-delta[token], token))
    return [(token, float(delta[token])) for token in candidates[: document["metadata"]["k"]]]
