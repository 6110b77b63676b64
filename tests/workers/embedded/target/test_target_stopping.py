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


def test_of_several_the_first_of_the_request_counts() -> None:
    assert StopTexts(["b", "ab"], bytes_as_tokens).find(b"xab") == "b"
    assert StopTexts(["ab", "b"], bytes_as_tokens).find(b"xab") == "ab"


def test_without_stop_texts_nothing_is_decoded() -> None:
    assert StopTexts((), lambda ids: 1 / 0).find([1, 2]) is None  # type: ignore[arg-type, return-value]


def test_only_the_last_tokens_are_decoded_however_long_the_answer() -> None:
    seen: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        seen.append(len(ids))
        return bytes_as_tokens(ids)

    StopTexts(["END"], decode).find(b"a" * 5000)
    assert seen == [7]


def test_the_answer_is_the_text_before_what_ended_it() -> None:
    ids = tuple(b"one\nEND!")
    assert Finished(ids, 0, "stop", matched="END").text(bytes_as_tokens) == "one\n"
    assert Finished(ids, 0, "stop", matched=ids[-1]).text(bytes_as_tokens) == "one\nEND"
    assert Finished(ids, 0, "length").text(bytes_as_tokens) == "one\nEND!"
