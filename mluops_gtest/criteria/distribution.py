"""diff_kl: the symmetric Kullback-Leibler divergence of the two sides seen as distributions."""

import numpy as np

from mluops_gtest.criteria.blocks import Blocks, Scratch
from mluops_gtest.criteria.sums import total
from mluops_gtest.model.dtypes import Array

# Smaller magnitudes count as this much, so that no logarithm meets zero.
_FLOOR = 1e-10


def divergence(blocks: Blocks) -> float:
    """½(KL(p‖q) + KL(q‖p)) of the normalised magnitudes at the finite positions."""

    def masses(start: int, _: Scratch) -> tuple[float, float]:
        e, b = _magnitudes(blocks, start)
        return float(e.sum()), float(b.sum())

    of_blocks = blocks.each(masses, blocks.starts)
    e_mass, b_mass = total([e for e, _ in of_blocks]), total([b for _, b in of_blocks])

    def share(start: int, _: Scratch) -> float:
        e, b = _magnitudes(blocks, start)
        p, q = e / e_mass, b / b_mass
        # Both divergences in one sum: p·ln(p/q) + q·ln(q/p) = (p−q)·ln(p/q), never negative.
        return float(((p - q) * (np.log(p) - np.log(q))).sum())

    return total(blocks.each(share, blocks.starts)) / 2


def _magnitudes(blocks: Blocks, start: int) -> tuple[Array, Array]:
    e, b = (side.astype(np.float64) for side in blocks.numbers(start))
    finite = np.isfinite(e) & np.isfinite(b)
    if not finite.all():
        e, b = e[finite], b[finite]
    return np.maximum(np.abs(e), _FLOOR), np.maximum(np.abs(b), _FLOOR)
