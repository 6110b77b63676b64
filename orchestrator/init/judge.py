"""The third answer: who decides whether an answer is right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.init.asking import WrongAnswer
from tasks.judging.exact_number import final_number
from tasks.judging.grader import EXACT_NUMBER, THREE_STAGES
from tasks.models import Example
from tasks.secret import secret

RULES = "rules"
KEY_VARIABLE = "OPENAI_API_KEY"
PRICED = "gpt-4o"
"""The model whose prices are the defaults of Kconfig."""
MOST_LISTED = 5
_MODEL = re.compile(r"[A-Za-z0-9][\w./:-]*", re.ASCII)


@dataclass(frozen=True)
class JudgeChoice:
    """`options` are settings as a person types them; `about` says what was found; is_paid: whether calls may cost."""

    options: Mapping[str, str]
    about: str
    is_paid: bool = False
    has_prices: bool = True


def read_judge(
    text: str, examples: Iterable[Example], prices: Mapping[str, str] | None = None, *, external: bool = False
) -> JudgeChoice:
    """ "rules", "exact_number", module:function, or a model at an OpenAI-compatible endpoint.

    `prices` are those of the model, as settings; `external`: the workers of an external farm judge, which has no rules.
    Raises: WrongAnswer when it cannot judge these questions.
    """
    free = {"EMBEDDED_ENDPOINT": "rules", "OPENAI_REQUESTS_PER_MINUTE": "100000",
            "OPENAI_TOKENS_PER_MINUTE": "1000000000", "OPENAI_PRICE_PROMPT": "", "OPENAI_PRICE_CACHED": "",
            "OPENAI_PRICE_COMPLETION": ""}  # fmt: skip
    if text in (RULES, THREE_STAGES):
        if external:
            raise WrongAnswer("only an embedded farm has rules: name exact_number, module:function, or a model")
        return JudgeChoice({**free, "JUDGE": THREE_STAGES}, "fixed rules for numbers, yes and no, and words; free")
    if text == EXACT_NUMBER:
        without = [example.id for example in examples if final_number(example.gold) is None]
        if without:
            more = f" and {len(without) - MOST_LISTED} more" if len(without) > MOST_LISTED else ""
            raise WrongAnswer(f"right answers without a number: {', '.join(without[:MOST_LISTED])}{more}")
        return JudgeChoice({**free, "JUDGE": EXACT_NUMBER}, "the last number must be that of the right answer; free")
    module, _, function = text.rpartition(":")
    if function.isidentifier() and module and all(part.isidentifier() for part in module.split(".")):
        return _function(text, free)
    named = (RULES, EXACT_NUMBER, THREE_STAGES)
    begun = [name for name in named if text and name.startswith(text.lower())]
    if near := begun or difflib.get_close_matches(text.lower(), named, n=1, cutoff=0.75):
        raise WrongAnswer(f"there is no judge {text}; did you mean {near[0]}?")
    if not _MODEL.fullmatch(text):
        raise WrongAnswer("name a judge: rules, exact_number, module:function, or a model such as gpt-4o")
    return _model(text, prices or {})


def _function(text: str, free: Mapping[str, str]) -> JudgeChoice:
    from tasks.judging.user_function import UserFunctionError, load_function

    try:
        load_function(text)
    except UserFunctionError as error:
        raise WrongAnswer(str(error)) from None
    return JudgeChoice({**free, "JUDGE": text}, f"your function {text}; free")


def _model(text: str, prices: Mapping[str, str]) -> JudgeChoice:
    unknown = {} if text == PRICED else dict.fromkeys(("PROMPT", "CACHED", "COMPLETION"), "")
    known = {f"OPENAI_PRICE_{kind}": price for kind, price in {**unknown, **prices}.items()}
    options = {
        "JUDGE": THREE_STAGES,
        "JUDGE_MODEL": text,
        "REFLECTOR_MODEL": text,
        "EMBEDDED_ENDPOINT": "openai",
        **known,
    }
    has_prices = text == PRICED or len(prices) == len(("PROMPT", "CACHED", "COMPLETION"))
    key = "" if secret(KEY_VARIABLE) else f"; {KEY_VARIABLE} has no key yet, and the run needs one"
    return JudgeChoice(options, f"{text}, where rules for numbers and yes or no cannot decide{key}", True, has_prices)
