"""The exports of a run: files that gpu jobs make of one individual's deltas, for use without Whetstone.

A new export is a module with its job, and one line of `EXPORTS`.
"""

from __future__ import annotations

from typing import NamedTuple


class Export(NamedTuple):
    """A file in the output folder, the task that makes it, and its title in the report; without one it is not listed.

    The task QUEUE.NAME is a job in the module `tasks.QUEUE.NAME`; it gets the file's `name` and the `deltas`, in
    canonical order.  They are those of the best individual of all generations (`of_best`) or of the last one.
    """

    file: str
    task: str
    of_best: bool
    title: str = ""


EXPORTS = (
    Export("processor.py", "gpu.processor", of_best=False),
    Export("processor_best.py", "gpu.processor", of_best=True, title="the processor"),
)
