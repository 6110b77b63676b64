"""The prompts of guided judging: of the model that judges a ticket, of the critic, and of the reflector.

Whatever a prompt quotes (summaries, reasons, critiques) is a JSON string on one line, so that nothing in it can be read
as part of the prompt.  A small model that is told how to judge or how to find a rule repeats what it is told; one that
has seen it done does it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from tasks.common.files import FileTooLarge, read_limited
from tasks.common.text import escape_in_json, fill, json_array, missing_placeholders, one_line
from tasks.guide.choose import JudgedTicket, SelectionRule, judge
from tasks.guide.experiences import normalised, render_experiences
from tasks.guide.replies import Critique, group_name
from tasks.guide.ticket import GuideCandidate, Ticket, Verdict, image_number, read_candidate

Messages = tuple[str, ...]
"""The system message, then those of user and assistant in turn; the last one is the user's."""
Critiques = Mapping[tuple[str, int], Critique]
"""By the group id of the ticket and the index of the candidate."""
PromptLanguage = Literal["en", "zh"]
PromptForm = Literal["plain", "turns_own"]
"""One message in English; or a chat in which judged tickets of other subjects are turns before the ticket, with
verdicts in the mission's language."""

CRITIC_PLACES = (
    "mission", "focus", "experiences", "ticket", "label", "candidate", "summary_max_chars", "critique_max_chars",
)  # fmt: skip
REFLECTION_PLACES = ("mission", "focus", "experiences", "bundle", "contrast", "suggestions", "max_operations")
OPERATIONS = ("upsert", "remove", "merge")
MOST_REASONS = 2  # of the answers with one verdict to a ticket
_MOST_BYTES = 80_000
_CHINESE = re.compile("[\u4e00-\u9fff]")

PROMPTS: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text("utf-8"))
_WORDS: Mapping[PromptLanguage, Mapping[Verdict, str]] = {
    "en": {"pass": "pass", "fail": "fail"},
    "zh": {"pass": "通过", "fail": "不通过"},
}


def prompt_language(text: str) -> PromptLanguage:
    """Chinese where the text has a Chinese character."""
    return "zh" if _CHINESE.search(text) else "en"


@cache
def examples(language: PromptLanguage) -> dict[str, Any]:
    """Judged tickets of other subjects (`demonstrations`), and a bundle with the proposal that it calls for (`solved`).

    The demonstrations show how experiences decide: what looks bad passes where no experience names it, and what looks
    well fails where one does.  Six of eight fail: with as many that pass, a small model passes too much.  No subject,
    feature or value is one of a generated mission, and no string has a quotation mark: xgrammar takes no escape in a
    string of bounded length.
    """
    found: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))[language]
    return found


def require_experiences(prompt: str, experiences: Mapping[str, str]) -> str:
    """The prompt as it is; a ValueError when it lacks an experience."""
    for key, text in experiences.items():
        if f"[{key}]. {text}" not in prompt:
            raise ValueError(f"the prompt lacks the experience {key}")
    if not experiences:
        raise ValueError("there is no experience")
    return prompt


def quoted_summaries(per_image: Mapping[str, str]) -> str:
    """One line for each image: `- image_2: "..."`."""
    return "\n".join(f"- {image}: {escape_in_json(one_line(text))}" for image, text in per_image.items())


def _numbered_images(summaries: Iterable[str]) -> dict[str, str]:
    return {f"image_{number}": text for number, text in enumerate(summaries, start=1)}


# The judge of tickets


def rollout_messages(
    mission: str, focus: str, experiences: Mapping[str, str], ticket: Ticket, form: PromptForm = "plain"
) -> Messages:
    """The messages for one ticket."""
    about = {"mission": mission, "focus": focus}
    shown = {"experiences": render_experiences(experiences), "ticket": quoted_summaries(ticket.per_image)}
    if form == "plain":
        return PROMPTS["plain"]["system"], require_experiences(
            fill(PROMPTS["plain"]["user"], about | shown), experiences
        )
    language = prompt_language(focus)
    words = _WORDS[language]
    messages = [fill(PROMPTS["turns"]["system"], {"pass": words["pass"], "fail": words["fail"], **about})]
    for one in examples(language)["demonstrations"]:
        numbered = {f"G{number}": text for number, text in enumerate(one["experiences"])}
        quoted = quoted_summaries(_numbered_images(one["summaries"]))
        messages.append(fill(PROMPTS["turns"]["user"], {"experiences": render_experiences(numbered), "ticket": quoted}))
        messages.append(f"Verdict: {words[one['verdict']]}\nReason: {one['reason']}\nConfidence: 0.95")
    return *messages, require_experiences(fill(PROMPTS["turns"]["user"], shown), experiences)


