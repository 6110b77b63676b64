"""The topics of `make_questions.py`: what can be asked of a company, and how the figures for it are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_TOWNS = "Bellcross Cawder Dunmoor Eastrick Farncote Gorsby Hexwell Kilbrack Lydcote Marrow Netherlund Oxbeck Penhollow"


@dataclass(frozen=True)
class Topic:
    """One type of question: figures drawn by `draw`, and templates that they fill."""

    name: str
    draw: Callable[[random.Random], Mapping[str, Any]]
    fact: str
    questions: tuple[str, str]
    answer: str


def _pair(rng: random.Random, low: int, high: int) -> dict[str, Any]:
    """A figure and that of the year before, which differ by at most a third."""
    now = rng.randint(low, high)
    return {"now": now, "before": max(1, now + rng.choice([-1, 1]) * rng.randint(1, max(1, now // 3)))}


def _gross_margin(rng: random.Random) -> dict[str, Any]:
    now = rng.randint(210, 480)
    return {"now": now / 10, "before": (now + rng.choice([-1, 1]) * rng.randint(1, 40)) / 10}


TOPICS = (
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
