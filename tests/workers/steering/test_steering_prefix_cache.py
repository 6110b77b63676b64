"""What a server keeps in its prefix cache."""

from __future__ import annotations

from typing import Any

import pytest

from workers.steering.farm import free_answer


class Cache:
    """Notes how requests end, with the arguments of SGLang's caches."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, bool, int]] = []

    def cache_finished_req(self, request: str, is_insert: bool = True, *, kv_len_to_handle: int) -> None:
        self.ended.append((request, is_insert, kv_len_to_handle))


@pytest.mark.parametrize("options", [{}, {"is_insert": True}, {"is_insert": False}])
def test_an_answer_that_has_ended_is_not_inserted(options: dict[str, Any]) -> None:
    cache = Cache()
    free_answer(Cache.cache_finished_req, cache, "request", kv_len_to_handle=7, **options)
    assert cache.ended == [("request", False, 7)]
