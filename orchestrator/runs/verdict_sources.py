"""Who judges the rows of a file: a judge without a model, or the three stages with an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.farm.embedded import ProcessFailed
from orchestrator.report.announcement import highest_cost, provider_at
from orchestrator.report.formatting import format_cost
from orchestrator.runs.judge_file import judge_asker, judge_rows, open_endpoint
from orchestrator.runs.kept_verdicts import KeptVerdicts
from orchestrator.settings import SettingsError
from orchestrator.signals import Terminated
from tasks.escape import first_line
from tasks.judging.exact_number import GoldError
from tasks.judging.grader import Grader, make_grader, needs_model, title_of
from tasks.judging.rows import AnswerRow
from tasks.judging.user_function import UserFunctionError
from tasks.judging.verdict import JudgeReplyError
from tasks.models import Endpoint, Judge, Verdict
from tasks.openai.budget import LocalBudget
from tasks.openai.errors import CallError
from tasks.openai.provider import RULES, is_priced, listed, url_of

Notify = Callable[[str], None]


class JudgingFailed(Exception):
    """A call failed for good."""


def load_grader(settings: Judge) -> Grader | None:
    """The judge that calls no model; None for the three stages.  Raises: SettingsError."""
    if needs_model(settings.name):
        return None
    try:
        return make_grader(settings.name, _no_endpoint)
    except UserFunctionError as error:
        raise SettingsError([str(error)]) from None


def _no_endpoint() -> Grader:
    raise AssertionError("called for the three stages alone")


def by_grader(rows: Iterator[AnswerRow], grader: Grader, name: str, notify: Notify) -> Iterator[Verdict | None]:
    """Verdicts of a judge without a model.  Raises: JudgingFailed."""
    notify(f"judge: {title_of(name)}; cost: free")
    try:
        for row in rows:
            yield grader.grade(row.question, row.gold, row.answer)
    except (GoldError, UserFunctionError) as error:
        raise JudgingFailed(f"{error}") from error
    except (Exception, KeyboardInterrupt, Terminated, GeneratorExit):
        raise
    except BaseException as error:  # a function of the user may raise whatever it likes
        raise JudgingFailed(f"the judge {name} failed: {type(error).__name__}: {first_line(error)}") from error


def by_model(
    rows: Iterator[AnswerRow], settings: Judge, endpoint: Endpoint, rules: bool, partial: Path | None, notify: Notify
) -> Iterator[Verdict | None]:
    """Verdicts of the three stages; those of a model are kept in `partial`.  Raises: JudgingFailed, OutputError."""
    providers: set[str] = set()
    budget = LocalBudget(endpoint)  # its prices are those of the endpoint that is opened
    try:
        judge_name = provider_at(settings.model, endpoint, rules=rules)
        notify(f"judge: {judge_name}; cost: {highest_cost(endpoint, rules=rules)}")
        kept = KeptVerdicts(partial)
        if count := len(kept):
            notify(f"going on with {count:,} verdicts of {partial}")
        with open_endpoint(endpoint, rules) as opened:
            asker = judge_asker(opened, settings, budget, providers.add)
            yield from judge_rows(rows, settings, asker, kept, RULES if rules else url_of(endpoint))
    except (CallError, JudgeReplyError, ProcessFailed) as error:
        raise JudgingFailed(f"{type(error).__name__}: {error}") from error
    finally:  # calls before a failure are paid too
        if providers:
            notify(f"judged by {listed(providers)}")
        used = budget.used
        cost = format_cost(budget.spending.spent if is_priced(endpoint) else None, endpoint.budget_usd)
        notify(f"{used.requests} calls, {used.prompt + used.completion:,} tokens, cost: {cost}")
