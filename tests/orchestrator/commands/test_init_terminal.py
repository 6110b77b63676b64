"""`orchestrator init` and `orchestrator evolve` without a .config, in a real terminal and in a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typed_terminal import TypedTerminal

from orchestrator.settings import load_settings

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "orchestrator"]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "WHETSTONE_REDIS_URL": "", "OPENAI_API_KEY": ""}
QUESTIONS = "configs/data/sample_questions.jsonl"
GIVEN = ("--model", "embedded", "--data", QUESTIONS, "--judge", "rules", "--yes", "--no-measure")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the project's configs and nothing else."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed(place: Path) -> Iterator[Callable[..., TypedTerminal]]:
    terminals: list[TypedTerminal] = []

    def start(*words: str) -> TypedTerminal:
        terminals.append(TypedTerminal([*COMMAND, *words], place, ENVIRONMENT))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def piped(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, *words], env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def options(config: Path) -> set[str]:
    return set(re.findall(r"^(?:# )?(CONFIG_\w+)", config.read_text(), re.MULTILINE))


def test_four_answers_are_checked_one_by_one_and_make_a_complete_file(
    typed: Callable[..., TypedTerminal], place: Path
) -> None:
    (place / "short.csv").write_text("question,answer\nhow many?,4\n")
    terminal = typed("init", "--no-measure")
    # When each answer is wrong at first
    terminal.answer("1  model [embedded]: ", "no-such-model")
    terminal.answer("neither a folder nor an id of the form OWNER/NAME", "")
    terminal.answer(f"2  questions [{QUESTIONS}]: ", "sho\t")  # Tab completes names of files
    terminal.answer("has 1 questions; at least 20 are needed", QUESTIONS)
    terminal.wait_for("400 questions; columns: question, answer, context, id, split; 100 for training")
    terminal.answer("3  judge [rules]: ", "rulez")
    terminal.answer("did you mean rules?", "rules")
    terminal.answer("4  budget [1 hour]: ", "$5")
    terminal.answer("nothing costs money with this judge", "10 seconds")
    terminal.answer('name an amount: "$5", "60 evaluations"', "1 minute")
    terminal.answer("1 minute is too little: the smallest run takes up to", "30 min")
    # Then it says what the run takes, and writes it when it may
    said = terminal.wait_for("write this to .config? (y/n) [y]: ")
    assert "24 questions to train on, 40 to choose on, 40 to test on" in said and "cost   free" in said
    assert not (place / ".config").exists()
    terminal.press("\n")
    status, said = terminal.read_to_the_end()
    assert (status, "start it: orchestrator evolve --config .config" in said) == (0, True), said
    settings = load_settings(place / ".config")
    assert (settings.target_model, settings.optimiser, settings.training_indices) == ("embedded", "cma", "0-23")
    assert settings.ngen > 1 and str(settings.output_dir) == "outputs/run"
    assert options(place / ".config") == options(ROOT / "configs" / "cma.config")


def test_a_file_that_exists_is_replaced_only_after_asking(typed: Callable[..., TypedTerminal], place: Path) -> None:
    (place / ".config").write_text("mine")
    terminal = typed("init", *GIVEN, "--budget", "60 evaluations")
    terminal.answer(".config exists; replace it at the end? (y/n) [n]: ", "")  # before any other question
    status, said = terminal.read_to_the_end()
    assert (status, (place / ".config").read_text()) == (1, "mine") and "nothing was written" in said
    terminal = typed("init", *GIVEN, "--budget", "60 evaluations")
    terminal.answer(".config exists; replace it at the end? (y/n) [n]: ", "y")
    assert terminal.read_to_the_end()[0] == 0 and load_settings(place / ".config").ngen == 6
    status, _, said = piped("init", *GIVEN, "--budget", "60 evaluations")
    assert (status, said.splitlines()[-1]) == (
        1, "orchestrator: .config exists; give --replace, or write another file with --config"
    )  # fmt: skip
    status, printed, _ = piped("init", *GIVEN, "--budget", "60 evaluations", "--replace", "--json")
    found = json.loads(printed)
    assert status == 0 and load_settings(place / ".config").ngen == found["generations"] == 6
    assert (
        found["most"]["seconds"]
        > found["expected"]["seconds"]
        == pytest.approx(sum(p["seconds"] for p in found["parts"]))
    )


@pytest.mark.parametrize(
    ("key", "status", "reason"),
    [
        ("\x04", 1, "\norchestrator: the input has ended; nothing was written"),
        ("\x03", 130, "\norchestrator: interrupted"),
    ],
)
def test_an_input_that_ends_and_ctrl_c_write_nothing(
    typed: Callable[..., TypedTerminal], place: Path, key: str, status: int, reason: str
) -> None:
    terminal = typed("init", "--no-measure")
    terminal.wait_for("1  model [embedded]: ")
    terminal.press(key)
    found, said = terminal.read_to_the_end(again=key)
    assert (found, reason in said) == (status, True), said
    assert not (place / ".config").exists()


def test_a_place_that_cannot_be_written_is_refused_before_the_first_question(place: Path) -> None:
    (place / "file").write_text("")
    (place / "done").mkdir()
    (place / "done" / "run.json").write_text("{}")
    for words, reason in (
        (("--config", "configs"), "configs is a folder: name a file with --config"),
        (("--config", "file/x.config"), "file/x.config cannot be written: Not a directory"),
        (("--output", "file"), "file is no folder: name another one with --output"),
        (("--output", "done"), "done holds a run: name another folder with --output"),
    ):
        status, printed, said = piped("init", *GIVEN, "--budget", "60 evaluations", *words)
        assert (status, printed, said) == (1, "", f"orchestrator: {reason}\n")
    assert sorted(path.name for path in place.iterdir()) == ["configs", "done", "file"]


def test_without_a_terminal_what_is_missing_is_named(place: Path) -> None:
    assert piped("init", "--model", "embedded") == (
        1, "", "orchestrator: there is no terminal to ask at: give --data, --judge, --budget, --yes\n"
    )  # fmt: skip


def test_evolve_without_a_config_names_three_ways_in_a_pipe(place: Path) -> None:
    status, printed, said = piped("evolve")
    assert (status, printed) == (1, "")
    assert [way for way in ("configs/cma.config", "orchestrator init", "make menuconfig") if way not in said] == []
    assert len(said.splitlines()) == 4 and ".config: cannot be read" in said


def test_evolve_without_a_config_asks_how_to_begin(typed: Callable[..., TypedTerminal], place: Path) -> None:
    terminal = typed("evolve", "--set", "NGEN=0")
    terminal.answer("1, 2 or 3 [1]: ", "4")
    terminal.answer("a number from 1 to 3", "1")
    status, said = terminal.read_to_the_end()  # NGEN=0 is refused, so that nothing is started
    assert (status, "CONFIG_NGEN: '0' is out of range" in said) == (1, True), said
    # When a complete file is chosen, it is copied and opened in the menu
    terminal = typed("evolve")
    terminal.answer("1, 2 or 3 [1]: ", "3")
    terminal.answer("which one [1]: ", "2")
    terminal.wait_for("[Q] Quit")
    terminal.press("q")
    terminal.answer(".config is written; start the run now? (y/n) [n]: ", "")
    assert terminal.read_to_the_end()[0] == 0
    assert (place / ".config").read_text() == (ROOT / "configs" / "embedded.config").read_text()


def test_a_way_that_leads_nowhere_is_said_and_has_its_status(typed: Callable[..., TypedTerminal], place: Path) -> None:
    (place / "configs").unlink()
    terminal = typed("evolve")
    terminal.answer("1, 2 or 3 [2]: ", "1")
    terminal.answer("configs/cma.config is not here: change to a checkout of Whetstone, or choose 2", "")
    terminal.wait_for("1  model [embedded]: ")
    terminal.press("\x04")
    status, said = terminal.read_to_the_end()
    assert (status, "the input has ended" in said) == (1, True), said
