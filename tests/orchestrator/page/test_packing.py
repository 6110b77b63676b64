"""Long texts come back as they were, equal ones once."""

from __future__ import annotations

import base64
import json
import zlib

from orchestrator.page.packing import CHUNK_CHARACTERS, TextPack


def test_texts_are_found_by_their_numbers() -> None:
    texts = ["</script>", "ünïcode\u2028", "x" * CHUNK_CHARACTERS, "y" * 10, "last"]
    pack = TextPack()
    numbers = [pack.add(text) for text in [*texts, "y" * 10]]
    assert numbers == [0, 1, 2, 3, 4, 3] and pack.characters == sum(map(len, texts))
    document = pack.document()
    chunks = [json.loads(zlib.decompress(base64.b64decode(one), -zlib.MAX_WBITS)) for one in document["chunks"]]
    assert [text for chunk in chunks for text in chunk] == texts
    assert document["starts"] == [0, 3] and len(document["chunks"][0]) < 2_000


def test_a_pack_without_texts_is_empty() -> None:
    assert TextPack().document() == {"starts": [], "chunks": []}
