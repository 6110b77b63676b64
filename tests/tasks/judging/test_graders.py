"""The judges without a model by their names; a judge that is the user's own function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.judging.graders import GROUP, UserFunction, UserFunctionError, make_grader, needs_model, title_of

SOURCE = """
import os, threading, time

def contains(question, gold, answer):
    return gold.lower() in answer.lower()

def explained(question, gold, answer):
    return answer == gold, f"{answer!r} against {gold!r}"

def fails(question, gold, answer):
    raise KeyError("no such key\\nat all")

def leaves(question, gold, answer):
    raise SystemExit(3)

class Stop(BaseException):
    pass

def stops(question, gold, answer):
    raise Stop("enough")

def says_maybe(question, gold, answer):
    return "maybe"

def says_nan(question, gold, answer):
    return float("nan")

def ends(question, gold, answer):
    os._exit(3)

def crashes(question, gold, answer):
    os.kill(os.getpid(), 11)

def generator_exit(question, gold, answer):
    raise GeneratorExit

def loops(question, gold, answer):
    time.sleep(1000)

def no_verdict(question, gold, answer):
    return object()

def forks(question, gold, answer):
    os.fork()
    return answer == gold

def threads(question, gold, answer):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return answer == gold

def scores(question, gold, answer):
    return float(answer)

def says_by_numpy(question, gold, answer):
    import numpy
    return numpy.isclose(float(gold), float(answer))

def too_few(answer):
    return True

class Judges:
    @staticmethod
    def strict(question, gold, answer):
        return answer == gold

