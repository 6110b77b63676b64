"""The prompts that every search is measured against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.settings.brevity import BrevityPrompt, prompts_of, read_prompts
from orchestrator.settings.load import load_settings
from orchestrator.settings.options import SettingsError

SHIPPED = Path(__file__).parents[3] / "configs/prompts.yaml"


def written(folder: Path, *prompts: tuple[str, str]) -> Path:
    path = folder / "prompts.yaml"
    lines = [f"  - name: {name}\n    text: {text}\n" for name, text in prompts]
    path.write_text("base: Answer.\nprompts:\n" + "".join(lines), "utf-8")
    return path


def problems(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        read_prompts(path)
    return "\n".join(caught.value.problems)


def test_the_shipped_file_has_at_least_ten_sentences_beside_the_plain_prompt() -> None:
    prompts = read_prompts(SHIPPED).prompts
    assert prompts[0] == BrevityPrompt("none", "")
    assert len(prompts) > 10
    assert all(prompt.text.endswith(".") for prompt in prompts[1:])


def test_the_sentence_follows_the_system_prompt() -> None:
    base = "Answer the question using the provided context."
    assert BrevityPrompt("concise", "Be concise.").system_prompt(base) == f"{base} Be concise."
    assert BrevityPrompt("none", "").system_prompt(base) == base
    assert BrevityPrompt("concise", "Be concise.").system_prompt("") == "Be concise."


def test_two_prompts_of_one_name_or_text_are_refused_both_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, ("none", '""'), ("a", "Be brief."), ("a", "Hurry."), ("b", '"Be brief. "'))
    said = problems(path)
    assert "'a'" in said and "'Be brief.'" in said


@pytest.mark.parametrize(
    "content",
    [
        "base: Answer.\nprompts:\n  - name: a\n    text: Be brief.\n",  # without the plain prompt
        "base: Answer.\nprompts:\n  - name: none\n    text: Be brief.\n",
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


def test_the_shipped_prompts_are_found_from_every_working_directory(
    sound: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sound.folder)
    prompts = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=shipped", "TARGET_SYSTEM_PROMPT=Reply."]))
    assert list(prompts) == [prompt.name for prompt in read_prompts(SHIPPED).prompts]
    assert (prompts["none"], prompts["concise"]) == ("Reply.", "Reply. Be concise.")


def test_the_file_has_the_prompt_to_which_the_best_sentence_is_appended(sound: Any) -> None:
    prompts = prompts_of(load_settings(sound.path, ["PROMPTS_PATH=shipped", "TARGET_SYSTEM_PROMPT=best"]))
    assert prompts["none"] == read_prompts(SHIPPED).base


def test_without_a_file_the_plain_prompt_is_alone(sound: Any) -> None:
    assert prompts_of(load_settings(sound.path, ["PROMPTS_PATH=", "TARGET_SYSTEM_PROMPT=Reply. "])) == {
        "none": "Reply. "
    }
