"""Compression of a verbose answer: messages, schema and reply.  Pure.

The prompt holds the question and the answer and never the context, so nothing can be added that was not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.common.escaping import break_control_tokens
from tasks.common.text import fill
from tasks.openai.schema import strict_object

SCHEMA_NAME = "compression"
SCHEMA = strict_object({"rewritten_answer": {"type": "string"}})
SYSTEM = """\
You shorten answers. Given a question and a previous answer to it, write the answer again in as few words as possible.
Keep what the previous answer claims: its numbers with their signs, units and scale, its yes or no, its names and, where
the question asks for one, its reason. Leave out greetings, repetitions of the question, hedging and steps of a
calculation. Add nothing, correct nothing: an answer that is wrong stays wrong, only shorter.
Reply with one JSON object that has the field rewritten_answer."""


def messages(template: str, query: str, prev_answer: str) -> tuple[str, str]:
    """The system and the user message; the user message is the filled template and nothing else."""
    texts = {"query": break_control_tokens(query), "prev_answer": break_control_tokens(prev_answer)}
    return SYSTEM, fill(template, texts)


def rewritten(reply: Mapping[str, Any]) -> str:
    """The compressed answer of a reply that fits the schema, as text that every store and file can hold."""
    text = str(reply["rewritten_answer"])
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
