"""Recipes' scenes of boxes and points: boxes that do not meet, points around boxes, points on their faces."""

import math
from collections.abc import Sequence

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType

from .boxes import BoxTest, beside_faces, clear_points, road_boxes, uniform, within
from .points import placed

# Boxes that must not meet stand so far apart, in metres; the idle points lie far below them.
_APART, _BELOW, _REACH = 16.0, -50.0, 75.0


def boxes_apart(draw: Draw, count: int, dtype: DType = DType.FLOAT) -> Array:
    """Boxes [1, T, 7] that do not meet."""
    objects = road_boxes(draw, 1, count, dtype)
    width = math.isqrt(count - 1) + 1
    number = np.arange(count)
    objects[0, :, 0], objects[0, :, 1] = _APART * (number % width - width // 2), _APART * (number // width - width // 2)
    return objects


def nested_boxes(draw: Draw, lengths: Sequence[int], dtype: DType = DType.FLOAT) -> Array:
    """Boxes [1, T, 7] of one place and heading, as many times larger than the first."""
    objects = np.repeat(boxes_apart(draw, 1, dtype), len(lengths), axis=1)
    objects[..., 3:6] *= np.array(lengths)[:, None]
    return objects


def planted_points(draw: Draw, boxes: Array, owners: Array, test: BoxTest, dtype: DType) -> Array:
    """Points [B, M, 3], each in the box of its batch that `owners` [B, M] names; those of −1 far from all."""

    def cloud(turn: int) -> Array:
        idle = uniform(draw.stream(f"idle {turn}"), -_REACH, _REACH, (*owners.shape, 3))
        idle[..., 2] += _BELOW - _REACH
        part = uniform(draw.stream(f"part {turn}"), -0.9, 0.9, idle.shape)
        own = np.take_along_axis(boxes, np.maximum(owners, 0)[..., None], axis=1)
        return np.where(owners[..., None] >= 0, within(own, part, bottom=test.bottom), idle)

    return clear_points(cloud, boxes, test, dtype)


def points_around(draw: Draw, boxes: Array, each: int, test: BoxTest, dtype: DType, skin: float = 0.0) -> Array:
    """Points [1, each · T, 3] in and around all boxes [1, T, 7], in any order; with a skin that near to a face."""
    count = boxes.shape[1]

    def cloud(turn: int) -> Array:
        part = uniform(draw.stream(f"part {turn}"), -1.5, 1.5, (1, count, each, 3))
        if skin:
            axis = draw.stream(f"face {turn}").integers(0, 3, (1, count, each, 1))
            part = np.where(np.arange(3) == axis, np.copysign(1 + skin * part, part), part / 1.6)
        # No box is empty.
        part[:, :, 0] = uniform(draw.stream(f"own {turn}"), -0.9, 0.9, (1, count, 3))
        places = within(boxes[:, :, None], part, bottom=test.bottom).reshape(1, -1, 3)
        return places[:, draw.stream("order").permutation(count * each)]

    return clear_points(cloud, boxes, test, dtype)


def points_on_faces(
    draw: Draw, lengths: Sequence[float], offsets: Sequence[int], exponent: int, test: BoxTest, dtype: DType
) -> tuple[Array, Array]:
    """Straight boxes [1, T, 7] of lengths dx, dy, dz, and points so many 2^exponent beyond faces, edges and corners."""
    sizes = np.array(lengths).reshape(-1, 3)
    unit = 2.0**exponent
    # Whole numbers beside each other; halves of lengths must be on the lattice.
    centres = draw.stream("centres").integers(-2, 3, (len(sizes), 3)) + np.arange(len(sizes))[:, None] * (6, 0, 0)
    straight = np.concatenate([centres, sizes, np.zeros((len(sizes), 1))], axis=1)
    cloud = beside_faces(straight, tuple(offsets), unit, bottom=test.bottom).reshape(-1, 3)
    cloud = cloud[draw.stream("order").permutation(len(cloud))]
    return placed(np.rint(cloud / unit), exponent, dtype)[None], straight[None].astype(dtype.storage)
