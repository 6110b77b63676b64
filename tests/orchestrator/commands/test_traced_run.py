"""A run that is traced and tracked: what its driver and three workers send, over two sessions."""

from __future__ import annotations

from collections import Counter

from farm_bench import until
from otlp_receiver import OtlpReceiver, ReceivedSpan
from simulated_run import Driver
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from terminal import CHILDREN, Terminal, ended, history

from orchestrator.runs.folder import run_id_of
from tasks.common.tracing import trace_id_of


def test_a_run_is_one_trace_over_its_sessions_and_workers(
    terminal: Terminal, driver: Driver, traces: OtlpReceiver
) -> None:
    # Given a run that parked because the reflector failed for one child, and was retried
    terminal.variables = traces.environment
    driver.set_signal("fail", "reflect", CHILDREN[0])
    status, said = ended(terminal.evolve(TRACKERS="tensorboard"))
    assert status == 3, said
    driver.clear_signal("fail", "reflect", CHILDREN[0])
    status, said = terminal.run("retry", str(terminal.output))
    assert status == 0, said

    def spans() -> list[ReceivedSpan]:
        trace = f"{trace_id_of(run_id_of(terminal.output)):032x}"
        return [span for span in traces.spans if span.trace == trace]

    # Then each stage that was done has a span of the worker that did it
    done = {name: driver.ended(name, "*") for name in ("answer", "judge", "score", "reflect")}
    done["reflect"] += 1  # the one that failed has not ended
    until(lambda: all(Counter(span.name for span in spans())[name] == count for name, count in done.items()))
    found = {span.id: span for span in spans()}
    assert {span.worker for span in found.values()} == {"orchestrator", "gpu", "openai", "cpu"}
    workers = {"answer": "gpu", "judge": "openai", "reflect": "openai", "score": "cpu"}
    assert {span.name: span.worker for span in found.values() if span.name in workers} == workers
    # And it is within an evaluation, in a generation, in one of the two sessions
    for span in found.values():
        if span.name in workers and str(span.attributes.get("whetstone.child")).startswith("g0"):
            above = found[span.parent]
            assert (above.name, found[above.parent].name) == ("evaluation", "generation")
            assert found[found[above.parent].parent].name == "evolve"
            assert above.began <= span.began <= span.ended <= above.ended + 1
    assert [span.name for span in found.values() if not span.parent] == ["evolve", "evolve"]
    # And what failed is an error
    errors = [span for span in found.values() if span.error]
    assert Counter(span.name for span in errors) == {"reflect": 1, "evaluation": 1, "generation": 1, "evolve": 1}
    [reflect] = [span for span in errors if span.name == "reflect"]
    assert reflect.error == "RuntimeError: as it was told"
    assert reflect.attributes["whetstone.child"] == CHILDREN[0]
    # And its tracker has each generation once
    events = EventAccumulator(str(terminal.output / "tensorboard")).Reload()
    best = [(line["generation"], line["best"]) for line in history(terminal)]
    assert [(each.step, each.value) for each in events.Scalars("fitness/best")] == best
    assert len(events.Tensors("end")) == 2
