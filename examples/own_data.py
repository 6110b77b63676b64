"""Questions from Python objects: rows for the search, and rows that choose the winner.  pandas works as well."""

import orchestrator

PRICES = {"apples": 3, "pears": 4, "plums": 2}


def rows(count: int) -> list[dict[str, object]]:
    """How much a number of each fruit costs."""
    return [
        {"question": f"One costs {price} dollars. What do {count} {fruit} cost?", "answer": count * price}
        for fruit, price in PRICES.items()
    ]


if __name__ == "__main__":
    run = orchestrator.evolve(
        "examples/small.config",
        output="outputs/examples/own_data",
        data={"training": rows(2), "validation": rows(3)},
        judge="exact_number",  # right when the answer ends with the right number
        ngen=1,
        quiet=True,
    )

    for comparison in run.comparisons:
        right = sum(answer.is_correct for answer in comparison.after)
        print(f"{comparison.name}: {right} of {len(comparison.after)} right")
        print(f"  {comparison.after[0].question} {comparison.after[0].text!r}")