# Critic and reflector


@dataclass(frozen=True)
class Template:
    """The prompt of critic or reflector: a file that a user may change.

    Beside `NAME.txt` there may be a `NAME.zh.txt`, which missions with a Chinese focus take instead: a small model
    writes in the language that it is addressed in.
    """

    text: str
    chinese: str | None = None

    @classmethod
    def read(cls, path: Path, places: Sequence[str], operations: Sequence[str] = ()) -> Template:
        """The file has a `{place}` for each of `places`, and names each of `operations`; else a ValueError says what
        it lacks.
        """
        beside = path.with_name(f"{path.stem}.zh{path.suffix}")
        texts = []
        for one in [path, beside] if beside.exists() else [path]:
            try:
                text = read_limited(one, _MOST_BYTES).decode()
            except (OSError, FileTooLarge, UnicodeDecodeError) as error:
                raise ValueError(f"{one}: {getattr(error, 'strerror', None) or error}") from None
            missing = [f"the placeholder {place}" for place in missing_placeholders(text, places)]
            missing += [f"the operation {name}" for name in operations if name not in text]
            if missing:
                raise ValueError(f"{one}: it lacks {', '.join(missing)}")
            texts.append(text)
        return cls(*texts)

    def filled(self, focus: str, experiences: Mapping[str, str], values: Mapping[str, str]) -> str:
        """The text in the language of a mission's focus, where there is one."""
        text = self.chinese if self.chinese is not None and prompt_language(focus) == "zh" else self.text
        values = {**values, "focus": focus, "experiences": render_experiences(experiences)}
        return require_experiences(fill(text, values), experiences)


def critic_messages(
    template: Template,
    focus: str,
    experiences: Mapping[str, str],
    found: JudgedTicket,
    candidate: GuideCandidate,
    *,
    summary_max_chars: int,
    critique_max_chars: int,
) -> Messages:
    """The messages on one valid candidate."""
    shown = {"verdict": candidate.verdict, "reason": candidate.reason, "confidence": candidate.confidence}
    signals = dataclasses.asdict(found.signals[candidate.index])
    measured = {name: one for name, one in signals.items() if one is not None}
    values = {
        "mission": found.ticket.mission,
        "ticket": quoted_summaries(found.ticket.per_image),
        "label": found.ticket.label,
        "candidate": escape_in_json(one_line(shown | {"signals": measured})),
        "summary_max_chars": str(summary_max_chars),
        "critique_max_chars": str(critique_max_chars),
    }
    return PROMPTS["critic"]["system"], template.filled(focus, experiences, values)


def proposal_messages(
    template: Template,
    focus: str,
    experiences: Mapping[str, str],
    bundle: Sequence[JudgedTicket],
    critiques: Critiques,
    contrast: Sequence[Ticket],
    max_operations: int,
) -> Messages:
    """The messages on a bundle, whose first ticket is 第1组.

    `contrast` are tickets that were judged right: they have no number and are no evidence.  Of each list the passing
    ones stand first, so that a small model has all failing ones together.
    """
    numbered = sorted(enumerate(bundle, 1), key=lambda place: place[1].ticket.label == "fail")
    values = {
        "mission": bundle[0].ticket.mission,
        "bundle": json_array(_shown(number, group, critiques) for number, group in numbered),
        "contrast": json_array(
            {"label": ticket.label, "images": dict(ticket.per_image)}
            for ticket in sorted(contrast, key=lambda ticket: ticket.label == "fail")
        ),
        "suggestions": json_array(_pooled_suggestions(bundle, critiques)),
        "max_operations": str(max_operations),
    }
    return PROMPTS["reflector"]["system"], template.filled(focus, experiences, values)


