"""Positions of the labels of points in a plot, so that no label covers another one or a point.  No drawing here.

Each label tries positions around its point, near ones first, and takes the one that costs least; several rounds let a
label move away from those that were placed after it.  The same input gives the same positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 16
DISTANCES = (7.0, 14.0, 24.0, 38.0, 56.0, 78.0, 104.0, 134.0)  # pixels from the point to the nearest part of the label
ROUNDS = 6
PADDING = 2.0
# Costs for each square pixel that is covered, and for each pixel of distance.
ON_LABEL, ON_POINT, OUTSIDE, FAR = 10.0, 6.0, 40.0, 0.6
ON_LINE = 25.0  # for each line that a label covers
LEADER = 12.0  # pixels; a label that is farther away has a leader, a line to its point

Floats = NDArray[np.floating[Any]]


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The shared area."""
        return float(_overlaps(np.array([self]), [other])[0, 0])


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
    choices = [_around(point, size) for point, size in zip(points, sizes, strict=True)]
    fixed = [
        ON_POINT * _overlaps(boxes, obstacles).sum(1)
        + ON_LINE * (_overlaps(boxes, lines) > 0).sum(1)
        + OUTSIDE * (width * height - _overlaps(boxes, [bounds])[:, 0])
        + FAR * np.array([distance_to(Box(*box), point) for box in boxes])
        for boxes, point, (width, height) in zip(choices, points, sizes, strict=True)
    ]
    placed: dict[int, Floats] = {}
    for _ in range(ROUNDS):
        for index, boxes in enumerate(choices):
            others = [box for other, box in placed.items() if other != index]
            padded = boxes + np.array([-PADDING, -PADDING, PADDING, PADDING])
            costs = fixed[index] + ON_LABEL * _overlaps(padded, others).sum(1)
            placed[index] = boxes[int(costs.argmin())]
    return [Box(*map(float, placed[index])) for index in range(len(points))]


def _around(point: tuple[float, float], size: tuple[float, float]) -> Floats:
    """Positions around the point [distances * directions, 4]; the right one and the near ones first."""
    (x, y), (width, height) = point, size
    boxes = []
    for distance in DISTANCES:
        for step in range(DIRECTIONS):
            angle = 2 * math.pi * step / DIRECTIONS
            # The centre moves with the direction, so that the box touches the circle around the point.
            centre_x = x + math.cos(angle) * (distance + width / 2)
            centre_y = y + math.sin(angle) * (distance + height / 2)
            boxes.append((centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2))
    return np.array(boxes)


def _overlaps(boxes: Floats, others: Sequence[Box] | Sequence[Floats]) -> Floats:
    """The shared area of each box [n, 4] with each of the others [m, 4]: [n, m]."""
    left, bottom, right, top = boxes.T[:, :, None]
    other_left, other_bottom, other_right, other_top = np.reshape(np.array(others, dtype=float), (-1, 4)).T[:, None, :]
    width = np.minimum(right, other_right) - np.maximum(left, other_left)
    height = np.minimum(top, other_top) - np.maximum(bottom, other_bottom)
    return np.asarray(width.clip(min=0) * height.clip(min=0))


def nearest(box: Box, point: tuple[float, float]) -> tuple[float, float]:
    """The point of the box that is nearest to `point`."""
    return min(max(point[0], box.left), box.right), min(max(point[1], box.bottom), box.top)


def distance_to(box: Box, point: tuple[float, float]) -> float:
    x, y = nearest(box, point)
    return math.hypot(x - point[0], y - point[1])
