"""Errors of a user: exit status 1, the option named, no traceback, nothing started."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from run_folder import ROOT, RunFolder, finish, orchestrator, start

from orchestrator import cli, console


@pytest.fixture
def refusal(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """The lines of a run that is refused for these options, in this process: nothing of it has been started."""
    monkeypatch.chdir(ROOT)

    def lines(**options: str) -> list[str]:
        _, _, _, command, *arguments = run_folder.command(**options)
        assert command == "evolve"
        assert cli.main([command, *arguments]) == console.WRONG
        assert not run_folder.farm.exists()
        assert not run_folder.output.exists()
        return capsys.readouterr().err.splitlines()

    return lines


def test_a_full_disk_parks_the_run(run_folder: RunFolder) -> None:
    # No file may be larger than 1,000 bytes: the same error as on a full disk.  Python would cut compiled modules
    # there, and keep them for every later process.
    done = finish(start(["env", "PYTHONDONTWRITEBYTECODE=1", "prlimit", "--fsize=1000", *run_folder.command()]))
    assert done.returncode == 3, done.stdout
    assert "make room" in done.stdout and "Traceback" not in done.stdout
    assert not run_folder.farm.exists()


def test_every_wrong_option_has_a_line(refusal: Callable[..., list[str]]) -> None:
    lines = refusal(CXPB="2", MUTPB="x", NGEN="0")
    assert [line.split("CONFIG_")[1].split(":")[0] for line in lines] == ["NGEN", "CXPB", "MUTPB"]


@pytest.mark.parametrize(
    "arguments", [(), ("dance",), ("evolve", "--config"), ("farm", "sideways"), ("evolve", "--config", "/nowhere/x")]
)
def test_wrong_arguments_end_with_1(arguments: tuple[str, ...]) -> None:
    done = orchestrator(*arguments)
    assert done.returncode == 1 and "Traceback" not in done.stdout


def test_a_damaged_state_is_not_overwritten(run_folder: RunFolder) -> None:
    run_folder.output.mkdir()
    (run_folder.output / "evolution_state.json").write_text('{"generation": 1')
    done = run_folder.run()
    assert done.returncode == 1
    assert "evolution_state.json" in done.stdout
    assert (run_folder.output / "evolution_state.json").read_text() == '{"generation": 1'
    assert not run_folder.farm.exists()


WITH_SHORT_WAIT = """
from orchestrator import cli
from orchestrator.farm import connection
connection.START_WAIT_S = 1.0
raise SystemExit(cli.main())
"""


def test_a_missing_broker_is_an_error_of_one_line(run_folder: RunFolder) -> None:
    # It is connected to again and again, here for a second in place of a quarter of a minute
    python, _, _, *arguments = run_folder.command(FARM="redis://127.0.0.1:1/0")
    done = finish(start([python, "-c", WITH_SHORT_WAIT, *arguments]))
    assert done.returncode == 2
    assert "no Redis or Valkey" in done.stdout
    assert "Traceback" not in done.stdout
