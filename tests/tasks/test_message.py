"""A task with arguments that its annotations do not allow is dropped before it runs, and nothing is recorded."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Ignore

from tasks.common.validation import Count, RunId
from tasks.task import FarmTask


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["r"], {}),
        (["r", 1, 2], {}),
        (["r", 1], {"more": 1}),
        (["../../x", 1], {}),
        ([7, 1], {}),
        (["r", True], {}),
        (["r", 1.0], {}),
        (["r", -1], {}),
    ],
)
def test_wrong_arguments_are_dropped(args: list[Any], kwargs: dict[str, Any]) -> None:
    app = Celery(set_as_current=False)

    @app.task(base=FarmTask, name="cpu.checked")
    def checked(run: RunId, index: Count) -> None:
        """What is checked against."""

    checked.before_start("some-id", ["r", 1], {})
    with pytest.raises(Ignore):
        checked.before_start("some-id", args, kwargs)
