"""The card that a gpu worker owns: no other worker of this host has it, for as long as the worker or its server lives.

A claim is a lock on a file, which the kernel drops when the last process that holds it has ended, however it ends.  The
server holds it too, so a card is free again only when its memory is.

WHETSTONE_CARD names the card, as nvidia-smi numbers them; without it a worker takes the first one that is free, of
those in CUDA_VISIBLE_DEVICES where that is set.  "shared" claims none: whoever says so looks after the memory.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CARD_VARIABLE = "WHETSTONE_CARD"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
SHARED = "shared"


class NoCard(RuntimeError):
    """There is no card for this worker; says why in one line."""


@dataclass(frozen=True)
class Card:
    """A card as nvidia-smi numbers it."""

    index: int
    name: str

    def environment(self) -> dict[str, str]:
        """What makes it the only card of a process."""
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", VISIBLE_VARIABLE: str(self.index)}

    def memory(self) -> tuple[int, int]:
        """Used and total, in bytes.  Raises: NoCard when the driver does not answer."""
        import pynvml

        try:
            pynvml.nvmlInit()
            found = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(self.index))
        except pynvml.NVMLError as error:
            raise NoCard(f"the driver does not answer for card {self.index}: {error}") from error
        return int(found.used), int(found.total)

    def utilization(self) -> float | None:
        """The share of the last moment (a sixth of a second to one) in which the card computed, from 0 to 1.

        None where the driver does not tell, as of a card that is shared out by MIG.
        """
        import pynvml

        try:
            pynvml.nvmlInit()
            rates = pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(self.index))
        except pynvml.NVMLError:
            return None
        return float(rates.gpu) / 100


@dataclass(frozen=True)
class Claim:
    """A card that is ours until `release`, or until we and those who inherited `lock` have ended."""

    card: Card
    lock: IO[bytes]

    def release(self) -> None:
        self.lock.close()


def cards_here() -> list[Card]:
    """All cards of this host, by their number.  Raises: NoCard, also where there is none."""
    try:
        import pynvml
    except ImportError as error:
        raise NoCard("the package nvidia-ml-py is not installed: install this project with its extra 'gpu'") from error
    try:
        pynvml.nvmlInit()
        handles = [(i, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
        found = [Card(index, str(pynvml.nvmlDeviceGetName(handle))) for index, handle in handles]
    except pynvml.NVMLError as error:
        raise NoCard(f"no GPU on this machine that a driver answers for ({error})") from error
    if not found:
        raise NoCard("no GPU on this machine")
    return found


def eligible(cards: Sequence[Card], environment: Mapping[str, str]) -> list[Card]:
    """The cards that this worker may take, in the order in which it tries them.

    Raises: NoCard when what the environment names is not there.
    """
    wanted, visible = environment.get(CARD_VARIABLE), environment.get(VISIBLE_VARIABLE)
    listed = visible.split(",") if visible is not None else [str(card.index) for card in cards]
    if wanted:
        listed = [wanted]
    found = [card for name in listed for card in cards if name.strip() == str(card.index)]
    if not found:
        variable, value = (CARD_VARIABLE, wanted) if wanted else (VISIBLE_VARIABLE, visible)
        here = ", ".join(f"{card.index} ({card.name})" for card in cards)
        raise NoCard(f"{variable} is {value!r}, and the cards of this machine are {here}")
    return found


def claim(cards: Sequence[Card], folder: Path | None = None) -> Claim:
    """The first of `cards` that nobody on this host has claimed; `folder` holds the locks.

    Raises: NoCard when all are taken.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"whetstone-cards-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for card in cards:
        lock = (folder / f"card-{card.index}").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return Claim(card, lock)
    numbers = " and ".join(str(card.index) for card in cards)
    raise NoCard(
        f"card {numbers} of this machine is another worker's; {CARD_VARIABLE} names another one, or {SHARED!r}"
    )
