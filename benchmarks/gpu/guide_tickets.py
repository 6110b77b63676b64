"""Which tickets a model can judge by rules in its prompt: tickets from easy to hard, with and without these rules.

For each shape of tickets and each wording of the prompt, the balanced accuracy of greedy verdicts without experiences,
with the initial one and with the planted rules in several wordings (`verdicts`: only the first line of each answer is
generated).  `samples` answers in full, greedy and seven times at temperature 0.5, as configs/guide_gpu.yaml does.
`form` counts answers that keep the three lines, by temperature.  No grammar is sent.

Choose by the development seed; report with others.  The result is written as the cells arrive.

`python benchmarks/gpu/guide_tickets.py --model FOLDER --folder WORK --shapes half full --prompts plain examples`
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import figures
from benchmarks.gpu.guide_asking import Asking, add_server_options, open_asking, spread, write_result
from benchmarks.gpu.guide_prompts import FORMS, WORDINGS, experiences_of, messages_for
from benchmarks.gpu.guide_shapes import SHAPES
from benchmarks.gpu.guide_tables import HEADS, form_rows, sample_rows, verdict_rows
from benchmarks.gpu.guide_verdicts import FIRST_LINE, LETTERS, SAMPLED, first_verdict, whole_verdict
from orchestrator.guide.stage_a import parse_ticket
from orchestrator.guide.tickets.generate import generate_tickets
from orchestrator.guide.tickets.missions import PLANS
from orchestrator.guide.tickets.plan import with_rules
from tasks.guide.decoding import DecodeCell, preview_seed
from tasks.guide.prompting import PromptForm
from tasks.guide.ticket import Ticket
from tasks.guide.verdict_lines import Malformed, parse_three_lines

TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0)
STAGES = ("verdicts", "samples", "form")
SHOWN = 3  # answers of a unit that are kept as text


@dataclass(frozen=True)
class TicketUnit:
    """What one process asks at once: one mission's tickets of a shape in a prompt, under some conditions.

    A condition is `none`, `initial` or `planted:WORDING`.
    """

    stage: str
    shape: str
    prompt: PromptForm
    mission: int
    conditions: tuple[str, ...]
    count: int
    seed: int
    cap: int


def tickets_of(unit: TicketUnit) -> list[Ticket]:
    named = SHAPES[unit.shape]
    plan = with_rules(PLANS[unit.mission], named.rules)
    made = generate_tickets(plan, unit.count, unit.seed, shape=named.shape)
    return [parse_ticket(ticket.line)[0] for ticket in made]


def work(asking: Asking, unit: TicketUnit) -> dict[str, Any]:
    """By condition: the letters of the verdicts, ticket by ticket, and some answers.

    `form`: by condition and temperature the count of answers, of valid ones, and of each fault.
    """
    plan = with_rules(PLANS[unit.mission], SHAPES[unit.shape].rules)
    tickets = tickets_of(unit)
    cells = {
        "verdicts": [FIRST_LINE],
        "samples": [DecodeCell(*drawn, unit.cap) for drawn in SAMPLED],
        "form": [DecodeCell(temperature, 0.95 if temperature else 1.0, unit.cap) for temperature in TEMPERATURES],
    }[unit.stage]
    asked = []
    for condition in unit.conditions:
        name, _, wording = condition.partition(":")
        experiences = experiences_of(name, plan, wording or "plain")
        for ticket in tickets:
            messages = messages_for(plan, experiences, ticket, unit.prompt)
            for number, cell in enumerate(cells):
                seed = preview_seed(cell, unit.seed, ticket.group_id, number)
                asked.append((messages, replace(cell, seed=seed)))
    started = time.perf_counter()
    answers = asking.answers(asked)
    seconds = time.perf_counter() - started
    each = len(tickets) * len(cells)
    found: dict[str, Any] = {
        "labels": "".join(LETTERS[ticket.label] for ticket in tickets),
        "seconds": seconds,
        "tokens": sum(answer.completion_tokens for answer in answers),
        "prompt_tokens": sum(answer.prompt_tokens for answer in answers) / max(1, len(answers)),
        "conditions": {},
    }
    for place, condition in enumerate(unit.conditions):
        texts = [answer.text for answer in answers[place * each : (place + 1) * each]]
        found["conditions"][condition] = (
            form_by_temperature(texts) if unit.stage == "form" else letters_and_answers(texts, unit.stage, len(cells))
        )
    return found


def letters_and_answers(texts: Sequence[str], stage: str, cells: int) -> dict[str, Any]:
    read = [first_verdict(text) if stage == "verdicts" else whole_verdict(text) for text in texts]
    letters = [LETTERS[verdict] for verdict in read]
    malformed = [text for text, verdict in zip(texts, read, strict=True) if verdict is None]
    return {
        "verdicts": "".join(letters),
        "answers": [*texts[:SHOWN], *malformed[:SHOWN]],
    }


def form_by_temperature(texts: Sequence[str]) -> dict[str, Any]:
    found = {}
    for place, temperature in enumerate(TEMPERATURES):
        read = [(text, parse_three_lines(text)) for text in texts[place :: len(TEMPERATURES)]]
        faults = [(text, lines.reason) for text, lines in read if isinstance(lines, Malformed)]
        found[str(temperature)] = {
            "answers": len(read),
            "valid": len(read) - len(faults),
            "faults": dict(Counter(reason for _, reason in faults)),
            "texts": [text for text, _ in faults[:SHOWN]],
        }
    return found


def units_of(options: argparse.Namespace) -> list[TicketUnit]:
    """The quick ones first: every shape in the first prompt, then the next one."""
    wordings = options.wordings
    conditions = {
        "verdicts": ("none", "initial", *(f"planted:{one}" for one in wordings)),
        "samples": ("none", "initial", f"planted:{wordings[0]}"),
        "form": ("initial", f"planted:{wordings[0]}"),
    }  # fmt: skip
    counts = {"verdicts": options.tickets, "samples": options.sampled, "form": options.formed}
    return [
        TicketUnit(stage, shape, prompt, mission, conditions[stage], counts[stage], options.seed, options.cap)
        for stage in options.stages
        for prompt in options.prompts
        for shape in options.shapes
        for mission in options.missions
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_options(parser)
    parser.add_argument("--shapes", "--variants", choices=list(SHAPES), nargs="+", default=list(SHAPES))
    parser.add_argument("--prompts", choices=FORMS, nargs="+", default=list(FORMS))
    parser.add_argument("--wordings", choices=WORDINGS, nargs="+", default=list(WORDINGS))
    parser.add_argument("--missions", type=int, choices=range(len(PLANS)), nargs="+", default=list(range(len(PLANS))))
    parser.add_argument("--cap", type=int, default=128, help="new tokens of a whole answer (128)")
    parser.add_argument("--stages", choices=STAGES, nargs="+", default=["verdicts"])
    parser.add_argument("--tickets", type=int, default=40, help="of each mission, greedy verdicts (40)")
    parser.add_argument("--sampled", type=int, default=100, help="of each mission, sampled in full (100)")
    parser.add_argument("--formed", type=int, default=50, help="of each mission, for the form by temperature (50)")
    parser.add_argument("--seed", type=int, default=1, help="1 is for development (1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="ask nothing new after so long")
    parser.add_argument("--result", default="gpu_guide_tickets", help="written to benchmarks/results/RESULT.json")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with open_asking(options) as (asking, version):
        started = written = time.monotonic()
        for unit, found in spread(work, asking, units_of(options), options.processes):
            records.append({"unit": asdict(unit), "found": found})
            if time.monotonic() - written > 5:
                write(options, version, records, time.monotonic() - started)
                written = time.monotonic()
            if time.monotonic() - started > options.seconds:
                break
        seconds = time.monotonic() - started
    write(options, version, records, seconds)
    tokens = sum(record["found"]["tokens"] for record in records)
    print(f"{len(records)} units, {tokens:,} tokens in {seconds:.1f} s: {tokens / seconds:,.0f} tokens/s")
    records.sort(key=lambda record: units_order(options, record["unit"]))
    for stage, rows in (("verdicts", verdict_rows), ("samples", sample_rows), ("form", form_rows)):
        lines = list(rows(records))
        if lines and (stage in options.stages or stage == "verdicts"):
            print(f"\n{stage}\n" + figures.table(HEADS[stage].split(), lines))
    return 0


def units_order(options: argparse.Namespace, unit: Mapping[str, Any]) -> tuple[int, ...]:
    return (
        STAGES.index(unit["stage"]), options.shapes.index(unit["shape"]), options.prompts.index(unit["prompt"]),
        unit["mission"],
    )  # fmt: skip


def write(options: argparse.Namespace, version: str, records: Sequence[Mapping[str, Any]], seconds: float) -> None:
    shapes = {name: asdict(shape) for name, shape in SHAPES.items()}
    write_result(options, version, seconds=seconds, shapes=shapes, units=list(records))


if __name__ == "__main__":
    sys.exit(main())
