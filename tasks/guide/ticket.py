"""A ticket: a group of images, of each of which there is a summary, and the label that people gave it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tasks.guide.verdict_lines import Verdict

_IMAGE = re.compile(r"image_([0-9]{1,9})")


@dataclass(frozen=True)
class Ticket:
    """One ticket of one mission.  `per_image` has the summaries by image, in the order of the images' numbers."""

    group_id: str
    mission: str
    label: Verdict
    per_image: Mapping[str, str]
    label_source: str | None = None
    label_timestamp: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_image", sorted_images(self.per_image))


def image_number(key: str) -> int:
    """The number of an image: 10 of `image_10`.  Raises: ValueError."""
    found = _IMAGE.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is not image_ and a number")
    return int(found[1])


def sorted_images(summaries: Mapping[str, str]) -> dict[str, str]:
    """The same summaries, `image_2` before `image_10`.  Raises: ValueError."""
    return dict(sorted(summaries.items(), key=lambda item: (image_number(item[0]), item[0])))
