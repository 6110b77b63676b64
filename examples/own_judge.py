"""A judge of your own, in ten lines of Python, steers an evolution: an answer of more than five words is wrong."""

from orchestrator.api import evolve

MOST_WORDS = 5


def brief(question: str, gold: str, answer: str) -> tuple[bool, str]:
    words = len(answer.split())
    return words <= MOST_WORDS, f"{words} words, and {MOST_WORDS} are allowed"


if __name__ == "__main__":
    run = evolve(
        "examples/small.config",
        output="outputs/examples/own_judge",
        judge=brief,
        optimiser="random",  # needs no reflector
        delta_bound=40.0,  # draws have a tenth of it as their standard deviation
        lambda_shortness=0.0,  # the judge alone decides
        lambda_correctness=1.0,
        quiet=True,
    )

    print(f"start: {run.individuals[0].correctness:.0%} of the answers are brief")
    print(f"best: {max(one.correctness for one in run.individuals):.0%}")
    for verdict in run.comparisons[0].after:
        print(f"{verdict.is_correct!s:<5} {verdict.reasoning}: {verdict.text!r}")