def solved_before(messages: Messages, template: Template, focus: str) -> Messages:
    """The messages of a proposal, after a solved bundle of another subject in the mission's language as a turn."""
    system, asked = messages
    solved = examples(prompt_language(focus))["solved"]
    tickets = [
        Ticket(f"ticket-{number}", solved["mission"], one["label"], _numbered_images(one["summaries"]))
        for number, one in enumerate([*solved["wrong"], *solved["right"]], 1)
    ]
    wrong, right = tickets[: len(solved["wrong"])], tickets[len(solved["wrong"]) :]

    def answered(one: Ticket) -> JudgedTicket:
        reply = f"Verdict: {'pass' if one.label == 'fail' else 'fail'}\nReason: {solved['reason']}\nConfidence: 0.95"
        candidates = tuple(read_candidate(n, 0, n, reply, 1, "stop") for n in range(8))
        return judge(one, candidates, SelectionRule("confidence", ()))

    first = {"G0": solved["experience"]}
    _, shown = proposal_messages(template, solved["focus"], first, list(map(answered, wrong)), {}, right, 1)
    groups = [group_name(number) for number, one in enumerate(wrong, 1) if one.label == "fail"]
    # In the order of `narrowed_proposal`: first what is seen, then the rule.
    edit = {"op": "upsert", "key": None, "rationale": solved["rationale"], "text": solved["rule"], "evidence": groups}
    proposal = {
        "action": "refine",
        "summary": solved["summary"],
        "operations": [edit],
        "critique": None,
        "evidence_group_ids": groups,
        "uncertainty_note": None,
    }
    return system, shown, json.dumps(proposal, ensure_ascii=False), asked


def _pooled_suggestions(bundle: Sequence[JudgedTicket], critiques: Critiques) -> list[dict[str, Any]]:
    """The edits that the critic suggested, each once, with all groups where it did, in the order of the bundle."""
    pooled: dict[tuple[str, str, str], dict[str, Any]] = {}
    for number, group in enumerate(bundle, 1):
        for candidate in group.candidates:
            critique = critiques.get((group.ticket.group_id, candidate.index))
            for edit in (critique.candidate_ops if critique else None) or ():
                same = (edit["op"], edit.get("key") or "", normalised(edit.get("text") or ""))
                shown = {name: edit.get(name) for name in ("op", "key", "text", "rationale")}
                entry = pooled.setdefault(same, {n: v for n, v in shown.items() if v is not None} | {"groups": []})
                if group_name(number) not in entry["groups"]:
                    entry["groups"].append(group_name(number))
    return list(pooled.values())


def _shown(number: int, found: JudgedTicket, critiques: Critiques) -> dict[str, Any]:
    """A ticket for the prompt, short: answers with one verdict are one entry, with all that was found of them.

    The winner is the answer with the label-free selection; its reason stands first.
    """
    ticket, entries = found.ticket, list[dict[str, Any]]()
    for verdict in dict.fromkeys(candidate.verdict for candidate in found.candidates):
        alike = [candidate for candidate in found.candidates if candidate.verdict == verdict]
        if verdict is None:
            entries.append({"malformed": True, "times": len(alike)})
            continue
        alike.sort(key=lambda candidate: candidate.index != found.label_free.candidate)
        signals = [found.signals[candidate.index] for candidate in alike]
        sure = [signal.confidence for signal in signals if signal.confidence is not None]
        said = list[dict[str, Any]]()
        for candidate in alike:
            if critique := critiques.get((ticket.group_id, candidate.index)):
                one = {n: v for n, v in dataclasses.asdict(critique).items() if v and n != "candidate_ops"}
                said += [one] if one not in said else []
        entry: dict[str, Any] = {
            "verdict": verdict,
            "label_match": signals[0].label_match,
            "winner": alike[0].index == found.label_free.candidate,
            "times": len(alike),
            "self_consistency": signals[0].self_consistency and round(signals[0].self_consistency, 2),
            "confidence": round(sum(sure) / len(sure), 2) if sure else None,
            "reasons": list(dict.fromkeys(candidate.reason for candidate in alike))[:MOST_REASONS],
            "critiques": said,
        }
        entries.append({name: value for name, value in entry.items() if value not in (None, [])})
    about = {"group": group_name(number), "group_id": ticket.group_id, "label": ticket.label}
    notes = {"stage_a_deficiencies": gaps} if (gaps := _deficiencies(ticket)) else {}
    return {**about, "images": dict(ticket.per_image), "answers": entries, **notes}


def _deficiencies(ticket: Ticket) -> list[str]:
    """What Stage-A left out of a complete ticket: images without a summary, and summaries that say nothing new."""
    first: dict[str, str] = {}
    numbers = {image_number(image) for image in ticket.per_image}
    expected = range(1, max(numbers)) if max(numbers, default=0) <= 2 * len(numbers) else ()  # else no counter
    missing = [f"image_{number} has no summary" for number in expected if number not in numbers]
    for image, text in ticket.per_image.items():
        if (same := first.setdefault(normalised(text), image)) != image:
            missing.append(f"{image} says the same as {same}")
    return missing
