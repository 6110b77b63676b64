"""The exports of a run: files that gpu jobs make of the vectors that it found, for use without Whetstone.

A new export is a module with its job, and one line of `EXPORTS`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

PROCESSOR_FILE = "processor.py"


class Export(NamedTuple):
    """A file in the output folder, the task that makes it, and its title in the report; without one it is not listed.

    The task QUEUE.NAME is a job in the module `tasks.QUEUE.NAME`; it gets the file's `name` and the `deltas` that the
    file is `made_of`, in canonical order: those of the best individual of all generations ("best") or of the last one
    ("leader").  Where these are not of the run's clustering, it also gets the content hash of theirs, `clustering`.
    """

    file: str
    task: str
    made_of: Literal["leader", "best"]
    title: str = ""


EXPORTS = (
    Export(PROCESSOR_FILE, "gpu.processor", "leader"),
    Export("processor_best.py", "gpu.processor", "best", title="the processor"),
)
