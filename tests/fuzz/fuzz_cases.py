"""Invalid values for all kinds of input: random ones, and those that an attacker would write."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

IS_LONG = settings.get_current_profile_name() == "fuzz"
FEW: dict[str, Any] = {} if IS_LONG else {"max_examples": 8, "derandomize": True}
cases = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    **FEW,
)
"""The number of examples is that of the profile `fuzz`, otherwise few, the same ones each time."""

TEXT = st.text(max_size=40)
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**30, -1, 0, 1e308, float("nan"), float("inf")])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
PATHS = st.sampled_from(
    ["../../x", "/etc/passwd", "a/b", "..", ".", "", "a\nb", "a\x00b", "a\x1b[31mb", "*", "whetstone:run:a", "~",
     "$HOME", "a" * 5000, "\ud800", "\u202eabc", "CON", "file:///etc/passwd", "{context}", "%s",
     "<script>alert(1)</script>"]
)  # fmt: skip
HOSTILE: st.SearchStrategy[Any] = PATHS | JSON


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part replaced or removed, or any other value."""
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(damaged(value[0])), *value[1:]]
    if not isinstance(value, dict) or not value:
        return draw(HOSTILE)
    name = draw(st.sampled_from(sorted(value)))
    if draw(st.booleans()):
        return {**value, name: draw(damaged(value[name]))}
    return {key: one for key, one in value.items() if key != name}


def written(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass") + b"\n"


def files(valid: Any) -> st.SearchStrategy[bytes]:
    """A valid JSON file damaged or cut short, or random bytes."""
    whole = written(valid)
    cut = st.integers(0, len(whole)).map(lambda at: whole[:at])
    return damaged(valid).map(written) | cut | st.binary(max_size=60) | JSON.map(written) | st.just(b"[" * 100_000)
