"""A stop text is found wherever tokens begin and end, also inside a character."""

from __future__ import annotations

from collections.abc import Sequence

from workers.embedded.target.protocol import Finished
from workers.embedded.target.stopping import StopTexts


def bytes_as_tokens(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", "replace")


def test_it_is_found_with_its_last_token_and_not_before() -> None:
    stops, answer = StopTexts(["\n\n", "结束"], bytes_as_tokens), "fine 结束".encode()
    assert [stops.find(answer[:end]) for end in range(len(answer) + 1)] == [None] * len(answer) + ["结束"]


def test_the_answer_is_the_text_before_what_ended_it() -> None:
    ids = tuple(b"one\nEND!")
    assert Finished(ids, 0, "stop", matched="END").text(bytes_as_tokens) == "one\n"
    assert Finished(ids, 0, "stop", matched=ids[-1]).text(bytes_as_tokens) == "one\nEND"
    assert Finished(ids, 0, "length").text(bytes_as_tokens) == "one\nEND!"
