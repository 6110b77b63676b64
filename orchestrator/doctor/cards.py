"""Check of the cards of this machine, for a farm that is started on it."""

from __future__ import annotations

from orchestrator.doctor.finding import Finding, well, wrong
from workers.cards import NoCard, cards_here

MEND = 'see what `nvidia-smi` says; or CONFIG_DEVICE="cpu", or CONFIG_FARM="external" with a worker where a card is'


def check_cards_here() -> Finding:
    """Whether there is one, and how full each is."""
    try:
        cards = [(card, *card.memory()) for card in cards_here()]
    except NoCard as error:
        return wrong("cards here", str(error), MEND)
    said = (f"{card.index} {card.name}, {used / 1e9:.1f} of {total / 1e9:.1f} GB used" for card, used, total in cards)
    return well("cards here", "; ".join(said))
