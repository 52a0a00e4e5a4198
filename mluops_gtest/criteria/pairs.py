"""diff4: the share of distinct unequal pairs whose evaluated side is the lower one."""

import numpy as np

from mluops_gtest.criteria.blocks import Blocks
from mluops_gtest.criteria.elements import Elements
from mluops_gtest.model.dtypes import Array


def lower_share(blocks: Blocks, unequal: int) -> tuple[int, float]:
    """How many distinct unequal finite pairs there are, and the share of them with e < b (0 of none).

    `unequal` bounds the elements that can be part of one. Sorting packed pairs beats hashing them (np.unique).
    """
    elements = blocks.elements
    evaluated, baseline = (np.empty(unequal * elements.parts, f"u{elements.real.itemsize}") for _ in range(2))
    filled = 0
    for start in blocks.starts:
        e, b = _unequal_numbers(blocks, start)
        end = filled + len(b)
        evaluated[filled:end], baseline[filled:end] = _patterns(e, elements), _patterns(b, elements)
        filled = end
    if filled == 0:
        return 0, 0.0
    evaluated, baseline = _distinct(evaluated[:filled], baseline[:filled])
    lower = elements.values(evaluated.view(elements.real)) < elements.values(baseline.view(elements.real))
    return len(lower), np.count_nonzero(lower) / len(lower)


def _unequal_numbers(blocks: Blocks, start: int) -> tuple[Array, Array]:
    """Both sides of a block where they differ and are finite."""
    e, b = blocks.numbers(start)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wanted = e != b
    if blocks.elements.exact:
        return e[wanted], b[wanted]
    wanted &= np.isfinite(e) & np.isfinite(b)
    # Adding +0 makes one number of +0 and −0.
    zero = e.dtype.type(0)
    return e[wanted] + zero, b[wanted] + zero


def _patterns(numbers: Array, elements: Elements) -> Array:
    patterns = numbers.view(f"u{numbers.itemsize}")
    return (patterns >> np.uint32(16)).astype(np.uint16) if elements.upper_half else patterns


def _distinct(evaluated: Array, baseline: Array) -> tuple[Array, Array]:
    """Each pair of patterns once."""
    size = evaluated.itemsize
    if size == 8:
        order = np.lexsort((baseline, evaluated))
        evaluated, baseline = evaluated[order], baseline[order]
        first = np.ones(len(order), bool)
        first[1:] = (evaluated[1:] != evaluated[:-1]) | (baseline[1:] != baseline[:-1])
        return evaluated[first], baseline[first]
    word = np.dtype(f"u{2 * size}")
    shift = word.type(8 * size)
    packed = evaluated.astype(word)
    packed <<= shift
    packed |= baseline
    packed.sort()
    first = np.ones(len(packed), bool)
    np.not_equal(packed[1:], packed[:-1], out=first[1:])
    packed = packed[first]
    return (packed >> shift).astype(evaluated.dtype), packed.astype(baseline.dtype)
