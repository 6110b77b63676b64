"""The prompts that every search is measured against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings import SettingsError
from orchestrator.settings.inputs import BrevityPrompt, prompts_of, read_prompts
from orchestrator.settings.kconfig import load_settings

SHIPPED = Path(__file__).parents[3] / "configs/prompts.yaml"


def problems(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_prompts(path)
    return "\n".join(caught.value.problems)


def test_the_sentence_follows_the_system_prompt() -> None:
    base = "Answer the question using the provided context."
    assert BrevityPrompt("concise", "Be concise.").system_prompt(base) == f"{base} Be concise."
    assert BrevityPrompt("plain", "").system_prompt(base) == base
    assert BrevityPrompt("concise", "Be concise.").system_prompt("") == "Be concise."


@pytest.mark.parametrize(
    "content",
    [
        "prompts:\n  - name: a\n    text: Be brief.\n",  # without the plain prompt
        "prompts:\n  - name: plain\n    text: Be brief.\n",
        "prompts:\n  - name: a\n",
        "prompts:\n  - name: 3\n    text: x\n",
        "prompts:\n  - name: a\n    text: x\n    more: y\n",
        "[]\n",
        ": :",
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(content, "utf-8")
    assert problems(path)


@pytest.mark.parametrize("name", ["first sentence", "max_tokens 40", "g0_pop0", "plain: log-odds x1", "a: random 3"])
def test_a_name_that_a_run_gives_itself_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(f'prompts:\n  - {{name: plain, text: ""}}\n  - {{name: "{name}", text: Be brief.}}\n', "utf-8")
    assert name in problems(path) and len(problems(path).splitlines()) == 1


def test_the_shipped_prompts_are_found_from_every_working_directory(
    sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sound.folder)
    prompts = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=shipped", "TARGET_SYSTEM_PROMPT=Reply."]))
    assert list(prompts) == [prompt.name for prompt in read_prompts(SHIPPED)]
    assert (prompts["plain"], prompts["concise"]) == ("Reply.", "Reply. Be concise.")


def test_without_a_file_the_plain_prompt_is_alone(sound: Any) -> None:
    assert prompts_of(load_settings(sound.path, ["PROMPTS_PATH=", "TARGET_SYSTEM_PROMPT=Reply. "])) == {
        "plain": "Reply. "
    }
