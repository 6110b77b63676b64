"""Compression of a verbose answer: messages, schema and reply.  Pure.

The prompt holds the question and the answer and never the context, so nothing can be added that was not said.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator

from tasks.common.escaping import break_control_tokens
from tasks.common.text import fill
from tasks.common.validation import ReplyModel

SYSTEM = """\
You shorten answers. Given a question and a previous answer to it, write the answer again in as few words as possible.
Keep what the previous answer claims: its numbers with their signs, units and scale, its yes or no, its names and, where
the question asks for one, its reason. Leave out greetings, repetitions of the question, hedging and steps of a
calculation. Add nothing, correct nothing: an answer that is wrong stays wrong, only shorter.
Reply with one JSON object that has the field rewritten_answer."""


class Compression(ReplyModel):
    """The compressed answer, as text that every store and file can hold."""

    schema_name: ClassVar = "compression"
    rewritten_answer: Annotated[str, AfterValidator(str.strip)]


SCHEMA = Compression.model_json_schema()  # part of the key of a compression


def messages(template: str, query: str, prev_answer: str) -> tuple[str, str]:
    """The system and the user message; the user message is the filled template and nothing else."""
    texts = {"query": break_control_tokens(query), "prev_answer": break_control_tokens(prev_answer)}
    return SYSTEM, fill(template, texts)
