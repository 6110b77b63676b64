"""Write `sample_questions.jsonl`: questions about invented companies, each answered by one sentence of a page.

    python configs/data/make_questions.py [--seed 7] [--each 100] [--more 100] [--validation 200] [--output FILE]

There are three splits of `--each` questions, `--more` further test questions, and `--validation` further validation
questions.  A run of `make evolve` asks 100 of the further test questions at its end and chooses nothing on them.

Each question has a company and a page of its own, so that no split knows anything of another.  A page is one paragraph
with more figures than the question needs.  The same seed writes the same file.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

from question_topics import TOPICS, Topic

SPLITS = ("train", "validation", "test")
SEED, EACH, MORE, VALIDATION = 7, 100, 100, 200

_FIRST = "Alder Brin Calder Dorn Elver Fenn Garr Hask Ingle Jorv Kest Larn Marl Nor Oster Pell Quern Ros Stav Ulv Vars"
_MORE_FIRST = "Ash Birk Carn Dray Eld Farr Grim Holm Ivel Kirk Lock Mal Neth Orm Penn Rud Scar Thorn Ulls Wend Yar"
_THIRD_FIRST = "Bram Cull Dax Ebb Flint Gorse Hale Inver Jed Keld Lyth Mire Nant Oak Pike"
_LAST = "wick mere holt stead bury dale combe ford ley rigg shaw thwaite moor beck lund"

BUSINESSES = (
    ("Tools", "hand tools", "hardware stores"),
    ("Dairy", "butter, cheese and yogurt", "supermarkets"),
    ("Marine", "ferries and small cargo ships", "shipping lines"),
    ("Paper", "packaging and printing paper", "printing houses"),
    ("Optics", "lenses for cameras and microscopes", "laboratories"),
    ("Textiles", "towels, bed linen and work clothes", "hotels"),
    ("Bakeries", "bread and frozen dough", "school kitchens"),
    ("Pumps", "pumps and valves", "water works"),
    ("Furniture", "desks and chairs", "schools"),
    ("Seeds", "seeds and fertilizer", "farmers' cooperatives"),
    ("Bicycles", "city bicycles and their parts", "rental firms"),
    ("Ceramics", "tiles and sinks", "builders' merchants"),
)  # fmt: skip
OPENINGS = (
    "{company} makes {goods} and sells most of them to {buyers}.",
    "{company} is a maker of {goods}; its customers are mainly {buyers}.",
    "Founded in {founded}, {company} produces {goods} for {buyers}.",
)


def make_rows(seed: int, each: int, more: int, validation: int) -> list[dict[str, str]]:
    """`each` questions of every split, then `more` test and `validation` validation questions about other companies.

    Raises: ValueError for too many.
    """
    rng = random.Random(f"whetstone questions {seed}")
    companies = _companies(rng, _FIRST, len(SPLITS) * each)
    rows = [row for split in SPLITS for row in _rows(rng, companies, split, each)]
    rng = random.Random(f"whetstone test questions {seed}")
    rows += _rows(rng, _companies(rng, _MORE_FIRST, more), "test", more)
    rng = random.Random(f"whetstone validation questions {seed}")
    rows += _rows(rng, _companies(rng, _THIRD_FIRST, validation), "validation", validation)
    return [{**row, "id": f"question_{number:04}"} for number, row in enumerate(rows, start=1)]


def _companies(rng: random.Random, first_parts: str, count: int) -> list[str]:
    """At least `count` names, in an order of chance.  Raises: ValueError where there are fewer."""
    companies = [first + last for first in first_parts.split() for last in _LAST.split()]
    if count > len(companies):
        raise ValueError(f"{count} questions need as many companies; {len(companies)} have names")
    rng.shuffle(companies)
    return companies


def _rows(rng: random.Random, companies: list[str], split: str, count: int) -> list[dict[str, str]]:
    """`count` questions, the topics in turn; each takes one of the companies."""
    topics = [TOPICS[i % len(TOPICS)] for i in range(count)]
    rng.shuffle(topics)
    return [{"id": "", "split": split, **_row(rng, companies.pop(), topic)} for topic in topics]


def _row(rng: random.Random, name: str, topic: Topic) -> dict[str, str]:
    """One question with its page: what the company does, and two facts in an order of chance.

    It is drawn again while the page has the answer twice: a figure must not be right by accident.
    """
    field, goods, buyers = rng.choice(BUSINESSES)
    year = rng.choice([2021, 2022, 2023])
    common = {"company": f"{name} {field}", "year": year, "last": year - 1}
    opening = rng.choice(OPENINGS).format(**common, goods=goods, buyers=buyers, founded=rng.randint(1887, 1989))
    others = [other for other in TOPICS if other is not topic]
    while True:
        values, other = {**common, **topic.draw(rng)}, rng.choice(others)
        fact, answer = topic.fact.format(**values), topic.answer.format(**values)
        facts = [fact, other.fact.format(**common, **other.draw(rng))]
        rng.shuffle(facts)
        page = " ".join([opening, *facts])
        if len(re.findall(rf"(?<![\d.,]){re.escape(answer)}", page)) == 1:
            break
    return {
        "topic": topic.name,
        "question": rng.choice(topic.questions).format(**values),
        "context": page,
        "answer": answer,
        "rationale": f"The page says: {fact}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--each", type=int, default=EACH, help="questions of every split")
    parser.add_argument("--more", type=int, default=MORE, help="further test questions")
    parser.add_argument("--validation", type=int, default=VALIDATION, help="further validation questions")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("sample_questions.jsonl"))
    options = parser.parse_args()
    rows = make_rows(options.seed, options.each, options.more, options.validation)
    options.output.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    print(f"{len(rows)} questions in {options.output}")


if __name__ == "__main__":
    main()
