"""What a server keeps in its prefix cache: where `WHETSTONE_PREFIX_CACHE` is "prompts", no answers.

SGLang keeps the keys and values of every prompt and answer until it needs their memory.  From then on it orders all
that it keeps for each step of the model, to find what to evict (0.5.16: `RadixCache.evict`), and answers at half the
rate.  Each request of a farm is a prompt alone, and none continues an answer.  So an answer that has ended frees its
memory at once.  Only the prompts stay, which all individuals have in common.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import PREFIX_CACHE_VARIABLE

CACHES = (
    "sglang.srt.mem_cache.radix_cache.RadixCache",
    "sglang.srt.mem_cache.unified_radix_cache.UnifiedRadixCache",
)
"""Those of models with full attention.  A prompt is inserted when it has been read, an answer when it has ended."""


def keeps_prompts_only() -> bool:
    return os.environ.get(PREFIX_CACHE_VARIABLE) == "prompts"


def free_answer(original: Callable[..., Any], cache: Any, request: Any, is_insert: bool = True, **options: Any) -> Any:
    """`cache_finished_req` of a cache without inserting: the cache frees what the request has beyond its prompt."""
    return original(cache, request, is_insert=False, **options)
