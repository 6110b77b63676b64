"""The commands that a page offers: to repeat its run, and to use what the run has found."""

from __future__ import annotations

from pathlib import Path

from orchestrator.results import COLLECT, EVOLVE, SETTINGS_FILE, RunResults
from orchestrator.shell import command_line

AGAIN = Path("outputs/again")
_GENERATION = "generation "


def commands_of(results: RunResults) -> list[tuple[str, str]]:
    """[(what it does, the command)], quoted for a shell.  Raises: OutputError for a file that cannot be used."""
    folder = results.folder
    if results.kind == COLLECT:
        repeat = command_line("collect", "--config", folder / SETTINGS_FILE, "--fresh")
        return [("Do it once more, and keep this collection under another name:", repeat)]
    if results.kind != EVOLVE:
        return [("Its state and its figures as text:", command_line("status", folder))]
    fork = () if results.fork is None else ("--fork", _place(results.fork["folder"], results.fork["at"]))
    repeat = command_line("evolve", *fork, "--config", folder / "config", "--output", AGAIN)
    found = [("Repeat the run:", repeat)]
    if results.best_deltas and any(results.best_deltas.values()):
        least = results.steered_min_new_tokens
        needs = f"; each request needs min_new_tokens {least}" if least else ""
        found.insert(0, (f"Make a file for SGLang (or for vllm, transformers, llama-cpp, openai){needs}:",
                         command_line("export", folder, "--to", "sglang")))  # fmt: skip
    return found


def forked_from(results: RunResults) -> str:
    """As in "evolve-1a2b at generation 2"; "" for a run that began by itself."""
    fork = results.fork
    return "" if fork is None else f"{fork['run']} at {fork['at']}"


def _place(folder: str, at: str) -> str:
    """What `--fork` takes; without a place it is the end of the run."""
    if at.startswith(_GENERATION):
        return f"{folder}@{at.removeprefix(_GENERATION)}"
    return folder if " " in at else f"{folder}@{at}"
