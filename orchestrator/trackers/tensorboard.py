"""TensorBoard: event files in the folder `tensorboard` of the run.  `tensorboard --logdir outputs` compares runs."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.hparams import metadata as hparams  # its module `summary` needs TensorFlow
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from orchestrator.callbacks import EndState, RunEnd, RunInfo
from orchestrator.trackers.base import Tracker

FOLDER = "tensorboard"
PNG = b"\x89PNG\r\n\x1a\n"
PNG_SIZE = slice(16, 24)  # width and height, in the first chunk
STATUS: Mapping[EndState, int] = {
    "finished": Status.STATUS_SUCCESS, "failed": Status.STATUS_FAILURE,
    "parked": Status.STATUS_RUNNING, "stopped": Status.STATUS_RUNNING,
}  # fmt: skip


class TensorboardTracker(Tracker):
    """Figures as scalars, settings as hyperparameters, plots as images, and the report as text."""

    name: ClassVar[str] = "tensorboard"

    def begin(self, run: RunInfo, known: str) -> str:
        self._writer, self._step = EventFileWriter(str(run.folder / FOLDER)), run.done
        start = SessionStartInfo(group_name=run.id, start_time_secs=time.time())
        for name, value in run.settings.items():
            if isinstance(value, bool):
                start.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                start.hparams[name].number_value = value
            else:
                start.hparams[name].string_value = str(value)
        self._write_hparams(hparams.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start))
        self._writer.flush()
        return FOLDER

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        self._step = step
        self._write(Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]))
        self._writer.flush()

    def artifacts(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if path.suffix == ".png" and (data := path.read_bytes()).startswith(PNG):
                self._write(Summary(value=[Summary.Value(tag=path.stem, image=_image(data))]))
            elif path.name == "report.txt":
                self._write_text("report", path.read_text("utf-8"))

    def finish(self, end: RunEnd, summary: str) -> None:
        self._write_text("end", f"{end.state}: {summary}" if summary else end.state)
        ended = SessionEndInfo(status=STATUS[end.state], end_time_secs=time.time())
        self._write_hparams(hparams.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=ended))
        self._writer.close()

    def _write_text(self, tag: str, text: str) -> None:
        """TensorBoard shows Markdown; indented, its lines stay as they are."""
        block = "".join(f"    {line}\n" for line in text.splitlines())
        value = TensorProto(dtype=DT_STRING, string_val=[block.encode()])
        metadata = create_summary_metadata(display_name=tag, description="")
        self._write(Summary(value=[Summary.Value(tag=tag, tensor=value, metadata=metadata)]))

    def _write_hparams(self, tag: str, data: HParamsPluginData) -> None:
        metadata = hparams.create_summary_metadata(data)
        self._write(Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=hparams.NULL_TENSOR)]))

    def _write(self, summary: Summary) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=self._step, summary=summary))


def _image(png: bytes) -> Summary.Image:
    width, height = struct.unpack(">II", png[PNG_SIZE])
    return Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
