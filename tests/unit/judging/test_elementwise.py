"""Right sums in any order stay within the bound; one wrong element does not, wherever it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.tensor import DType, Precision, WorkingPrecision
from mluops_gtest.judging.blocks import BLOCK
from mluops_gtest.judging.criteria import compare
from mluops_gtest.judging.elementwise import Limits, allowances, can_be_bounded, element_errors


def sequential(terms):
    total = np.zeros(terms.shape[1:], terms.dtype)
    for term in terms:
        total = total + term
    return total


def pairwise(terms):
    while len(terms) > 1:
        odd = terms[len(terms) // 2 * 2 :]
        terms = np.concatenate([terms[0::2][: len(terms) // 2] + terms[1::2], odd])
    return terms[0]


def blocked(terms):
    return sequential(np.stack([sequential(terms[start : start + 7]) for start in range(0, len(terms), 7)]))


def fused(terms):
    """Each addition on an exact product, as FMA does it: float64 holds one product of two float32 exactly."""
    total = np.zeros(terms.shape[1:], np.float32)
    for term in terms.astype(np.float64):
        total = (total + term).astype(np.float32)
    return total


ORDERS = {
    "sequential": sequential,
    "reversed": lambda terms: sequential(terms[::-1]),
    "pairwise": pairwise,
    "blocked": blocked,
    "sorted": lambda terms: sequential(np.take_along_axis(terms, np.abs(terms).argsort(axis=0), axis=0)),
    "sorted down": lambda terms: sequential(np.take_along_axis(terms, (-np.abs(terms)).argsort(axis=0), axis=0)),
    "fused": fused,
    "numpy": lambda terms: terms.sum(axis=0, dtype=terms.dtype),
}


def exact(terms, dtype="<f4"):
    columns = terms.astype(np.float64).T
    return np.array([math.fsum(column) for column in columns]).astype(dtype)


def bound_of(terms, unit=0.0):
    return Bound(np.abs(terms.astype(np.float64)).sum(axis=0), len(terms), unit)


class TestRightSums:
    @pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
    @given(seed=st.integers(0, 2**32), count=st.integers(1, 60), spread=st.integers(0, 30))
    def test_any_order_is_within(self, order, seed, count, spread):
        draw = np.random.default_rng(seed)
        scales = 2.0 ** draw.integers(-spread, spread + 1, (count, 40))
        terms = (draw.standard_normal((count, 40)) * scales).astype("f4")
        found = element_errors(order(terms), exact(terms), DType.FLOAT, bound_of(terms))
        assert (found.beyond, found.ratio <= 1) == (0, True)

    @pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
    def test_sums_below_the_normal_range(self, order):
        draw = np.random.default_rng(5)
        factors = (draw.standard_normal((2, 30, 200)) * 2.0**-73).astype("f4")
        products = factors[0].astype("f8") * factors[1]
        rounded = products.astype("f4")
        found = element_errors(order(rounded), exact(products), DType.FLOAT, bound_of(products))
        assert found.beyond == 0

    def test_half_accumulation_only_where_that_is_declared(self):
        terms = np.random.default_rng(2).standard_normal((50, 4000)).astype("f2")
        right, bound = exact(terms, "f2"), bound_of(terms)
        assert element_errors(sequential(terms), right, DType.HALF, bound).beyond > 1000
        assert element_errors(sequential(terms), right, DType.HALF, bound, Precision.HALF).beyond == 0
        in_float = sequential(terms.astype("f4")).astype("f2")
        assert element_errors(in_float, right, DType.HALF, bound).beyond == 0

    @pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
    @given(seed=st.integers(0, 2**32), count=st.integers(1, 300), spread=st.integers(0, 12))
    def test_half_sums_in_any_order(self, order, seed, count, spread):
        """From subnormal terms on: 2^-24 is the smallest half."""
        draw = np.random.default_rng(seed)
        terms = (draw.standard_normal((count, 7)) * 2.0 ** draw.integers(-spread - 4, 1, (count, 7))).astype("f2")
        got = order(terms).astype("f2")
        assert element_errors(got, exact(terms, "f2"), DType.HALF, bound_of(terms), Precision.HALF).beyond == 0

    def test_half_products_meet_no_second_rounding_of_their_factors(self):
        x, y = np.random.default_rng(9).standard_normal((2, 3, 500)).astype("f2")
        products = x.astype("f8") * y
        bound = Bound(np.abs(products).sum(axis=0), 3, products=True)
        right = exact(products, "f2")
        assert element_errors(sequential(x * y), right, DType.HALF, bound, Precision.HALF).beyond == 0
        allowed = allowances(right, right, DType.HALF, bound, Precision.HALF)
        # Three roundings of every term and two of the result, each of at most 2^-11, and underflow.
        assert (allowed <= 1.01 * (5 * 2.0**-11 * bound.magnitude + 3 * 2.0**-24)).all()

    @pytest.mark.parametrize("count", [2047, 2048, 12_000])
    def test_from_2048_terms_on_half_sums_are_held_to_those_of_blocks(self, count):
        """γ(n) has no value there; a sum of √n blocks has √n + 1 roundings, and so a bound that says something."""
        terms = np.random.default_rng(2).random((count, 40)).astype("f2")
        right, bound = exact(terms, "f4").astype("f2"), bound_of(terms)
        size = math.isqrt(count)
        blocks = [terms[start : start + size].astype("f4").sum(axis=0).astype("f2") for start in range(0, count, size)]
        assert element_errors(sequential(np.stack(blocks)), right, DType.HALF, bound, Precision.HALF).beyond == 0
        halved = (right / 2).astype("f2")
        found = element_errors(halved, right, DType.HALF, bound, Precision.HALF)
        assert found.beyond == (0 if count < 2048 else 40)

    def test_a_float_sum_has_no_blocks(self):
        assert np.isinf(allowances(np.ones(1), np.ones(1), DType.DOUBLE, Bound(1.0, 2**24))).all()

    @pytest.mark.parametrize(("precision", "kept"), [(Precision.TF32, 10), (Precision.BFLOAT16, 7)])
    def test_factors_of_a_narrower_unit(self, precision, kept):
        x, y = np.random.default_rng(8).standard_normal((2, 30, 3000)).astype("f4")
        products = x.astype("f8") * y
        bound = Bound(np.abs(products).sum(axis=0), 30, products=True)

        def cut(values):
            return (values.view("u4") & np.uint32(0xFFFFFFFF << (23 - kept) & 0xFFFFFFFF)).view("f4")

        got = sequential(cut(x) * cut(y))
        assert element_errors(got, exact(products), DType.FLOAT, bound).beyond > 1000
        assert element_errors(got, exact(products), DType.FLOAT, bound, precision).beyond == 0

    def test_a_mean_by_its_reciprocal(self):
        terms = np.random.default_rng(4).standard_normal((7, 5000)).astype("f4")
        mean = np.array([math.fsum(c) / 7 for c in terms.T.astype("f8")]).astype("f4")
        bound = Bound(np.abs(terms.astype("f8")).sum(axis=0) / 7, 7, afterwards=2)
        for got in (sequential(terms) / np.float32(7), sequential(terms) * np.float32(np.float32(1) / np.float32(7))):
            assert element_errors(got, mean, DType.FLOAT, bound).beyond == 0


class TestExactSums:
    TERMS = np.random.default_rng(3).integers(-999, 1000, (100, 50)).astype("f4") * np.float32(2**-5)

    def test_on_a_lattice_one_ulp_is_too_much(self):
        right = exact(self.TERMS)
        bound = bound_of(self.TERMS, unit=2.0**-5)
        assert element_errors(sequential(self.TERMS), right, DType.FLOAT, bound).ratio == 0
        wrong = right.copy()
        wrong[7] = np.nextafter(wrong[7], np.float32(np.inf))
        found = element_errors(wrong, right, DType.FLOAT, bound)
        assert (found.beyond, found.worst, found.ratio, found.allowed) == (1, 7, math.inf, 0.0)
        assert element_errors(wrong, right, DType.FLOAT, bound_of(self.TERMS)).beyond == 0

    def test_a_lattice_with_more_units_than_the_mantissa_rounds(self):
        terms = np.random.default_rng(3).integers(-(2**23), 2**23, (100, 50)).astype("f4")
        found = element_errors(sequential(terms), exact(terms), DType.FLOAT, bound_of(terms, unit=1.0))
        assert 0 < found.ratio <= 1

    def test_half_results_of_exact_sums_may_be_rounded_but_not_more(self):
        terms = np.random.default_rng(6).integers(-2000, 2001, (10, 300)).astype("f4")
        right, bound = exact(terms, "f2"), bound_of(terms, unit=1.0)
        assert element_errors(right, right, DType.HALF, bound).ratio == 0
        wrong = np.nextafter(np.nextafter(right, np.float16(np.inf)), np.float16(np.inf))
        assert element_errors(wrong, right, DType.HALF, bound).beyond > 250

    @pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
    def test_units_below_the_smallest_number_round(self, order):
        """Products of 2^-80 and 2^-80: the lattice is exact in float64, and float keeps none of its 11 lowest bits."""
        factors = np.random.default_rng(1).integers(-2047, 2048, (2, 12, 4000)) * 2.0**-80
        products = factors[0] * factors[1]
        terms = products.astype("f4")
        bound = bound_of(products, unit=2.0**-160)
        found = element_errors(order(terms), exact(products), DType.FLOAT, bound)
        assert 0 < found.ratio <= 1

    def test_a_mean_below_the_normal_range(self):
        """5 · 2^-149 / 10 is a tie, which the reciprocal of 10 decides otherwise than the division."""
        terms = np.full((10, 1), 2.0**-149, "f4")
        terms[5:] = 0
        bound = Bound(np.abs(terms.astype("f8")).sum(axis=0) / 10, 10, unit=2.0**-149 / 10, afterwards=2)
        got, right = terms.sum(axis=0) * np.float32(0.1), (terms.astype("f8").sum(axis=0) / 10).astype("f4")
        assert got != right
        assert element_errors(got, right, DType.FLOAT, bound).ratio <= 1

    def test_copies_are_equal(self):
        right = np.array([1.5, -2.0, 3.0], "f4")
        wrong = np.array([1.5, -2.0, np.nextafter(np.float32(3), np.float32(4))], "f4")
        found = element_errors(wrong, right, DType.FLOAT, Bound(0.0))
        assert (found.beyond, found.first, found.last) == (1, 2, 2)


class TestOneWrongElement:
    @given(seed=st.integers(0, 2**32), place=st.integers(0, 2**31))
    def test_it_is_found_wherever_it_is(self, seed, place):
        """The norms see nothing here: one of 100 000 elements, wrong by as much as it is large."""
        draw = np.random.default_rng(seed)
        terms = draw.standard_normal((4, 100, 3, 17)).astype("f4")
        right = terms.astype("f8").sum(axis=0).astype("f4")
        bound = Bound(np.abs(terms).sum(axis=0), 4)
        wrong = sequential(terms)
        place %= wrong.size
        wrong.flat[place] = -wrong.flat[place]
        found = element_errors(wrong, right, DType.FLOAT, bound)
        assert (found.beyond, found.worst, found.first, found.last) == (1, place, place, place)

    @pytest.mark.parametrize(
        "shape",
        [
            *((3 * BLOCK + 5,), (1, 2, BLOCK), (2, 3, BLOCK + 7)),
            *((BLOCK // 8, 25), (7, 1, 1, 20_000), (2, 3, BLOCK // 2, 5)),
        ],
    )
    def test_blocks_have_no_seams(self, shape):
        right = np.ones(shape, "f4")
        # Each place has a bound of its own: one that is off by a block would not hold there.
        magnitudes = np.ones(shape, "f4")
        bound = Bound(magnitudes, np.ones((shape[0],) + (1,) * (len(shape) - 1), int))
        for place in (0, BLOCK - 1, BLOCK, right.size - 3, right.size - 1):
            magnitudes[...] = 2.0**30
            magnitudes.flat[place] = 1
            wrong = right.copy()
            wrong.flat[place] = 2
            found = element_errors(wrong, right, DType.FLOAT, bound)
            assert (found.beyond, found.worst) == (1, place)
            assert math.isclose(found.ratio, 1 / found.allowed)


class TestHalfExcused:
    """Half outputs that a backend does not say half of."""

    TERMS = np.random.default_rng(2).standard_normal((50, 4000)).astype("f2")

    @staticmethod
    def errors_of(got, right, bound, precision=Precision.FLOAT, excused=Precision.HALF):
        return compare(got, right, DType.HALF, [], lambda: Limits(bound, precision, excused)).elements

    @pytest.mark.parametrize("precision", [Precision.FLOAT, Precision.TF32])
    def test_half_sums_are_told_and_a_wrong_one_among_them_is_an_outlier(self, precision):
        got, right, bound = sequential(self.TERMS), exact(self.TERMS, "f2"), bound_of(self.TERMS)
        found = self.errors_of(got, right, bound, precision)
        assert found.beyond == 0
        assert found.as_half == element_errors(got, right, DType.HALF, bound).beyond > 1000
        assert 0 < found.ratio <= 1
        wrong = got.copy()
        # The largest of 50 terms is lost.
        wrong[17] -= self.TERMS[np.abs(self.TERMS[:, 17]).argmax(), 17]
        found = self.errors_of(wrong, right, bound, precision)
        assert (found.beyond, found.first, found.last, found.worst) == (1, 17, 17, 17)
        assert found.as_half > 1000

    def test_beyond_both_is_told_as_before(self):
        right, bound = exact(self.TERMS, "f2"), bound_of(self.TERMS)
        wrong = right.copy()
        wrong[3] += np.float16(20)
        assert self.errors_of(wrong, right, bound) == element_errors(wrong, right, DType.HALF, bound)

    def test_what_is_exact_in_half_has_no_excuse(self):
        """2047 units are the most that a half holds: no partial sum rounds."""
        terms = np.random.default_rng(6).integers(-20, 21, (100, 300)).astype("f2")
        right, bound = exact(terms, "f2"), bound_of(terms, unit=1.0)
        assert self.errors_of(right + np.float16(1), right, bound).beyond == 300
        assert self.errors_of(right + np.float16(1), right, bound).as_half == 0

    @pytest.mark.parametrize("excused", [None, Precision.FLOAT])
    def test_nothing_is_excused_where_float_is_declared_of_half_data(self, excused):
        got, right, bound = sequential(self.TERMS), exact(self.TERMS, "f2"), bound_of(self.TERMS)
        found = self.errors_of(got, right, bound, excused=excused)
        assert (found.as_half, found.beyond > 1000) == (0, True)

    @given(seed=st.integers(0, 2**32), roundings=st.integers(0, 5000), products=st.booleans())
    def test_half_never_allows_less_than_float(self, seed, roundings, products):
        draw = np.random.default_rng(seed)
        e, b = draw.integers(0, 0x7C00, (2, 500)).astype("u2").view("f2")
        bound = Bound(2.0 ** draw.integers(-30, 17, 500), roundings, 2.0 ** draw.integers(-30, 2, 500), 2, products)
        for precision in (Precision.FLOAT, Precision.TF32):
            narrow, wide = (allowances(e, b, DType.HALF, bound, p) for p in (precision, Precision.HALF))
            assert (narrow <= wide).all()


class TestNonFinite:
    @pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
    def test_what_is_no_number_is_beyond_any_bound(self, wrong):
        found = element_errors(np.array([1, wrong], "f4"), np.array([1, 1], "f4"), DType.FLOAT, Bound(1e30, 5))
        assert (found.beyond, found.worst, found.ratio) == (1, 1, math.inf)

    def test_like_meets_like_and_a_bound_that_is_none_says_nothing(self):
        values = np.array([math.nan, math.inf, -math.inf, 1], "f4")
        bound = Bound(np.array([math.nan, math.inf, math.inf, math.nan]), 3)
        assert element_errors(values, values.copy(), DType.FLOAT, bound).beyond == 0
        assert element_errors(values + np.float32([0, 0, 0, 9]), values, DType.FLOAT, bound).beyond == 0


def test_a_part_of_a_bound():
    whole = Bound(np.arange(12.0).reshape(4, 3), np.arange(4).reshape(4, 1), unit=0.5)
    part = whole.part(slice(1, 3), (4, 3))
    assert part.magnitude.tolist() == [[3, 4, 5], [6, 7, 8]]
    assert part.roundings.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert part.unit == 0.5


def test_types_with_a_rounding():
    assert {dtype.value for dtype in DType if can_be_bounded(dtype)} == {"half", "float", "double", "bfloat16"}


@pytest.mark.parametrize(
    ("declared", "dtype", "precision", "excused"),
    [
        ("float", DType.HALF, "float", "half"),
        ("tf32", DType.HALF, "tf32", "half"),
        ({"a": "float"}, DType.HALF, "float", "half"),
        ({"a": "half"}, DType.FLOAT, "half", "half"),
        ({"b": "half"}, DType.FLOAT, "float", "float"),
        ({"a": {"half": "half"}}, DType.HALF, "half", "half"),
        ({"a": {"half": "half"}}, DType.FLOAT, "float", "float"),
        ({"a": {"float": "tf32"}}, DType.HALF, "float", "half"),
        ({"a": {"half": "float"}}, DType.HALF, "float", "float"),
        ({"b": {"half": "float"}}, DType.HALF, "float", "half"),
        # Products of bfloat16 factors are no half sums.
        ("bfloat16", DType.HALF, "bfloat16", "bfloat16"),
        ("tf32", DType.BFLOAT16, "tf32", "tf32"),
    ],
)
def test_half_data_may_be_computed_in_half_unless_their_type_is_declared(declared, dtype, precision, excused):
    working = WorkingPrecision(declared)
    assert (working.of("a", dtype).value, working.excused("a", dtype).value) == (precision, excused)
    assert WorkingPrecision() == WorkingPrecision("float")


def test_where_infinities_meet_in_a_sum_no_number_is_allowed():
    """inf · γ is infinite and inf − inf is none: the reading still has numbers that a file can hold."""
    bound = Bound(np.array([np.inf, 1.0]), np.array([3, 3]), 1.0)
    baseline = np.array([np.nan, 1.0], np.float32)
    found = element_errors(np.array([0.0, 1.0], np.float32), baseline, DType.FLOAT, bound)
    assert (found.beyond, found.worst) == (1, 0)
    assert found.allowed >= 0


@pytest.mark.parametrize(("dtype", "smallest"), [(DType.HALF, 2.0**-24), (DType.FLOAT, 2.0**-149)])
def test_a_baseline_of_zero_allows_no_more_than_what_rounds_to_zero(dtype: DType, smallest: float) -> None:
    baseline = np.zeros(2, dtype.storage)
    evaluated = np.array([0, 1e-6], dtype.storage)
    bound = Bound(smallest / 8, 1)
    assert element_errors(evaluated, baseline, dtype, bound).beyond == 1
    assert allowances(baseline, baseline, dtype, bound).max() <= 2 * smallest
