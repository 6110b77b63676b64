"""The judge stage: verdicts are shared by runs, unless a run has its evaluation cache switched off.

A judge's reply that cannot be used is asked for again with another seed, and is never a wrong answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings.kconfig import load_settings
from orchestrator.settings.run import make_run
from tasks.judging.graders import UserFunctionError
from tasks.openai import endpoint as errors
from tasks.openai.calls import NEEDED_TRIES
from tasks.openai.judge import judge_stage, verdict_record
from tasks.plan import Candidate, Plan
from tasks.records import Example, Judge, Run
from tasks.stage import run_stage
from tasks.store.store import Store
from tasks.task import current_store

ROOT = Path(__file__).parents[3]
PLAN = Plan("population", 0, (Candidate(0, (0.0,)),))


@pytest.fixture
def run(store: Store, service: Any, valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WHETSTONE_REDIS_URL", valkey_url)
    monkeypatch.setenv("KEY_OF_THIS_TEST", service.key)
    current_store.cache_clear()
    made = make_run(load_settings(Path("configs/embedded.config")), "first")
    yield dataclasses.replace(
        made, endpoint=dataclasses.replace(made.endpoint, base_url=service.url, api_key_env="KEY_OF_THIS_TEST")
    )
    current_store.cache_clear()


def judged(store: Store, run: Run) -> int:
    """How many verdicts of one answer the run reached itself, and did not find in the store."""
    store.put_run(run)
    store.put_examples(run.id, {"training": [Example("q", "", "Is it?", "No, it is not.")], "validation": []})
    store.put_plan(run.id, PLAN)
    store.put_shared(run.id, f"answer:{run.id}", {"text": "It is not."})
    attempt = store.begin_attempt(run.id, PLAN.name, lambda failures: [])
    store.put_stage(run.id, PLAN.name, "0:pre:answer", {"answers": [{"key": f"answer:{run.id}"}]}, attempt)
    run_stage("judge", (run.id, PLAN.name, 0, "pre", attempt), judge_stage)
    record = store.stage(run.id, PLAN.name, "0:pre:judge")
    assert record is not None
    return int(record["judged"])


@pytest.mark.parametrize(("caches", "second"), [((True, True), 0), ((True, False), 1), ((False, False), 1)])
def test_a_second_run_reaches_its_own_verdicts_only_with_the_cache_off(
    store: Store, run: Run, caches: tuple[bool, bool], second: int
) -> None:
    assert judged(store, dataclasses.replace(run, evaluation_cache=caches[0])) == 1
    assert judged(store, dataclasses.replace(run, id="second", evaluation_cache=caches[1])) == second


FUNCTION = """
from pathlib import Path

def judge(question, gold, answer):
    if Path(__file__).with_name("broken").exists():
        raise KeyError("no such unit")
    return "not" in answer, "it says not"
"""


def test_a_function_that_raises_fails_the_stage_with_its_own_message_and_a_retry_judges(
    store: Store, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a function of the user's own that fails, and no endpoint
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "judge_of_this_stage.py").write_text(FUNCTION)
    broken = tmp_path / "broken"
    broken.touch()
    nowhere = dataclasses.replace(run.endpoint, base_url="http://127.0.0.1:9/v1", api_key_env="NO_KEY_IS_SET")
    judge = dataclasses.replace(run.judge, name="judge_of_this_stage:judge")
    run = dataclasses.replace(run, id="own", judge=judge, endpoint=nowhere)
    with pytest.raises(UserFunctionError, match="the judge judge_of_this_stage:judge failed: KeyError: 'no such unit'"):
        judged(store, run)

    # when it is mended and tried again, then its verdict is kept under its name
    broken.unlink()
    assert judged(store, run) == 1
    assert store.providers(run.id, "judge") == ["the function judge_of_this_stage:judge"]
    [verdict] = store.stage(run.id, PLAN.name, "0:pre:judge")["verdicts"]  # type: ignore[index]
    assert verdict["is_correct"] is True
    assert store.shared(run.id, [verdict["key"]])[verdict["key"]]["reasoning"] == "it says not"


SETTINGS = Judge("some-model", 0.01, True, 0.0, 1.0, 512, 42, concurrency=1)
ROW = ("Did sales grow?", "Yes, they grew.", "They did grow, yes.")


@pytest.mark.parametrize("fault", ["invalid_json", "truncated", "refusal"])
def test_an_unusable_verdict_is_asked_for_again_each_time_with_another_seed(
    call_as: Callable[..., Any], service: Any, store: Store, fault: str
) -> None:
    client, call_id = call_as().client, f"judge-{fault}"
    # Given a verdict whose tries are all unusable, and one try of the task that is retried
    service.fail(f"verdict:{fault}:{NEEDED_TRIES + 1}")
    with pytest.raises(errors.UnusableReplyError):
        verdict_record(client, SETTINGS, call_id, ROW, store, "run")
    # Then the next seed is asked for, and nothing twice
    assert verdict_record(client, SETTINGS, call_id, ROW, store, "run")["is_correct"] is True
    assert [len(service.calls(f"{call_id}{suffix}")) for suffix in ("", "-2", "-3", "-4", "-5")] == [1] * 5


def test_a_judge_that_cannot_be_reached_is_not_asked_again(
    call_as: Callable[..., Any], service: Any, store: Store
) -> None:
    service.fail("verdict:500:*")
    with pytest.raises(errors.UnavailableError):
        verdict_record(call_as(max_tries=1).client, SETTINGS, "unreachable", ROW, store, "run")
    assert store.failure_count("run", "reply:unreachable") == 0 and len(service.calls("unreachable")) == 1


def test_a_verdict_that_no_reply_gives_names_its_question(store: Store, run: Run, service: Any) -> None:
    service.fail("verdict:refusal:*")
    with pytest.raises(errors.UnusableReplyError, match=r"^question q: the model refused"):
        judged(store, dataclasses.replace(run, id="refused"))
