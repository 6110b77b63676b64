"""Positions of the labels of points in a plot, so that no label covers another one or a point.  No drawing here.

Each label tries positions around its point, near ones first, and takes the one that costs least; several rounds let a
label move away from those that were placed after it.  The same input gives the same positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

DIRECTIONS = 16
DISTANCES = (7.0, 14.0, 24.0, 38.0, 56.0, 78.0, 104.0)  # pixels from the point to the nearest part of the label
ROUNDS = 6
PADDING = 2.0
# Costs for each square pixel that is covered, and for each pixel of distance.
ON_LABEL, ON_POINT, OUTSIDE, FAR = 10.0, 6.0, 40.0, 0.6
ON_LINE = 25.0  # for each line that a label covers
ACROSS = 400.0  # for each label or point that a leader crosses
LEADER = 12.0  # pixels; a label that is farther away has a leader, a line to its point


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The shared area."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def padded(self, by: float) -> Box:
        return Box(self.left - by, self.bottom - by, self.right + by, self.top + by)

    @property
    def area(self) -> float:
        return (self.right - self.left) * (self.top - self.bottom)


Segment = tuple[tuple[float, float], tuple[float, float]]


class Place(NamedTuple):
    """A position of a label, with its leader if it has one."""

    box: Box
    leader: Segment | None

    @property
    def extent(self) -> Box:
        """The smallest box around the label and its leader."""
        if self.leader is None:
            return self.box
        (x, y), box = self.leader[0], self.box
        return Box(min(x, box.left), min(y, box.bottom), max(x, box.right), max(y, box.top))


def place_labels(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    bounds: Box,
    obstacles: Sequence[Box],
    lines: Sequence[Box] = (),
) -> list[Box]:
    """One box for each point: where its label of this size goes.

    points and sizes: [n] pixels; bounds: the labels stay inside; obstacles: the markers; lines: thin boxes that labels
    had better not cover, such as intervals.
    """
    choices = [
        [Place(box, _leader(box, point)) for box in _around(point, size)]
        for point, size in zip(points, sizes, strict=True)
    ]
    extents = [[place.extent for place in places] for places in choices]
    fixed = [
        _fixed_costs(places, point, bounds, obstacles, lines) for places, point in zip(choices, points, strict=True)
    ]
    placed: list[Place | None] = [None] * len(points)
    for _ in range(ROUNDS):
        before = list(placed)
        for index, places in enumerate(choices):
            others = [place for other, place in enumerate(placed) if other != index and place is not None]
            near = _touching(extents[index], [place.extent.padded(PADDING) for place in others])
            costs = [
                cost + _on_others(place, [others[i] for i in touched])
                for place, cost, touched in zip(places, fixed[index], near, strict=True)
            ]
            placed[index] = places[costs.index(min(costs))]
        if placed == before:
            break
    return [place.box for place in placed if place is not None]


def _around(point: tuple[float, float], size: tuple[float, float]) -> list[Box]:
    """Positions around the point; the right one and the near ones first."""
    (x, y), (width, height) = point, size
    boxes = []
    for distance in DISTANCES:
        for step in range(DIRECTIONS):
            angle = 2 * math.pi * step / DIRECTIONS
            # The centre moves with the direction, so that the box touches the circle around the point.
            centre_x = x + math.cos(angle) * (distance + width / 2)
            centre_y = y + math.sin(angle) * (distance + height / 2)
            boxes.append(Box(centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2))
    return boxes


def _touching(boxes: Sequence[Box], others: Sequence[Box]) -> list[list[int]]:
    """For each box, the indices of the others that have a point in common with it.

    Nothing else can cost a label anything, and there are few of them.
    """
    if not others:
        return [[] for _ in boxes]
    left, bottom, right, top = np.asarray(boxes).T[:, :, None]
    other_left, other_bottom, other_right, other_top = np.asarray(others).T
    across = (left <= other_right) & (other_left <= right)
    return [np.flatnonzero(row).tolist() for row in across & (bottom <= other_top) & (other_bottom <= top)]


def _fixed_costs(
    places: Sequence[Place],
    point: tuple[float, float],
    bounds: Box,
    obstacles: Sequence[Box],
    lines: Sequence[Box],
) -> list[float]:
    """What each position costs whatever the other labels do.  A leader begins in the marker of its own point."""
    near = _touching([place.extent for place in places], obstacles)
    across_lines = _touching([place.box for place in places], lines)
    costs = []
    for (box, leader), markers, crossing in zip(places, near, across_lines, strict=True):
        touched = [obstacles[i] for i in markers]
        covered = sum(box.overlap(marker) for marker in touched)
        crossed = sum(box.overlap(lines[i]) > 0 for i in crossing)
        outside = box.area - box.overlap(bounds)
        across = sum(_crosses(leader, marker) for marker in touched if not _contains(marker, point))
        cost = ON_POINT * covered + ON_LINE * crossed + OUTSIDE * outside
        costs.append(cost + ACROSS * across + FAR * distance_to(box, point))
    return costs


def _on_others(place: Place, others: Sequence[Place]) -> float:
    padded = place.box.padded(PADDING)
    covered = sum(padded.overlap(other.box) for other in others)
    across = sum(_crosses(place.leader, other.box) + _crosses(other.leader, place.box) for other in others)
    return ON_LABEL * covered + ACROSS * across


def _leader(box: Box, point: tuple[float, float]) -> Segment | None:
    return (point, nearest(box, point)) if distance_to(box, point) > LEADER else None


def _contains(box: Box, point: tuple[float, float]) -> bool:
    return box.left <= point[0] <= box.right and box.bottom <= point[1] <= box.top


def _crosses(segment: Segment | None, box: Box) -> bool:
    """Whether a part of the segment is in the box (Liang and Barsky 1984)."""
    if segment is None:
        return False
    (x0, y0), (x1, y1) = segment
    first, last = 0.0, 1.0
    for change, low, high in ((x1 - x0, box.left - x0, box.right - x0), (y1 - y0, box.bottom - y0, box.top - y0)):
        if change == 0:
            if low > 0 or high < 0:
                return False
            continue
        enter, leave = sorted((low / change, high / change))
        first, last = max(first, enter), min(last, leave)
    return first < last


def nearest(box: Box, point: tuple[float, float]) -> tuple[float, float]:
    """The point of the box that is nearest to `point`."""
    return min(max(point[0], box.left), box.right), min(max(point[1], box.bottom), box.top)


def distance_to(box: Box, point: tuple[float, float]) -> float:
    x, y = nearest(box, point)
    return math.hypot(x - point[0], y - point[1])