number = 7
"""


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the module `my_judges` anew, with more text at its end."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(more: str = "") -> Path:
        sys.modules.pop("my_judges", None)
        path = tmp_path / "my_judges.py"
        path.write_text(SOURCE + more)
        return path

    write()
    return write


@pytest.mark.parametrize(
    ("name", "answer", "is_correct", "reasoning"),
    [
        ("my_judges:contains", "It was $5 Million.", True, "my_judges:contains says right."),
        ("my_judges:contains", "It was $6 million.", False, "my_judges:contains says wrong."),
        ("my_judges:explained", "$5 million", True, "'$5 million' against '$5 million'"),
        ("my_judges:Judges.strict", "$5", False, "my_judges:Judges.strict says wrong."),
    ],
)
@pytest.mark.usefixtures("judges")
def test_the_function_decides(name: str, answer: str, is_correct: bool, reasoning: str) -> None:
    verdict = UserFunction(name).grade("How much?", "$5 million", answer)
    assert (verdict.is_correct, verdict.reasoning, verdict.category) == (is_correct, reasoning, "numerical")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_judges:fails", "the judge my_judges:fails failed: KeyError: "),
        ("my_judges:leaves", "the judge my_judges:leaves failed: SystemExit: 3"),
        ("my_judges:says_maybe", "'maybe' .str.; it must return True or False"),
        ("my_judges:says_nan", "'nan' .float."),
        ("my_judges:no_verdict", "object"),
        ("my_judges:ends", "it ended its process with status 3"),
        ("my_judges:crashes", "its process was killed by signal 11"),
        ("my_judges:stops", "Stop: enough"),
        ("my_judges:generator_exit", "GeneratorExit"),
    ],
)
@pytest.mark.usefixtures("judges")
def test_a_function_that_gives_no_verdict_is_an_error_and_never_a_wrong_answer(name: str, says: str) -> None:
    with pytest.raises(UserFunctionError, match=says) as caught:
        UserFunction(name).grade("How much?", "5", "5")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ends", "crashes"])
@pytest.mark.usefixtures("judges")
def test_a_function_that_ended_its_process_is_called_again_in_a_new_one(name: str) -> None:
    judge = UserFunction(f"my_judges:{name}")
    for _ in range(2):
        with pytest.raises(UserFunctionError):
            judge.grade("How much?", "5", "5")


@pytest.mark.usefixtures("judges")
def test_a_function_that_does_not_return_is_ended() -> None:
    judge = UserFunction("my_judges:loops", limit_s=2)
    with pytest.raises(UserFunctionError, match="did not return within 2 s"):
        judge.grade("How much?", "5", "5")


@pytest.mark.parametrize("name", ["forks", "threads"])
@pytest.mark.usefixtures("judges")
def test_a_copy_of_the_process_or_a_thread_left_behind_changes_no_other_verdict(name: str) -> None:
    judge, answers = UserFunction(f"my_judges:{name}"), ["5", "6", "5", "7"] * 3
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda answer: judge.grade("How much?", "5", answer).is_correct, answers))
    assert verdicts == [answer == "5" for answer in answers]


@pytest.mark.parametrize(("score", "is_correct"), [("0", False), ("0.49", False), ("0.5", True), ("1", True)])
@pytest.mark.usefixtures("judges")
def test_a_score_is_right_from_a_half_on(score: str, is_correct: bool) -> None:
    assert UserFunction("my_judges:scores").grade("How much?", "5", score).is_correct is is_correct


@pytest.mark.usefixtures("judges")
def test_any_of_several_accepted_answers_is_right_and_truth_values_of_numpy_are_read() -> None:
    judge = UserFunction("my_judges:says_by_numpy")
    assert judge.grade("How much?", '["4", "5"]', "5").is_correct
    assert not judge.grade("How much?", '["4", "5"]', "6").is_correct


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:judge", "No module named 'no_such_module'"),
        ("my_judges:nothing", "no attribute 'nothing'"),
        ("my_judges:number", "is no function"),
        ("my_judges:too_few", "must take \\(question, gold, answer\\)"),
        ("contains", f"no entry point of this name in the group {GROUP}"),
        (":", "cannot be loaded"),
        ("", "cannot be loaded"),
    ],
)
@pytest.mark.usefixtures("judges")
def test_a_function_that_is_not_there_is_refused_at_once(name: str, says: str) -> None:
    with pytest.raises(UserFunctionError, match=says):
        UserFunction(name)


def test_a_module_that_cannot_be_imported_is_named_in_one_line(judges: Callable[[str], Path]) -> None:
    judges("raise RuntimeError('first\\nsecond')")
    with pytest.raises(UserFunctionError, match=r"'my_judges:contains' cannot be loaded: first$"):
        UserFunction("my_judges:contains")


def test_another_source_of_the_module_gives_other_keys(judges: Callable[[str], Path]) -> None:
    row = ("How much?", "5", "6")
    key = UserFunction("my_judges:contains").key(*row)
    judges("")
    assert UserFunction("my_judges:contains").key(*row) == key
    judges("# changed\n")
    assert UserFunction("my_judges:contains").key(*row) != key
    assert UserFunction("my_judges:explained").key(*row) != UserFunction("my_judges:contains").key(*row)


def test_an_entry_point_names_a_function(judges: Callable[[str], Path], tmp_path: Path) -> None:
    judges("")
    folder = tmp_path / "my_judges-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: my-judges\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\nloose = my_judges:contains\n")
    assert UserFunction("loose").grade("?", "5", "it is 5").is_correct


@pytest.mark.usefixtures("judges")
def test_a_function_written_in_c_is_tried_at_its_first_call() -> None:
    with pytest.raises(UserFunctionError, match=r"failed: TypeError|returned|must take"):
        UserFunction("builtins:max").grade("a", "b", "c")


def test_a_judge_is_made_by_its_name() -> None:
    exact = make_grader("exact_number")
    assert exact is not None and exact.grade("How many?", "72", "So 72.").is_correct
    assert make_grader("three_stages") is None
    with pytest.raises(UserFunctionError, match="no entry point"):
        make_grader("three-stages")
    assert [needs_model(name) for name in ("three_stages", "exact_number", "my:function")] == [True, False, False]
    assert title_of("exact_number") == "exact final number (no language model)"
    assert title_of("my:function") == "the function my:function"


def test_a_function_is_loaded_once_so_that_its_key_belongs_to_its_code(judges: Callable[[str], Path]) -> None:
    first = make_grader("my_judges:contains")
    judges("# changed\n")
    assert make_grader("my_judges:contains") is first
