"""The random numbers of C++ case files, bit for bit: libstdc++'s default_random_engine and two distributions.

The engine is x ← 16807·x mod 2^31 − 1. Its k-th draw is x·16807^k, so a block of draws is one product with a table of
powers. All arithmetic is float32 (float64 for double) in the order in which libstdc++ rounds.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mluops_gtest.model.dtypes import Array

_MULTIPLIER: Final = 16807
_MODULUS: Final = 2**31 - 1
# max − min + 1 of the engine.
_RANGE: Final = 2147483646
_BLOCK: Final = 1 << 16
# Values made at a time: what lies between a draw and its value never takes more than a few megabytes.
_CHUNK: Final = 1 << 18


class Engine:
    """std::default_random_engine (minstd_rand0)."""

    _powers: Array | None = None

    def __init__(self, seed: int) -> None:
        # C++ widens a negative seed to 64 bits, and a state of 0 would stay 0.
        self._state = (seed % 2**64) % _MODULUS or 1

    def draw(self, count: int) -> Array:
        """The next `count` draws, as uint64."""
        drawn = np.empty(count, np.uint64)
        powers = self._table()
        for start in range(0, count, _BLOCK):
            part = drawn[start : start + _BLOCK]
            # Both factors are below 2^31, so the product is exact.
            np.multiply(powers[: len(part)], np.uint64(self._state), out=part)
            part %= np.uint64(_MODULUS)
            self._state = int(part[-1])
        return drawn

    @classmethod
    def _table(cls) -> Array:
        """16807^1 … 16807^_BLOCK mod 2^31 − 1."""
        if cls._powers is None:
            powers = np.array([_MULTIPLIER], np.uint64)
            while len(powers) < _BLOCK:
                powers = np.concatenate([powers, powers * powers[-1] % np.uint64(_MODULUS)])
            cls._powers = powers
        return cls._powers


def _canonical(engine: Engine, count: int, real: Any) -> Array:
    """std::generate_canonical with all bits of `real`: one draw for a float, two for a double, in [0, 1)."""
    if real is np.float32:
        values = (engine.draw(count) - np.uint64(1)).astype(np.float32) / np.float32(_RANGE)
    else:
        draws = (engine.draw(2 * count) - np.uint64(1)).astype(np.float64).reshape(count, 2)
        values = (draws[:, 0] + draws[:, 1] * np.float64(_RANGE)) / np.float64(_RANGE**2)
    np.minimum(values, np.nextafter(real(1), real(0)), out=values)
    return values


def uniform(seed: int, low: float, high: float, count: int, real: Any) -> Array:
    """std::uniform_real_distribution between `low` and the last number before `high`; equal bounds: a constant."""
    low, high = real(low), real(high)
    if low == high:
        return np.full(count, low, real)
    engine = Engine(seed)
    drawn = np.empty(count, real)
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.nextafter(high, low)
        for start in range(0, count, _CHUNK):
            values = drawn[start : start + _CHUNK]
            np.multiply(_canonical(engine, len(values), real), high - low, out=values)
            values += low
    return drawn


def gaussian(seed: int, mean: float, deviation: float, count: int, real: Any) -> Array:
    """std::normal_distribution: the polar method gives two values at a time, the second is saved for the next call."""
    engine = Engine(seed)
    logarithm = _logf if real is np.float32 else _log
    drawn = np.empty(count, real)
    have = 0
    while have < count:
        # Four of five pairs fall into the unit circle (π/4).
        points = _canonical(engine, 2 * _enough(min(count - have, _CHUNK) // 2 + 1), real).reshape(-1, 2)
        points = real(2) * points - real(1)
        x, y = points[:, 0], points[:, 1]
        radius = x * x + y * y
        inside = (radius <= 1) & (radius != 0)
        values = _polar(y[inside], x[inside], radius[inside], logarithm, real).reshape(-1)[: count - have]
        with np.errstate(over="ignore", invalid="ignore"):
            values *= real(deviation)
            values += real(mean)
        drawn[have : have + len(values)] = values
        have += len(values)
    return drawn


def _enough(pairs: int) -> int:
    return pairs + pairs // 3 + 8


def _polar(first: Array, second: Array, radius: Array, logarithm: Callable[[Array], Array], real: Any) -> Array:
    """libstdc++ hands out y·m first and saves x·m."""
    factor = np.sqrt(real(-2) * logarithm(radius) / radius)
    return np.stack([first * factor, second * factor], axis=1)


def _log(x: Array) -> Array:
    """C's log: numpy may use another implementation, whose last bit differs."""
    return np.array([math.log(value) for value in x.tolist()], np.float64)


# C's logf as glibc computes it since 2.27 (the method of Arm's optimized routines): 1/c and log(c) for 16 points c of
# [0.7, 1.4), and a polynomial for the rest. A correctly rounded logarithm differs in the last bit once in 140 values.
_POINTS: Final = """
    0x1.661ec79f8f3bep+0 -0x1.57bf7808caadep-2
    0x1.571ed4aaf883dp+0 -0x1.2bef0a7c06ddbp-2
    0x1.49539f0f010bp+0  -0x1.01eae7f513a67p-2
    0x1.3c995b0b80385p+0 -0x1.b31d8a68224e9p-3
    0x1.30d190c8864a5p+0 -0x1.6574f0ac07758p-3
    0x1.25e227b0b8eap+0  -0x1.1aa2bc79c81p-3
    0x1.1bb4a4a1a343fp+0 -0x1.a4e76ce8c0e5ep-4
    0x1.12358f08ae5bap+0 -0x1.1973c5a611cccp-4
    0x1.0953f419900a7p+0 -0x1.252f438e10c1ep-5
    0x1p+0                0x0p+0
    0x1.e608cfd9a47acp-1  0x1.aa5aa5df25984p-5
    0x1.ca4b31f026aap-1   0x1.c5e53aa362eb4p-4
    0x1.b2036576afce6p-1  0x1.526e57720db08p-3
    0x1.9c2d163a1aa2dp-1  0x1.bc2860d22477p-3
    0x1.886e6037841edp-1  0x1.1058bc8a07ee1p-2
    0x1.767dcf5534862p-1  0x1.4043057b6ee09p-2
"""
_INVERSE, _LOGARITHM = np.array([float.fromhex(word) for word in _POINTS.split()]).reshape(-1, 2).T
_LN2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_CUBIC: Final = tuple(map(float.fromhex, ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")))
_OFFSET: Final = 0x3F330000


def _logf(x: Array) -> Array:
    """C's logf for normal float32 numbers above 0."""
    bits = x.view(np.int32)
    shifted = bits - np.int32(_OFFSET)
    index = (shifted >> 19) & 15
    exponent = shifted >> 23
    z = (bits - (exponent << 23)).view(np.float32).astype(np.float64)
    r = z * _INVERSE[index] - 1
    square = r * r
    y = _CUBIC[1] * r + _CUBIC[2]
    y = _CUBIC[0] * square + y
    y = y * square + (_LOGARITHM[index] + exponent * _LN2 + r)
    rounded: Array = y.astype(np.float32)
    return rounded
