"""The errors of a call, and how long a failed attempt waits."""

from __future__ import annotations

import pickle

import pytest

from tasks.openai import endpoint as errors
from tasks.openai.retry_policy import requested_wait_s

ALL_ERRORS = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.CallError)
]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_errors_travel_between_processes(kind):
    error = kind("what\nhappened", "raw text")
    for copy in (pickle.loads(pickle.dumps(error)), kind(*error.args)):  # the second is how Celery's JSON does it
        assert type(copy) is kind
        assert (str(copy), copy.raw) == ("what happened", "raw text")


NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "9"}, 9.0),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_headers_ask_for(headers, seconds):
    assert requested_wait_s(headers, NOW) == seconds
