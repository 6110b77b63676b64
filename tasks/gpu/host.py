"""The interface between a task of the gpu queue and its worker: a server for its target, and where models are stored.

The worker installs its host when it starts (`workers/sglang/step.py`); tasks use only this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from tasks.records import Target
from tasks.task import GiveBack

CardUse = Literal["", "serves", "computes"]


class TargetUnavailable(RuntimeError):
    """No server answers for the target. The message ends with the last lines of its log."""


class CardComputes(TargetUnavailable, GiveBack):
    """No server is started, because a task computes on this worker's card, or waits to."""


class TargetHost(Protocol):
    """All methods may be called from several threads at once."""

    def serving(self, target: Target) -> AbstractContextManager[None]:
        """In the block the server of `target` is in use, and no task begins to compute.

        Whoever sends requests does so in such a block.  Of a target with a `url` nothing is kept from computing.
        """

    def computing(self, check: Callable[[], None], *, alone: bool = False) -> AbstractContextManager[None]:
        """In the block the card computes: waits until no server is in use, then stops the server.

        Several tasks compute side by side; one that is `alone` has the card to itself.  `check` is called while this
        waits, and may raise.
        """

    def card_use(self) -> CardUse: ...

    def serve(self, target: Target, processor: str = "", identity: Mapping[str, Any] | None = None) -> str:
        """The base URL of a ready server for `target`; of one with a `url` only the health is checked.

        It is started on the first call, when it has died, and when `target` is another one.  `processor` is the text of
        a file that the server must have loaded, "" for none.  `identity`: what the server must still be.
        """

    def start_early(self, target: Target) -> None:
        """Start the server in the background, unless one runs; a failure is left to the first task that needs it."""

    def identity(self, target: Target) -> Mapping[str, Any]:
        """What determines the answers of the server, as JSON values: it is part of every answer's key.

        Read once for each start of a server; the first call starts one.
        """

    def api_key(self, target: Target) -> str | None:
        """The bearer token of the server: a new one at each start; None where it needs none, and before `serve`."""

    def environment(self, device: str) -> Mapping[str, str]:
        """Variables for a process that computes on `device`: on "cuda", only this worker's GPU."""

    def labels_folder(self) -> Path:
        """From which the server loads `<hash>.npy`: the cluster of each token, int32 [V]."""

    def bases_folder(self) -> Path: ...

    def model_folder(self, target: Target) -> str:
        """Where the tokenizer and configuration are loaded from: a folder, or a Hugging Face id."""

    def embedder(self, name: str) -> str: ...

    def clusters_folder(self, folder: str) -> str:
        """Where clusterings are kept on this machine; `folder` is where the run's own machine keeps them."""

    def stop(self) -> None:
        """Stop the server if one runs; the next `serve` starts it again."""


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The fields in which two identities differ, in one line."""
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)!r:.80} is now {after.get(name)!r:.80}" for name in changed)


class _Installed:
    """The host of this process: Celery gives a task no other way to reach its worker."""

    host: TargetHost | None = None


def install(host: TargetHost | None) -> None:
    """Make `host` the one of this process; None removes it."""
    _Installed.host = host


def current() -> TargetHost:
    """The host of this worker."""
    if _Installed.host is None:
        raise RuntimeError("no target host: this is not a worker of the gpu queue")
    return _Installed.host


def card_use() -> CardUse:
    """What the card of this worker does now; "" also where there is none."""
    return "" if _Installed.host is None else _Installed.host.card_use()
