"""Every figure of `compare` against the formulas written out literally, over all types, sizes and special values."""

import math
import re
import struct
import warnings
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import Array, CriterionKind, DType
from mluops_gtest.judging import blocks
from mluops_gtest.judging import blocks as sums
from mluops_gtest.judging.criteria import compare
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going

ALL = D1, D2, D3, D3_2, D4, KL = tuple(CriterionKind)[5:]

FLOATS = (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE)
COMPLEX = (DType.COMPLEX_HALF, DType.COMPLEX_FLOAT, DType.COMPLEX_DOUBLE)
INTEGERS = tuple(dtype for dtype in DType if re.fullmatch(r"bool|u?int\d+", dtype.value))
UNCOMPARABLE = tuple(dtype for dtype in DType if dtype.value.startswith(("float8", "int4x2", "int8_q")))
# Bit patterns of one part worth meeting: zeros, denormals, 1, around diff3's thresholds, largest, infinities, NaNs.
SPECIAL = {
    2: (0, 0x8000, 1, 0x8001, 0x3C00, 0x068D, 0x068E, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x3F80),
    4: (
        *(0, 0x80000000, 1, 0x80000001, 0x3F800000, 0x358637BD, 0x358637BE),
        *(0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001),
    ),
    8: (
        *(0, 1 << 63, 1, 0x3FF0 << 48, 0x3EB0C6F7A0B5ED8D, 0x3EB0C6F7A0B5ED8C, 0x5FF << 52),
        *((0x7FF << 52) - 1, (0xFFF << 52) - 1, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0xFFF8 << 48) + 1),
    ),
    1: (0, 1, 0x7F, 0x80, 0xFF),
}


def part_size(dtype: DType) -> int:
    return dtype.itemsize // 2 if dtype in COMPLEX else dtype.itemsize


@st.composite
def array_pairs(draw: st.DrawFn, dtype: DType) -> tuple[Array, Array]:
    size, parts = part_size(dtype), 2 if dtype in COMPLEX else 1
    top = (1 << (8 * size)) - 1
    pattern = st.one_of(st.sampled_from(SPECIAL[size]), st.integers(0, top))
    count = draw(st.integers(0, 15)) * parts
    baseline = draw(st.lists(pattern, min_size=count, max_size=count))
    moves = draw(st.lists(st.one_of(st.just(0), st.integers(-3, 3), pattern), min_size=count, max_size=count))
    evaluated = [(b + move) & top for b, move in zip(baseline, moves, strict=True)]
    word = np.dtype(f"<u{size}")
    return tuple(np.array(side, word).view(dtype.storage) for side in (evaluated, baseline))


