"""Run a small evolution on this machine, follow it, and read what it has found.

python examples/quickstart.py          from the root of the repository
"""

from orchestrator.api import Callback, GenerationInfo, RunInfo, evolve


class Printer(Callback):
    """Told of each generation.  What a callback raises is reported and never ends the run."""

    def on_generation(self, run: RunInfo, generation: GenerationInfo) -> None:
        print(f"generation {generation.number} of {run.total}: best fitness {generation.record['best_ever']:.4f}")


if __name__ == "__main__":
    run = evolve(
        "examples/small.config",
        output="outputs/examples/quickstart",
        callbacks=[Printer()],
        quiet=True,
    )

    assert run.report is not None, "a run with a validation set has a report"
    print(run.report.conclusion.sentence)
    for individual in run.individuals:
        print(f"{individual.node:<14} {individual.fitness:.4f} {individual.mean_tokens:5.1f} tokens an answer")
    for comparison in run.comparisons:
        before, after = next(comparison.pairs())
        print(f"{comparison.name}\n  before: {before.text!r}\n  after:  {after.text!r}")
