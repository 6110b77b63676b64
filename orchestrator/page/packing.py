"""Long texts of a page, compressed: most are never looked at, and a browser unpacks those that are.

Scratchpads and prompts repeat one another, so they are packed in chunks of many texts.  Each chunk is a JSON list of
texts, in raw deflate (RFC 1951) and base64; a text is known by its number.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

CHUNK_CHARACTERS = 256_000
"""A chunk is closed when it has so many characters."""


class TextPack:
    """Texts by number; equal texts have one number.  `characters` are those of all different texts so far."""

    def __init__(self) -> None:
        self.characters = 0
        self._numbers: dict[str, int] = {}
        self._chunks: list[list[str]] = []
        self._open = 0  # characters of the last chunk

    def __contains__(self, text: str) -> bool:
        return text in self._numbers

    def add(self, text: str) -> int:
        """The number of this text."""
        if text not in self._numbers:
            if not self._chunks or self._open > CHUNK_CHARACTERS:
                self._chunks.append([])
                self._open = 0
            self._numbers[text] = len(self._numbers)
            self._chunks[-1].append(text)
            self._open += len(text)
            self.characters += len(text)
        return self._numbers[text]

    def document(self) -> dict[str, Any]:
        """{"starts": [number of the first text of each chunk], "chunks": [base64]}."""
        starts, total = [], 0
        for chunk in self._chunks:
            starts.append(total)
            total += len(chunk)
        return {"starts": starts, "chunks": [_packed(chunk) for chunk in self._chunks]}


def _packed(texts: list[str]) -> str:
    compressor = zlib.compressobj(level=6, wbits=-zlib.MAX_WBITS)
    data = compressor.compress(json.dumps(texts, ensure_ascii=False).encode("utf-8", "backslashreplace"))
    return base64.b64encode(data + compressor.flush()).decode()
