"""What a task of the gpu queue asks of the worker that it runs in: a server for its target, and where models lie.

The worker installs its host when it starts (`workers/sglang/host.py`); tasks know only this contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tasks.models import Target


class TargetUnavailable(RuntimeError):
    """No server answers for the target; the message ends with the last lines of its log."""


class TargetHost(Protocol):
    """The contract. All methods may be called from several threads at once."""

    def serve(self, target: Target) -> str:
        """The base URL, without a slash at its end, of a ready server for `target`.

        Started when it is first asked for, again when it has died, and anew when `target` is another one: a host has
        one server at a time.  A target with an `url` is only asked for its health.

        Raises: TargetUnavailable; ModelUnavailable of the embedded models.
        """

    def api_key(self, target: Target) -> str | None:
        """What a client must send to the server of `target` as its bearer token; None where it asks for nothing.

        The same for the whole life of the host.  Raises: SecretError.
        """

    def environment(self, device: str) -> Mapping[str, str]:
        """What a process that computes on `device` has in its environment: on "cuda", the GPU of this worker alone.

        Raises: TargetUnavailable when there is no GPU for it.
        """

    def labels_folder(self) -> Path:
        """Where the server looks for `<hash>.npy`, the cluster of each token, int32 [V]; the folder is there."""

    def model_folder(self, target: Target) -> str:
        """What to load the target's tokenizer and configuration from: a folder, or an id of Hugging Face."""

    def embedder(self, name: str) -> str:
        """What to load the sentence-transformers model called `name` from: a folder, or an id of Hugging Face."""

    def clusters_folder(self, folder: str) -> str:
        """Where clusterings are kept on this machine, when a run that may come from another keeps them in `folder`."""

    def stop(self) -> None:
        """Stop the server, where one runs: its memory is free on return. The next `serve` starts it again."""


class _Installed:
    """The one thing that a process has one of: a task reaches its worker through it."""

    host: TargetHost | None = None


def install(host: TargetHost | None) -> None:
    """Make `host` the one that tasks of this process find; None takes it away."""
    _Installed.host = host


def current() -> TargetHost:
    """The host of this worker. Raises: RuntimeError outside a worker of the gpu queue."""
    if _Installed.host is None:
        raise RuntimeError("no target host: this is not a worker of the gpu queue")
    return _Installed.host
