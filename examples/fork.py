"""Begin where another run was, with other weights: run examples/quickstart.py first.

What the first run has measured is not measured again, as long as its farm has it.
"""

from orchestrator.api import evolve, open_run

if __name__ == "__main__":
    fork = evolve(
        fork="outputs/examples/quickstart@1",  # the population of generation 1; a name such as @g0_child0_mut is one
        output="outputs/examples/fork",
        lambda_shortness=0.8,
        lambda_correctness=0.2,
        quiet=True,
    )

    origin = open_run("outputs/examples/quickstart")
    print(f"{fork.run} begins with {origin.run}")
    for member in origin.generations[1]["population"]:
        before = origin.individual(member["node"])
        now = next(one for one in fork.individuals if one.deltas == before.deltas)
        print(f"  {before.node}: fitness {before.fitness:.4f} there, {now.fitness:.4f} here")
    first = fork.generations[0]["evaluations"]
    print(f"first generation: {first['computed']} evaluations computed, {first['cached']} known")
