"""Texts that end an answer, looked for in the text of its last tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MORE = 4  # tokens before the longest stop text: the first may begin inside a character, or lose a space


class StopTexts:
    """The stop texts of a request.  `decode` gives the text of token ids, control tokens included.

    A token has at least one byte, so a stop text is within as many tokens as it has bytes.
    """

    def __init__(self, texts: Sequence[str], decode: Callable[[Sequence[int]], str]) -> None:
        self._texts = texts
        self._decode = decode
        self._window = max((len(text.encode("utf-8", "surrogatepass")) for text in texts), default=0) + _MORE

    def find(self, produced: Sequence[int]) -> str | None:
        """The first of the texts, in the order of the request, that the answer now has.  None for none."""
        if not self._texts:
            return None
        tail = self._decode(produced[-self._window :])
        return next((text for text in self._texts if text in tail), None)