@pytest.fixture(scope="module", autouse=True, params=[NUMPY, NATIVE])
def _both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the C library, and by numpy in small blocks and cells, so that small arrays meet every seam there."""
    with pytest.MonkeyPatch.context() as patch, going(request.param):
        for name, value in {"BLOCK": 6, "SHARED_FROM": 17, "SHARED_BLOCK": 12}.items():
            patch.setattr(blocks, name, value)
        for name, value in {"LANES": 2, "ROWS": 3, "CELL": 6}.items():
            patch.setattr(sums, name, value)
        yield


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
    """All figures of a pair of arrays, by the formulas word by word, in exact fractions."""

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


# What rounds to more than the largest double.
LARGEST = Fraction(2**1024 - 2**970)


def close(measured: float, exact: Fraction) -> bool:
    """Equal to a few roundings; figures beyond float64 are infinite, squares below it may vanish."""
    if exact >= LARGEST:
        return measured == math.inf
    return math.isclose(measured, float(exact), rel_tol=1e-12, abs_tol=1e-140)


def leaves_float64(literal: Literal, power: int) -> bool:
    """A sum of the formula is larger than a double."""
    terms = [(literal.difference(i) ** power, literal.magnitude(i) ** power) for i in literal.finite]
    return any(sum(column) >= LARGEST for column in zip(*terms, strict=True))


def check(evaluated: Array, baseline: Array, dtype: DType) -> None:
    literal = Literal(evaluated, baseline, dtype)
    found = compare(evaluated, baseline, dtype, ALL)
    assert found.compared == baseline.size
    assert found.unequal == len(literal.unequal)
    assert found.bits_unequal == len(literal.bits_unequal)
    assert found.first_unequal == next(iter(literal.unequal), None)
    assert found.last_unequal == next(reversed(literal.unequal), None)
    assert found.nonfinite_mismatches == len(literal.mismatched)
    assert found.first_nonfinite_mismatch == next(iter(literal.mismatched), None)
    assert found.max_ulp == literal.max_ulp
    assert found.exact == (dtype in INTEGERS)
    assert found.readings[D3_2] == found.diff3_2
    assert close(found.diff3_2, literal.diff3_2)
    if found.diff3_2 == math.inf:  # a difference of two doubles overflowed
        assert found.diff3_1 == found.readings[D3] == math.inf
    else:
        assert close(found.diff3_1, literal.diff3_1)
        assert close(found.readings[D3], literal.diff3)
    assert found.pairs == len(literal.pairs)
    assert found.readings[D4] == literal.diff4
    if leaves_float64(literal, 1):
        assert not math.isfinite(found.readings[D1]) or (found.readings[D1] == 0 and close(0.0, literal.diff1))
    else:
        assert close(found.readings[D1], literal.diff1)
    if leaves_float64(literal, 2):
        assert not math.isfinite(found.readings[D2]) or (found.readings[D2] == 0 and close(0.0, literal.diff2_squared))
    else:
        assert close(found.readings[D2] ** 2, literal.diff2_squared)
    if literal.mass >= LARGEST:
        assert not math.isfinite(found.readings[KL])
    else:
        assert math.isclose(found.readings[KL], literal.diff_kl, rel_tol=1e-9, abs_tol=1e-12)
    check_worst(found.worst, literal)


def check_worst(worst: int | None, literal: Literal) -> None:
    if literal.mismatched:
        assert worst == literal.mismatched[0]
    elif not literal.unequal:
        assert worst is None
    else:
        assert worst is not None
        parts = [i for i in literal.finite if i // literal.parts == worst]
        overflowed = max(map(literal.difference, parts)) >= LARGEST
        assert overflowed or close(1.0, max(map(literal.error, parts)) / literal.diff3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + INTEGERS, ids=lambda dtype: dtype.value)
def test_every_figure_is_the_literal_one(dtype: DType) -> None:
    @settings(derandomize=True, max_examples=examples(40), database=None)
    @given(array_pairs(dtype))
    def property_holds(pair: tuple[Array, Array]) -> None:
        check(*pair, dtype)

    property_holds()


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + INTEGERS, ids=lambda dtype: dtype.value)
def test_every_special_value_against_every_other(dtype: DType) -> None:
    special = np.array(SPECIAL[part_size(dtype)], f"<u{part_size(dtype)}")
    evaluated, baseline = np.repeat(special, len(special)), np.tile(special, len(special))
    if dtype in COMPLEX and len(baseline) % 2:
        evaluated, baseline = evaluated[1:], baseline[1:]
    # All of them at once, each pair alone with another one, and nothing at all.
    parts = [slice(None), *(slice(start, start + 4) for start in range(0, len(baseline), 4)), slice(0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in parts:
            check(*(side[part].view(dtype.storage) for side in (evaluated, baseline)), dtype)


@pytest.mark.parametrize("count", [1, 5, 6, 7, 12, 13, 16, 17, 24, 25, 57])
@pytest.mark.parametrize("dtype", [DType.HALF, DType.FLOAT, DType.INT32], ids=lambda dtype: dtype.value)
def test_an_error_at_any_place_of_any_length_is_found(dtype: DType, count: int) -> None:
    baseline = np.arange(1, count + 1).astype(dtype.storage)
    for place in {0, count // 2, count - 1}:
        evaluated = baseline.copy()
        evaluated[place] += 1
        found = compare(evaluated, baseline, dtype, (D1, D3))
        assert (found.unequal, found.worst, found.first_unequal, found.last_unequal) == (1, place, place, place)
        assert math.isclose(found.readings[D1], 1 / (count * (count + 1) / 2 + 1e-9), rel_tol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.random.Philox(key=5).random_raw(40_000)
    baseline = (bits >> np.uint64(40)).astype(np.float32)
    evaluated = baseline * np.float32(1 + 2**-20)
    evaluated[:10_000] = baseline[:10_000]
    monkeypatch.setattr(blocks, "SHARED_BLOCK", 1002)
    monkeypatch.setattr(blocks, "THREADS", 1)
    alone = compare(evaluated, baseline, DType.FLOAT, ALL)
    monkeypatch.setattr(blocks, "THREADS", threads)
    assert compare(evaluated, baseline, DType.FLOAT, ALL) == alone


def test_no_conversion_to_float_hides_a_wrong_integer() -> None:
    for dtype, value in ((DType.INT32, 2**24), (DType.INT64, 2**53), (DType.UINT64, 2**64 - 2)):
        baseline = np.array([value], dtype.storage)
        found = compare(baseline + dtype.storage.type(1), baseline, dtype, (D1, D2, D3))
        assert (found.unequal, found.readings[D3]) == (1, 1)
        assert found.readings[D1] > 0 < found.readings[D2]


def test_diff3_turns_relative_exactly_at_the_threshold() -> None:
    for dtype, small in ((DType.DOUBLE, 1e-6), (DType.FLOAT, 1e-6), (DType.HALF, 1e-4)):
        at = np.array([small]).astype(dtype.storage)
        if at.astype(np.float64)[0] < small:
            at = np.nextafter(at, dtype.storage.type(1))
        below = np.nextafter(at, dtype.storage.type(0))
        relative, absolute = (compare(b * 2, b, dtype, (D3,)) for b in (at, below))
        assert relative.readings[D3] == relative.diff3_1 == pytest.approx(1.0, rel=2e-3)
        assert absolute.readings[D3] == absolute.diff3_2 == float(below[0])
        assert absolute.diff3_1 == 0


def test_a_sum_that_leaves_float64_is_never_a_small_error() -> None:
    # (e−b)² is finite and Σb² is not: the plain quotient would be 0.
    b = np.array([1.4e154, 1.4e154])
    found = compare(np.array([1e153, 1.4e154]), b, DType.DOUBLE, (D1, D2))
    assert math.isnan(found.readings[D2])
    assert found.readings[D1] == pytest.approx(0.464, abs=1e-3)
    opposite = compare(np.array([1.7e308]), np.array([-1.7e308]), DType.DOUBLE, (D2, D3, D3_2))
    assert opposite.readings[D3_2] == opposite.readings[D3] == math.inf
    assert opposite.nonfinite_mismatches == 0


def test_readings_are_those_asked_for_by_canonical_name() -> None:
    ones = np.ones((2, 3), np.float32)
    found = compare(ones * 2, ones, DType.FLOAT, (CriterionKind.MAPE, CriterionKind.MAXAPE))
    assert found.readings == {D1: pytest.approx(1.0), D3: pytest.approx(1.0)}
    assert compare(ones, ones, DType.FLOAT, ()).readings == {}


@pytest.mark.parametrize("kind", [CriterionKind.SMAPE, CriterionKind.SMAXAPE, CriterionKind.NRMSE])
def test_a_criterion_without_a_formula_is_an_error(kind: CriterionKind) -> None:
    ones = np.ones(3, np.float32)
    with pytest.raises(ContentError, match=f"{kind.name} has no formula.*DIFF1"):
        compare(ones, ones, DType.FLOAT, (D1, kind))


@pytest.mark.parametrize("dtype", UNCOMPARABLE, ids=lambda dtype: dtype.value)
def test_a_type_without_arithmetic_is_an_error(dtype: DType) -> None:
    ones = np.ones(3, dtype.storage)
    with pytest.raises(ContentError, match=f"{dtype.value} cannot be compared"):
        compare(ones, ones, dtype, (D3,))


def test_every_type_is_in_one_of_the_lists() -> None:
    storage_twins = {DType.COMPLEX64, DType.COMPLEX128}  # other names of complex_float and complex_double
    assert set(DType) == set(FLOATS + COMPLEX + INTEGERS + UNCOMPARABLE) | storage_twins
    for dtype in storage_twins:
        value = np.array([1 + 2j, 3], dtype.storage)
        assert compare(value, value[::-1].copy(), dtype, (D3,)).unequal == 2


def test_arrays_that_do_not_fit_are_a_fault_of_the_caller() -> None:
    ones = np.ones(4, np.float32)
    with pytest.raises(ValueError, match=r"shapes \(4,\) and \(2, 2\)"):
        compare(ones, ones.reshape(2, 2), DType.FLOAT, (D1,))
    with pytest.raises(ValueError, match="storage of half"):
        compare(ones, ones, DType.HALF, (D1,))
