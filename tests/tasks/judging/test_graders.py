"""The judges without a model by their names; a judge that is the user's own function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.common.named import absolute, load_named
from tasks.judging.graders import GROUP, UserFunction, UserFunctionError, make_grader, needs_model

SOURCE = """
import os, threading, time

def contains(question, gold, answer): return gold.lower() in answer.lower()
def explained(question, gold, answer): return answer == gold, f"{answer!r} against {gold!r}"
def scores(question, gold, answer): return float(answer)
def says_by_numpy(question, gold, answer): import numpy; return numpy.isclose(float(gold), float(answer))

class Judges:
    strict = staticmethod(lambda question, gold, answer: answer == gold)

def fails(question, gold, answer): raise KeyError("no such key\\nat all")
def leaves(question, gold, answer): raise SystemExit(3)
def says_nan(question, gold, answer): return float("nan")
def ends(question, gold, answer): os._exit(3)
def crashes(question, gold, answer): os.kill(os.getpid(), 11)
def loops(question, gold, answer): time.sleep(1000)

def forks(question, gold, answer):
    os.fork()
    return answer == gold

def threads(question, gold, answer):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return answer == gold

def too_few(answer): return True
number = 7
"""


@pytest.fixture(autouse=True)
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the module `my_judges` anew, with more text at its end."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(more: str) -> None:
        sys.modules.pop("my_judges", None)
        (tmp_path / "my_judges.py").write_text(SOURCE + more)

    write("")
    return write


@pytest.mark.parametrize(
    ("name", "gold", "answers", "reasoning"),
    [
        ("explained", "$5", {"$5": True}, "'$5' against '$5'"),
        ("Judges.strict", "$5", {"$5": True, "$ 5": False}, "Judges.strict says wrong."),
        ("scores", "$5", {"0": False, "0.49": False, "0.5": True, "1": True}, "scores gives 1; right is 0.5 or more."),
        ("says_by_numpy", '["4", "5"]', {"6": False, "5": True}, "says right."),
    ],
)
def test_the_function_decides(name: str, gold: str, answers: dict[str, bool], reasoning: str) -> None:
    judge = UserFunction(f"my_judges:{name}")
    verdicts = [judge.grade("How much?", gold, answer) for answer in answers]
    assert [verdict.is_correct for verdict in verdicts] == [*answers.values()]
    assert verdicts[-1].reasoning.endswith(reasoning)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fails", r"the judge my_judges:fails failed: KeyError: .*\(my_judges.py, line "),
        ("leaves", "the judge my_judges:leaves failed: SystemExit: 3"),
        ("says_nan", "'nan' .float.; it must return True or False"),
        ("ends", "it ended its process with status 3"),
        ("crashes", "its process was killed by signal 11"),
    ],
)
def test_a_function_that_gives_no_verdict_is_an_error_each_time_and_never_a_wrong_answer(name: str, says: str) -> None:
    judge = UserFunction(f"my_judges:{name}")
    for _ in range(2):  # one that has ended its process is called in a new one
        with pytest.raises(UserFunctionError, match=says) as caught:
            judge.grade("How much?", "5", "5")
        assert "\n" not in str(caught.value)


def test_a_module_of_the_working_directory_is_found_from_a_console_script_and_from_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "judges_here.py").write_text("def right():\n    return 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert load_named("judges_here:right", "none")() == 7
    assert absolute("judges_here:right") == f"{tmp_path}/judges_here.py:right"


def test_a_function_that_does_not_return_is_ended() -> None:
    judge = UserFunction("my_judges:loops", limit_s=2)
    with pytest.raises(UserFunctionError, match="did not return within 2 s"):
        judge.grade("How much?", "5", "5")


@pytest.mark.parametrize("name", ["forks", "threads"])
def test_a_copy_of_the_process_or_a_thread_left_behind_changes_no_other_verdict(name: str) -> None:
    judge, answers = UserFunction(f"my_judges:{name}"), ["5", "6", "5", "7"] * 3
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda answer: judge.grade("How much?", "5", answer).is_correct, answers))
    assert verdicts == [answer == "5" for answer in answers]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:judge", "No module named 'no_such_module'"),
        ("my_judges:nothing", "no attribute 'nothing'"),
        ("my_judges:number", "is no function"),
        ("my_judges:too_few", "must take \\(question, gold, answer\\)"),
        ("three-stages", f"no entry point of this name in the group {GROUP}"),
    ],
)
def test_a_function_that_is_not_there_is_refused_at_once(name: str, says: str) -> None:
    with pytest.raises(UserFunctionError, match=says):
        make_grader(name)


def test_a_function_is_loaded_once_and_another_source_of_its_module_gives_other_keys(
    judges: Callable[[str], None],
) -> None:
    row, first = ("How much?", "5", "6"), make_grader("my_judges:contains")
    assert first is not None
    keys = [UserFunction(f"my_judges:{name}").key(*row) for name in ("contains", "explained")]
    assert first.key(*row) == keys[0]
    judges("# changed\n")
    assert make_grader("my_judges:contains") is first, "its key belongs to its code"
    assert len({*keys, UserFunction("my_judges:contains").key(*row)}) == 3
    # And one that cannot be imported is named in one line
    judges("raise RuntimeError('first\\nsecond')")
    with pytest.raises(UserFunctionError, match=r"'my_judges:contains' cannot be loaded: first$"):
        UserFunction("my_judges:contains")


def test_a_file_that_is_changed_is_read_again_by_a_process_that_has_loaded_it(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    verdicts, keys = [], set()
    for said in (True, False):
        file.write_text(f"def right(question, gold, answer):\n    return {said}\n")
        judge = make_grader(f"{file}:right")
        assert judge is not None and judge is make_grader(f"{file}:right")
        verdicts.append(judge.grade("How much?", "5", "5").is_correct)
        keys.add(judge.key("How much?", "5", "5"))
    assert verdicts == [True, False] and len(keys) == 2


def test_an_entry_point_names_a_function(tmp_path: Path) -> None:
    folder = tmp_path / "my_judges-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: my-judges\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\nloose = my_judges:contains\n")
    assert UserFunction("loose").grade("?", "5", "it is 5").is_correct


def test_of_the_judges_that_are_shipped_one_needs_a_model() -> None:
    exact = make_grader("exact_number")
    assert exact is not None and exact.grade("How many?", "72", "So 72.").is_correct
    assert make_grader("three_stages") is None
    assert [needs_model(name) for name in ("three_stages", "exact_number", "my:function")] == [True, False, False]
