"""A description of each cluster, for the reflector, the report and the generated processor.

The description of a k-means cluster is made by rule from its tokens: the most frequent kinds of token, a few common
tokens, and a few at its centre.  Common means a low id: vocabularies are ordered from frequent to rare.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from tasks.gpu.clustering.vocabulary import REPLACEMENT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXAMPLES = 12
_SHOWN = 5
_LONGEST = 24
_MARKER = re.compile(r"<[^<>\s]+>|\[(?:[A-Z]{2,}|unused\d+)\]")
_CODE = re.compile(r"[_(){}\[\]<>;=\\/`$#@|]|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]")


class Description(TypedDict):
    """One cluster as `cluster_descriptions.json` has it. `examples` are texts of tokens, `count` is of tokens."""

    id: int
    description: str
    examples: list[str]
    count: int


def describe_fixed(cluster: int, what: str, texts: Sequence[str], ids: Iterable[int]) -> Description:
    """The description of cluster 0 or 1, which hold the tokens `ids`; `what` names their kind."""
    members = sorted(ids)
    examples = distinct_texts([texts[i] for i in members], EXAMPLES)
    named = f": {_quoted(examples)}" if examples else " (this vocabulary has none)"
    return Description(id=cluster, description=what + named, examples=examples, count=len(members))


def describe_cluster(
    cluster: int, texts: Sequence[str], ids: NDArray[np.int64], distances: NDArray[np.float32]
) -> Description:
    """The description of a k-means cluster of the tokens `ids` [n], `distances` [n] from its centre."""
    nearest = [i for _, i in sorted(zip(distances.tolist(), ids.tolist(), strict=True))]
    central = distinct_texts([texts[i] for i in nearest], _SHOWN)
    inner = [texts[i] for i in sorted(nearest[: max(_SHOWN, len(nearest) // 4)])]
    # Single letters and markers have the lowest ids and do not describe a cluster with words in it.
    words = [text for text in inner if len(text.strip()) > 1 and token_kind(text) != "markers"] or inner
    common = distinct_texts(words, EXAMPLES)
    examples = distinct_texts([*common[: EXAMPLES - _SHOWN], *central], EXAMPLES)
    text = (
        f"{_kinds([texts[i] for i in ids])}; common ones: {_quoted(common[:_SHOWN])}; at its centre: {_quoted(central)}"
    )
    return Description(id=cluster, description=text, examples=examples, count=len(ids))


def distinct_texts(texts: Iterable[str], most: int) -> list[str]:
    """The first `most` texts that differ in more than case and outer white space, without that white space."""
    texts_by_word: dict[str, str] = {}
    for text in texts:
        word = (text.strip() or text)[:_LONGEST]
        texts_by_word.setdefault(word.casefold(), word)
        if len(texts_by_word) == most:
            break
    return list(texts_by_word.values())


def token_kind(text: str) -> str:
    """What kind of token has this text, as a plural."""
    word = text.strip()
    if not text:
        return "unused tokens"
    if not word:
        return "white space"
    if REPLACEMENT in word:
        return "parts of characters"
    if _MARKER.fullmatch(word):
        return "markers"
    if not any(c.isalnum() for c in word):
        return "punctuation"
    return _kind_of_word(word, text[0].isspace())


def _kind_of_word(word: str, begins: bool) -> str:
    letters = [c for c in word if c.isalpha()]
    if not letters:
        return "numbers with other characters"
    if any(not unicodedata.name(c, "").startswith("LATIN") for c in letters):
        return "tokens of other scripts"
    if _CODE.search(word):
        return "pieces of code"
    if len(letters) > 1 and word.isupper():
        return "words in capitals"
    if word[0].isupper():
        return "capitalised words"
    return "words" if begins else "word pieces"


def _kinds(texts: Sequence[str]) -> str:
    """The kinds that make up most of the texts, such as "Words (61 %) and word pieces (25 %)"."""
    counted = sorted(Counter(map(token_kind, texts)).items(), key=lambda item: (-item[1], item[0]))
    shares = [(kind, round(100 * count / len(texts))) for kind, count in counted]
    named = [f"{kind} ({share} %)" for kind, share in shares[:3] if share >= 20 or kind == shares[0][0]]
    joined = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return joined[0].upper() + joined[1:]


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)
