"""Finished prompts, kept so that the next individual pays only for its new tokens. Least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from workers.embedded.target.decoder import Prompt


class Prompts:
    """Prompts by their exact token ids, within a bound of bytes. A prompt beyond the bound is not kept at all."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[bytes, Prompt] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()  # the engine's thread fills what the server's thread may flush

    def get(self, ids: Sequence[int]) -> Prompt | None:
        with self._lock:
            prompt = self._kept.get(_key(ids))
            if prompt is not None:
                self._kept.move_to_end(_key(ids))
            return prompt

    def put(self, ids: Sequence[int], prompt: Prompt) -> None:
        with self._lock:
            if prompt.bytes > self._limit or _key(ids) in self._kept:
                return
            self._kept[_key(ids)] = prompt
            self._bytes += prompt.bytes
            while self._bytes > self._limit:
                self._bytes -= self._kept.popitem(last=False)[1].bytes

    def flush(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)


def _key(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()
