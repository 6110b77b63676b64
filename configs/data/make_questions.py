"""Write `sample_questions.jsonl`: questions about invented companies, half looked up, half worked out, in three splits.

    python configs/data/make_questions.py [--seed 7] [--each 100] [--output configs/data/sample_questions.jsonl]

Each question has a company and a page of its own, so that no split knows anything of another.  A page is one paragraph
with more figures than the question needs.  The figures are drawn so that results are short: whole millions, whole
percent.  The same seed writes the same file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPLITS = ("train", "validation", "test")
SEED, EACH = 7, 100

_FIRST = "Alder Brin Calder Dorn Elver Fenn Garr Hask Ingle Jorv Kest Larn Marl Nor Oster Pell Quern Ros Stav Ulv Vars"
_LAST = "wick mere holt stead bury dale combe ford ley rigg shaw thwaite moor beck lund"
_TOWNS = "Bellcross Cawder Dunmoor Eastrick Farncote Gorsby Hexwell Kilbrack Lydcote Marrow Netherlund Oxbeck Penhollow"

BUSINESSES = (
    ("Tools", "hand tools", "hardware stores", "a line of cordless saws"),
    ("Dairy", "butter, cheese and yogurt", "supermarkets", "a drink made from whey"),
    ("Marine", "ferries and small cargo ships", "shipping lines", "an electric ferry"),
    ("Paper", "packaging and printing paper", "printing houses", "a recycled board"),
    ("Optics", "lenses for cameras and microscopes", "laboratories", "a lens for drones"),
    ("Textiles", "towels, bed linen and work clothes", "hotels", "a fabric that needs no ironing"),
    ("Bakeries", "bread and frozen dough", "school kitchens", "a gluten-free loaf"),
    ("Pumps", "pumps and valves", "water works", "a pump that reports its own faults"),
    ("Furniture", "desks and chairs", "schools", "a desk of pressed straw"),
    ("Seeds", "seeds and fertilizer", "farmers' cooperatives", "a wheat that stands drought"),
    ("Bicycles", "city bicycles and their parts", "rental firms", "a folding cargo bicycle"),
    ("Ceramics", "tiles and sinks", "builders' merchants", "a tile that stores heat"),
)  # fmt: skip
OPENINGS = (
    "{company} makes {goods} and sells most of them to {buyers}.",
    "{company} is a maker of {goods}; its customers are mainly {buyers}.",
    "Founded in {founded}, {company} produces {goods} for {buyers}.",
)
CLOSINGS = (
    "The management expects {novelty} to bring new orders in {next}.",
    "Work on {novelty} continued throughout the year and should be finished in {next}.",
    "Customers have received {novelty} well, and prices were kept where they were.",
)


@dataclass(frozen=True)
class Topic:
    """One type of question: figures drawn by `draw`, and templates that they fill.

    `excludes` names the look-ups whose fact would contradict this one's or give its answer away.
    """

    name: str
    draw: Callable[[random.Random], Mapping[str, Any]]
    fact: str
    questions: tuple[str, str]
    answer: str
    rationale: str = ""
    excludes: tuple[str, ...] = ()


def _pair(rng: random.Random, low: int, high: int) -> dict[str, Any]:
    """A figure and that of the year before, which differ by at most a third."""
    now = rng.randint(low, high)
    return {"now": now, "before": max(1, now + rng.choice([-1, 1]) * rng.randint(1, max(1, now // 3)))}


def _gross_margin(rng: random.Random) -> dict[str, Any]:
    now = rng.randint(210, 480)
    return {"now": now / 10, "before": (now + rng.choice([-1, 1]) * rng.randint(1, 40)) / 10}


def _growth(rng: random.Random) -> dict[str, Any]:
    percent, before = rng.choice([5, 10, 15, 20, 25, 30, 40]), 20 * rng.randint(6, 30)
    more = before * percent // 100
    return {"percent": percent, "before": before, "now": before + more, "more": more}


def _regions(rng: random.Random) -> dict[str, Any]:
    north, south, export = (rng.randint(15, 240) for _ in range(3))
    return {"north": north, "south": south, "export": export, "total": north + south + export}


def _margin(rng: random.Random) -> dict[str, Any]:
    percent, revenue = rng.randint(4, 24), 100 * rng.randint(2, 9)
    income = revenue * percent // 100
    return {"percent": percent, "revenue": revenue, "cost": revenue - income, "income": income}


def _cash(rng: random.Random) -> dict[str, Any]:
    start, earned, spent, paid = rng.randint(20, 90), rng.randint(40, 120), rng.randint(10, 35), rng.randint(5, 25)
    have = start + earned
    return {"start": start, "earned": earned, "spent": spent, "paid": paid, "have": have, "end": have - spent - paid}


def _shop(rng: random.Random) -> dict[str, Any]:
    boxes, kits = 100 * rng.randint(2, 40), 100 * rng.randint(2, 40)
    box, kit = rng.randint(5, 60), rng.randint(5, 60)
    a, b = boxes * box, kits * kit
    return {"boxes": boxes, "kits": kits, "box": box, "kit": kit, "a": a, "b": b, "total": a + b}


def _plants(rng: random.Random) -> dict[str, Any]:
    plants, each, office = rng.randint(3, 9), 10 * rng.randint(8, 60), 10 * rng.randint(5, 40)
    return {"plants": plants, "each": each, "office": office, "work": plants * each, "total": plants * each + office}


def _share(rng: random.Random) -> dict[str, Any]:
    shares, cents = 10 * rng.randint(2, 30), rng.choice([20, 30, 40, 50, 60, 80])
    paid, kept = shares * cents // 100, rng.randint(8, 60)
    return {"shares": shares, "cents": cents, "paid": paid, "kept": kept, "earned": paid + kept}


def _debt(rng: random.Random) -> dict[str, Any]:
    years, rate, left = rng.randint(3, 9), rng.randint(4, 25), rng.randint(2, 12)
    return {"years": years, "rate": rate, "left": left, "repaid": years * rate, "debt": years * rate + left}


LOOK_UPS = (
    Topic(
        "revenue",
        lambda rng: _pair(rng, 90, 900),
        "Revenue in fiscal {year} was ${now} million, compared with ${before} million in fiscal {last}.",
        ("What was the revenue of {company} in fiscal {year}?",
         "How much revenue did {company} have in fiscal {year}?"),
        "${now} million",
    ),
    Topic(
        "income",
        lambda rng: _pair(rng, 12, 80),
        "Operating income was ${now} million in {year} and ${before} million in {last}.",
        ("What was the operating income of {company} in {year}?",
         "What operating income did {company} report for {year}?"),
        "${now} million",
    ),
    Topic(
        "machines",
        lambda rng: {"spent": rng.randint(5, 60)},
        "The company spent ${spent} million on new machines in {year}, most of it in the spring.",
        ("How much did {company} spend on new machines in {year}?", "What did new machines cost {company} in {year}?"),
        "${spent} million",
    ),
    Topic(
        "gross margin",
        _gross_margin,
        "The gross margin was {now:g}% in {year}, against {before:g}% the year before.",
        ("What was the gross margin of {company} in {year}?", "What gross margin did {company} reach in {year}?"),
        "{now:g}%",
    ),
    Topic(
        "tax rate",
        lambda rng: {"rate": rng.randint(17, 33)},
        "The effective tax rate for {year} was {rate}%.",
        ("What was the effective tax rate of {company} for {year}?", "Which tax rate did {company} pay for {year}?"),
        "{rate}%",
    ),
    Topic(
        "employees",
        lambda rng: {"staff": 10 * rng.randint(110, 980)},
        "At the end of {year} it had {staff:,} employees.",
        ("How many employees did {company} have at the end of {year}?",
         "How many people did {company} employ when {year} ended?"),
        "{staff:,}",
    ),
    Topic(
        "town",
        lambda rng: dict(zip(("town", "other"), rng.sample(_TOWNS.split(), 2), strict=True)),
        "The head office moved to {town} in {year}; the workshops remained in {other}.",
        ("Where did the head office of {company} move in {year}?",
         "In which town is the head office of {company} now?"),
        "{town}",
    ),
    Topic(
        "dividends",
        lambda rng: {"paid": rng.randint(4, 40)},
        "Shareholders received dividends of ${paid} million for {year}.",
        ("How much did {company} pay in dividends for {year}?", "What dividends did {company} pay for {year}?"),
        "${paid} million",
    ),
)  # fmt: skip
WORK_OUTS = (
    Topic(
        "growth",
        _growth,
        "Revenue was ${before} million in {last} and ${now} million in {year}.",
        ("By what percentage did the revenue of {company} grow from {last} to {year}?",
         "What was the growth of the revenue of {company} in {year}, in percent?"),
        "{percent}%",
        "{now} - {before} = {more}; {more} / {before} = {percent}%",
        ("revenue",),
    ),
    Topic(
        "regions",
        _regions,
        "Sales in {year} came from three regions: ${north} million in the north, ${south} million in the south and "
        "${export} million from exports.",
        ("What were the total sales of {company} in the three regions in {year}?",
         "How much did {company} sell in {year} in all three regions together?"),
        "${total} million",
        "{north} + {south} + {export} = {total}",
        ("revenue",),
    ),
    Topic(
        "operating margin",
        _margin,
        "In {year} revenue was ${revenue} million and all operating costs together were ${cost} million.",
        ("What was the operating income of {company} as a percentage of its revenue in {year}?",
         "What share of its revenue, in percent, did {company} keep in {year} after all operating costs?"),
        "{percent}%",
        "{revenue} - {cost} = {income}; {income} / {revenue} = {percent}%",
        ("revenue", "income"),
    ),
    Topic(
        "cash",
        _cash,
        "The year {year} began with ${start} million in cash; operations brought in ${earned} million, new machines "
        "cost ${spent} million and dividends took ${paid} million.",
        ("How much cash did {company} have at the end of {year}, if nothing else changed it?",
         "With no other payments, how much cash was left at {company} when {year} ended?"),
        "${end} million",
        "{start} + {earned} = {have}; {have} - {spent} - {paid} = {end}",
        ("machines", "dividends"),
    ),
    Topic(
        "shop",
        _shop,
        "In {year} its shop sold {boxes:,} gift boxes at ${box} each and {kits:,} repair kits at ${kit} each.",
        ("How many dollars did the shop of {company} take for gift boxes and repair kits together in {year}?",
         "What did gift boxes and repair kits together bring the shop of {company} in {year}, in dollars?"),
        "${total:,}",
        "{boxes} * {box} = {a}; {kits} * {kit} = {b}; {a} + {b} = {total}",
    ),
    Topic(
        "plants",
        _plants,
        "It runs {plants} plants with {each} workers each and has {office} people in its offices.",
        ("How many people work for {company} in its plants and offices together?",
         "What is the number of people in the plants and offices of {company} in all?"),
        "{total:,}",
        "{plants} * {each} = {work}; {work} + {office} = {total}",
        ("employees",),
    ),
    Topic(
        "share",
        _share,
        "Net income in {year} was ${earned} million, of which ${kept} million was retained and the rest paid as "
        "dividends on {shares} million shares.",
        ("What was the dividend of {company} for each share in {year}?",
         "How many dollars did {company} pay out on one share for {year}?"),
        "$0.{cents}",
        "{earned} - {kept} = {paid}; {paid} / {shares} = 0.{cents}",
        ("dividends", "income"),
    ),
    Topic(
        "debt",
        _debt,
        "Bank debt stood at ${debt} million at the end of {year}, and ${rate} million is repaid every year.",
        ("How much bank debt will {company} still have {years} years after the end of {year}?",
         "What will remain of the bank debt of {company} after {years} more years of repayment?"),
        "${left} million",
        "{years} * {rate} = {repaid}; {debt} - {repaid} = {left}",
    ),
)  # fmt: skip


def make_rows(seed: int, each: int) -> list[dict[str, str]]:
    """`each` questions of every split, half of each kind, the topics in turn.  Raises: ValueError for too many."""
    rng = random.Random(f"whetstone questions {seed}")
    companies = [first + last for first in _FIRST.split() for last in _LAST.split()]
    if len(SPLITS) * each > len(companies):
        raise ValueError(f"{len(SPLITS) * each} questions need as many companies; {len(companies)} have names")
    rng.shuffle(companies)
    rows: list[dict[str, str]] = []
    for split in SPLITS:
        topics = [(LOOK_UPS, WORK_OUTS)[i % 2][i // 2 % len(LOOK_UPS)] for i in range(each)]
        rng.shuffle(topics)
        rows += [{"id": "", "split": split, **_row(rng, companies.pop(), topic)} for topic in topics]
    return [{**row, "id": f"question_{number:04}"} for number, row in enumerate(rows, start=1)]


def _row(rng: random.Random, name: str, topic: Topic) -> dict[str, str]:
    """One question with its page: what the company does, the facts in an order of chance, and an outlook.

    It is drawn again while the page has the answer elsewhere: a figure must not be right by accident.
    """
    field, goods, buyers, novelty = rng.choice(BUSINESSES)
    year = rng.choice([2021, 2022, 2023])
    common = {"company": f"{name} {field}", "year": year, "last": year - 1, "next": year + 1}
    business = {"goods": goods, "buyers": buyers, "novelty": novelty, "founded": rng.randint(1887, 1989)}
    opening, closing = (rng.choice(texts).format(**common, **business) for texts in (OPENINGS, CLOSINGS))
    others = [other for other in LOOK_UPS if other is not topic and other.name not in topic.excludes]
    is_look_up = topic in LOOK_UPS
    while True:
        values = {**common, **topic.draw(rng)}
        fact, answer = topic.fact.format(**values), topic.answer.format(**values)
        facts = [fact, *(other.fact.format(**common, **other.draw(rng)) for other in rng.sample(others, 3))]
        rng.shuffle(facts)
        page = " ".join([opening, *facts, closing])
        if len(re.findall(rf"(?<![\d.,]){re.escape(answer)}", page)) == is_look_up:
            break
    return {
        "kind": "lookup" if is_look_up else "arithmetic",
        "topic": topic.name,
        "question": rng.choice(topic.questions).format(**values),
        "context": page,
        "answer": answer,
        "rationale": topic.rationale.format(**values) or f"The page says: {fact}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--each", type=int, default=EACH, help="questions of every split")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("sample_questions.jsonl"))
    options = parser.parse_args()
    rows = make_rows(options.seed, options.each)
    options.output.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    print(f"{len(rows)} questions in {options.output}")


if __name__ == "__main__":
    main()
