"""The formulas word by word, in exact fractions, one element after the other: what the fast engine must equal."""

import math
import struct
from fractions import Fraction

from mluops_gtest.core.tensor import Array, DType

EPSILON = Fraction(1e-9)
_LAYOUTS = {  # struct code of one part, bits of it, parts of an element, diff3's threshold
    DType.HALF: ("e", 16, 1, 1e-4),
    DType.BFLOAT16: ("bf", 16, 1, 1e-4),
    DType.FLOAT: ("f", 32, 1, 1e-6),
    DType.DOUBLE: ("d", 64, 1, 1e-6),
    DType.COMPLEX_HALF: ("e", 16, 2, 1e-4),
    DType.COMPLEX_FLOAT: ("f", 32, 2, 1e-6),
    DType.COMPLEX_DOUBLE: ("d", 64, 2, 1e-6),
}


class Literal:
    """All figures of a pair of arrays."""

    def __init__(self, evaluated: Array, baseline: Array, dtype: DType) -> None:
        code, self.bits, self.parts, small = _LAYOUTS.get(dtype, ("int", 0, 1, None))
        self.small = None if small is None else Fraction(small)
        self.e, self.b = (_numbers(side, code) for side in (evaluated, baseline))
        self.patterns = [_patterns(side, self.bits // 8 or dtype.itemsize) for side in (evaluated, baseline)]
        self.finite = [i for i in range(len(self.b)) if math.isfinite(self.e[i]) and math.isfinite(self.b[i])]

    def equal(self, i: int) -> bool:
        return self.e[i] == self.b[i] or (math.isnan(self.e[i]) and math.isnan(self.b[i]))

    def difference(self, i: int) -> Fraction:
        return abs(Fraction(self.e[i]) - Fraction(self.b[i]))

    def magnitude(self, i: int) -> Fraction:
        return abs(Fraction(self.b[i]))

    def error(self, i: int) -> Fraction:
        if self.small is None or self.magnitude(i) < self.small:
            return self.difference(i)
        return self.difference(i) / (self.magnitude(i) + EPSILON)

    def elements(self, parts: list[int]) -> list[int]:
        return sorted({i // self.parts for i in parts})

    @property
    def unequal(self) -> list[int]:
        return self.elements([i for i in range(len(self.b)) if not self.equal(i)])

    @property
    def bits_unequal(self) -> list[int]:
        e, b = self.patterns
        return self.elements([i for i in range(len(b)) if e[i] != b[i]])

    @property
    def mismatched(self) -> list[int]:
        finite = set(self.finite)
        return self.elements([i for i in range(len(self.b)) if i not in finite and not self.equal(i)])

    @property
    def diff1(self) -> Fraction:
        return sum(map(self.difference, self.finite)) / (sum(map(self.magnitude, self.finite)) + EPSILON)

    @property
    def diff2_squared(self) -> Fraction:
        numerator = sum(self.difference(i) ** 2 for i in self.finite)
        return numerator / (sum(self.magnitude(i) ** 2 for i in self.finite) + EPSILON)

    @property
    def diff3(self) -> Fraction:
        return max(map(self.error, self.finite), default=Fraction(0))

    @property
    def diff3_1(self) -> Fraction:
        if self.small is None:
            return Fraction(0)
        return max((self.error(i) for i in self.finite if self.magnitude(i) >= self.small), default=Fraction(0))

    @property
    def diff3_2(self) -> Fraction:
        return max(map(self.difference, self.finite), default=Fraction(0))

    @property
    def pairs(self) -> set[tuple[float, float]]:
        return {(self.e[i], self.b[i]) for i in self.finite if not self.equal(i)}

    @property
    def diff4(self) -> float:
        return sum(e < b for e, b in self.pairs) / len(self.pairs) if self.pairs else 0.0

    @property
    def mass(self) -> Fraction:
        """The larger sum of magnitudes of the two sides."""
        return max(sum(abs(Fraction(side[i])) for i in self.finite) for side in (self.e, self.b))

    @property
    def diff_kl(self) -> float:
        p, q = ([max(abs(float(side[i])), 1e-10) for i in self.finite] for side in (self.e, self.b))
        p_mass, q_mass = math.fsum(p), math.fsum(q)
        p, q = [x / p_mass for x in p], [x / q_mass for x in q]
        # ln(p/q) as a difference: the quotient of two doubles may overflow.
        p_to_q = math.fsum(x * (math.log(x) - math.log(y)) for x, y in zip(p, q, strict=True))
        q_to_p = math.fsum(y * (math.log(y) - math.log(x)) for x, y in zip(p, q, strict=True))
        return (p_to_q + q_to_p) / 2

    @property
    def max_ulp(self) -> int | None:
        if self.small is None:
            return None
        e, b = self.patterns
        return max((abs(_steps(e[i], self.bits) - _steps(b[i], self.bits)) for i in self.finite), default=0)


def _numbers(side: Array, code: str) -> list[float]:
    if code == "int":
        return side.reshape(-1).tolist()
    data = side.tobytes()
    if code == "bf":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    return [number for (number,) in struct.iter_unpack(f"<{code}", data)]


def _patterns(side: Array, size: int) -> list[int]:
    data = side.tobytes()
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def _steps(pattern: int, bits: int) -> int:
    """How many numbers up from zero."""
    magnitude = pattern & ~(1 << (bits - 1))
    return -magnitude if pattern >> (bits - 1) else magnitude
