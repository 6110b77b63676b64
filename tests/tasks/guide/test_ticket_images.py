"""A ticket's images stand in the order of their numbers, also after JSON has sorted them as text."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tasks.guide.ticket import Ticket, image_number, sorted_images
from tasks.validation import InvalidData, parse_json


def test_image_10_comes_after_image_2() -> None:
    ticket = Ticket("t-1", "cables", "fail", {"image_10": "c", "image_2": "b", "image_1": "a"}, "review", "2025-11-03")
    assert list(ticket.per_image) == ["image_1", "image_2", "image_10"]
    # and a copy that went through JSON with sorted keys is the same, in the same order
    copy = parse_json(Ticket, json.dumps(dataclasses.asdict(ticket), sort_keys=True))
    assert copy == ticket
    assert list(copy.per_image.values()) == ["a", "b", "c"]


@pytest.mark.parametrize("key", ["image", "image_", "image_x", "image_-1", "Image_1", "1", "image_1a", "image_١"])
def test_an_image_without_a_number_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not image_ and a number"):
        image_number(key)
    with pytest.raises(ValueError):
        sorted_images({key: "text"})
    with pytest.raises(InvalidData):
        parse_json(Ticket, json.dumps({"group_id": "t", "mission": "m", "label": "pass", "per_image": {key: "text"}}))
