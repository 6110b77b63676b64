"""The three-stage judge: rules, then a model, then the arithmetic of the model's reply."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from typing import Literal

from tasks.common.text import PromptTooLong
from tasks.judging import prompt, rule
from tasks.judging.marks import accepted_answers, without_thinking
from tasks.judging.prompt import JudgeReply
from tasks.records import Judge, Verdict

Ask = Callable[[tuple[str, str]], JudgeReply]  # of the system and the user message
Category = Literal["numerical", "yes_no", "text"]
Rule = Callable[[str, str, str, float], tuple[bool, str] | None]
"""A rule of stage 1: (question, gold, answer, tolerance) -> (is correct, reasoning), or None where it is not sure."""

_SIDE = re.compile(
    r"[\W_]*(yes|no)(?![\w'’])(?!\.\s*\d)(?!\s+(?:doubt|question|wonder|one|longer|matter|problem)\b)", re.IGNORECASE
)


def _empty_rule(_question: str, _gold: str, answer: str, _tolerance: float) -> tuple[bool, str] | None:
    return None if answer.strip() else (False, "The answer is empty.")


def _number_rule(question: str, gold: str, answer: str, tolerance: float) -> tuple[bool, str] | None:
    match = rule.find_match(question, gold, answer, tolerance)
    return None if match is None else (True, match.reasoning)


RULES: tuple[Rule, ...] = (_empty_rule, _number_rule)  # the first that is sure decides
_SCHEMA = JudgeReply.model_json_schema()
RULES_VERSION = 3  # part of the key of a verdict: add 1 when the rules change


def judge(question: str, gold: str, answer: str, settings: Judge, ask: Ask) -> Verdict:
    """Whether `answer` agrees with `gold`.

    `ask` puts the question of stage 2 to a model.  Whatever it raises passes through: a judge that cannot be reached
    is never a wrong answer.  Of a gold with several accepted answers any will do.  What a model thinks before its
    answer is not judged; an answer without a visible character is wrong and costs no call.  The model reads an answer
    that is too long with its middle cut out; the rules read all of it.

    Raises: PromptTooLong when question and gold do not fit the judge's context.
    """
    answer = without_thinking(answer)
    golds = accepted_answers(gold)
    for decide in RULES:
        for one in golds:
            if (decision := decide(question, one, answer, settings.tolerance)) is not None:
                is_correct, reasoning = decision
                return Verdict(is_correct, 1, 1.0, category_of(one), reasoning)
    system = prompt.system_message(settings.tolerance, settings.forgiving)
    shown = prompt.fitting_answer(system, question, gold, answer, settings.prompt_limit)
    reply = ask((system, prompt.user_message(question, gold, shown)))
    verdict = Verdict(reply.is_correct, 2, min(1.0, max(0.0, reply.confidence)), reply.category, reply.reasoning)
    return next(
        (v for one in golds if (v := _checked(verdict, reply, question, one, answer, settings.tolerance))), verdict
    )


def verdict_key(question: str, gold: str, answer: str, settings: Judge, address: str) -> str:
    """The content hash (sha256, hex) of a verdict: equal for all that the verdict is equal for.

    It covers the texts, every setting of the judge but how many calls are in flight, where the judge is asked
    (`address`), the messages' wording and the rules' version, so that a verdict made by other words, another rule or
    another judge of the same name is never taken for this one.  A limit counts only where it cuts the answer.
    """
    values = dataclasses.asdict(settings)
    del values["concurrency"], values["name"], values["context_tokens"]
    for name in ("tolerance", "temperature", "top_p"):  # 1 and 1.0 are the same setting
        values[name] = None if values[name] is None else float(values[name])
    system = prompt.system_message(settings.tolerance, settings.forgiving)
    parts = [question, gold, answer, values, address, system, _SCHEMA, RULES_VERSION]
    try:
        shown = prompt.fitting_answer(system, question, gold, answer, settings.prompt_limit)
    except PromptTooLong:
        shown = ""  # there is no verdict, unless a rule decides
    if shown != answer:
        parts.append(shown)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def category_of(gold: str) -> Category:
    """What kind of gold it is, told from its form alone; the first of several accepted answers tells."""
    gold = accepted_answers(gold)[0]
    if rule.pure_number(gold) is not None:
        return "numerical"
    return "yes_no" if polarity(gold) is not None else "text"


def polarity(text: str) -> Literal["yes", "no"] | None:
    """The side that a text takes with its first word, or None where it begins with neither yes nor no."""
    match = _SIDE.match(text)
    if match is None:
        return None
    return "yes" if match[1].lower() == "yes" else "no"


def _checked(
    verdict: Verdict, reply: JudgeReply, question: str, gold_text: str, answer: str, tolerance: float
) -> Verdict | None:
    """Stage 3: a numerical "wrong" whose own two numbers agree within the tolerance is overridden to "correct".

    The tolerance is that of a quantity.  Years, dates, identifiers and counts have none, and the number that the answer
    settles on must agree in the unit and currency of the gold: else it is the model's numbers that are wrong.
    """
    gold, predicted = reply.normalized_gt, reply.normalized_pred
    if verdict.is_correct or verdict.category != "numerical" or gold is None or predicted is None:
        return None
    if not rule.is_close(predicted, gold, tolerance) or not rule.has_quantity(question, gold_text, answer, tolerance):
        return None
    note = f"[{predicted:g} is within {100 * tolerance:g}% of {gold:g}: overridden to correct]"
    return Verdict(True, 3, verdict.confidence, "numerical", f"{verdict.reasoning} {note}")
