"""What the page shows of a collection, as JSON: the tokens that a model wastes, and the answers that show it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from orchestrator.results import RunResults


def collection_data(results: RunResults) -> dict[str, Any]:
    found = results.collection
    if found is None:
        return {"wasted": [], "answers": []}
    columns = (
        "example", "question", "gold", "tokens_before", "before", "tokens_after", "after", "is_retained", "reason",
    )  # fmt: skip
    rows = [
        [
            pair.example, pair.question, pair.gold, pair.verbose_tokens, pair.verbose, pair.compressed_tokens,
            pair.compressed, int(pair.is_retained), pair.reasoning,
        ]
        for pair in found.pairs
    ]  # fmt: skip
    return {
        "created_at": found.created_at,
        "reflector": found.reflector,
        "judge": found.judge,
        "wasted": [asdict(token) for token in found.tokens],
        "answers": [{"name": "answers before and after compression", "columns": columns, "rows": rows}],
    }
