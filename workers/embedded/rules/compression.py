"""The rule compressor: the one sentence of an answer that answers the question, without its lead-in.

It reads a prompt of the form in `configs/collect.yaml`: "Question:", "Previous answer:", "Rewritten answer:".
"""

from __future__ import annotations

import re
from typing import Any

_PROMPT = re.compile(r"\s*Question:\n(.*?)\n\s*Previous answer:\n(.*)\n\s*Rewritten answer:\s*", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"[$€£]?\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"[a-z][a-z'&]+")
_YES_NO_QUESTION = re.compile(r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.I)
_YES_NO = re.compile(r"\b(?:yes|no)\b", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"^(?:(?:based on|according to|as (?:stated|shown|mentioned) (?:in|on)|from|in) the "
    r"(?:provided |given |above )?(?:context|page|passage|text|information)(?: provided)?,?\s+)"
    r"|^(?:the answer (?:to (?:the|this) question )?is:?\s+)"
    r"|^(?:to answer (?:the|this) question,?\s+)",
    re.IGNORECASE,
)


def answer(_: str, user: str) -> dict[str, Any]:
    """The reply to `tasks.collect.collection.compression_messages`."""
    found = _PROMPT.fullmatch(user)
    if found is None:
        raise ValueError('a compression prompt has "Question:", "Previous answer:" and "Rewritten answer:" on lines')
    return {"rewritten_answer": best_sentence(found[1], found[2])}


def best_sentence(question: str, answer_text: str) -> str:
    """The sentence of `answer_text` that best answers `question`, without its lead-in; "" for none."""
    sentences = [part.strip() for part in _SENTENCE_END.split(answer_text) if part.strip()]
    if not sentences:
        return ""
    if _YES_NO_QUESTION.match(question):
        chosen = next((s for s in sentences if _YES_NO.search(s)), sentences[0])
    else:
        chosen = max(sentences, key=lambda s: (_adds_number(question, s), _shared_words(question, s)))
    bare = _LEAD_IN.sub("", chosen)
    return bare[:1].upper() + bare[1:]


def _adds_number(question: str, sentence: str) -> bool:
    """Whether the sentence has a number that the question does not have."""
    return bool(set(_NUMBER.findall(sentence)) - set(_NUMBER.findall(question)))


def _shared_words(question: str, sentence: str) -> int:
    return len(set(_WORD.findall(question.lower())) & set(_WORD.findall(sentence.lower())))
