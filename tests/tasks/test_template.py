"""A template's places are filled in one pass, and nothing else in it or in the texts has a meaning."""

from __future__ import annotations

import pytest

from tasks.common.text import fill, missing_placeholders


def test_braces_in_the_texts_stay_what_they_are() -> None:
    hostile = "{query} {0} {context.__class__} {{x}} %s $y \\1 \\g<1>"

    filled = fill("a {context} b {query} {other} {}", {"context": hostile, "query": "{context}"})

    assert filled == f"a {hostile} b {{context}} {{other}} {{}}"


def test_a_template_without_the_place_is_an_error() -> None:
    assert missing_placeholders("{here}", ["here", "nowhere"]) == ["{nowhere}"]
    with pytest.raises(KeyError, match="nowhere"):
        fill("{here}", {"here": "", "nowhere": ""})
