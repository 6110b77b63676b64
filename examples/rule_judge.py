"""The three stages with the rules of the embedded endpoint as their model: a judge that needs no endpoint.

A run whose reflector is a language model would ask that model to judge as well; with this it is judged as all others.
"""

from __future__ import annotations

from tasks.judging.verdict import JudgeReply
from tasks.judging.verdict import judge as by_stages
from tasks.records import Judge
from workers.embedded.rules import verdict

SETTINGS = Judge(
    model="rules", tolerance=0.01, forgiving=True, temperature=0.0, top_p=1.0, max_completion_tokens=512, seed=42,
    concurrency=1,
)  # fmt: skip


def judge(question: str, gold: str, answer: str) -> tuple[bool, str]:
    """Whether the answer is right, and why."""
    found = by_stages(question, gold, answer, SETTINGS, lambda messages: JudgeReply(**verdict.answer(*messages)))
    return found.is_correct, found.reasoning
