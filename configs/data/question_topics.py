"""The topics of `make_questions.py`: what can be asked of a company, and how the figures for it are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_TOWNS = "Bellcross Cawder Dunmoor Eastrick Farncote Gorsby Hexwell Kilbrack Lydcote Marrow Netherlund Oxbeck Penhollow"


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
