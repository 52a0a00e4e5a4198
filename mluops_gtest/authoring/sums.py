"""Sums with one answer on every machine: when float64 is exact in any order, and what to do when it is not."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType

# Zero is a multiple of every power of two; this one is above any that a float32 can need.
ANY_EXPONENT = 1023
# Products of zeros alone have no unit; 2^24 times this one is still a number.
_LARGEST_UNIT = 900
# A correct kernel that adds in an unlucky order must not come near the threshold.
ROOM = 4

_BLOCK = 1 << 15  # elements: 128 KiB of float32 stay in the cache through all passes over them
_CHUNK = 1 << 22  # elements that one thread takes at a time
_THREADS = 2
_FEW = 1 << 12
_FLOAT32_BITS = 24

# Bit patterns without the sign order like the magnitudes they stand for.
_INFINITE_BITS = 0x7F800000
_NO_BITS = 0xFFFFFFFF

_Figure = TypeVar("_Figure")


def lattice_exponent(values: Array) -> int:
    """The largest s such that every finite value is a multiple of 2^s; ANY_EXPONENT if all are zero or non-finite."""

    def of_chunk(chunk: Array) -> int:
        exponent = ANY_EXPONENT
        for block in _blocks(chunk, _BLOCK):
            if not _on_lattice(block, exponent):
                exponent = min(exponent, _block_exponent(block))
        return exponent

    return min(_map_chunks(of_chunk, values), default=ANY_EXPONENT)


def lattice_unit(*factors: Array, of_sums: Array | None = None) -> float:
    """A power of two that divides every product of finite values, one of each array: the `unit` of a Bound.

    `of_sums` are the magnitudes of the sums: 0.0 where the unit is so small that each of them needs more than 24 bits.
    """
    if of_sums is not None:
        # A unit divides all values, so that of a few is no smaller: where it does not help, nobody needs the other.
        coarsest = lattice_unit(*(factor.reshape(-1)[:_FEW] for factor in factors))
        least, _ = magnitudes(of_sums)
        if least > coarsest * 2**_FLOAT32_BITS:
            return 0.0
    return math.ldexp(1.0, min(sum(map(lattice_exponent, factors)), _LARGEST_UNIT))


def largest_magnitude(values: Array) -> float:
    """The largest absolute value among the finite ones; 0.0 if there is none."""
    return magnitudes(values)[1]


def magnitudes(values: Array) -> tuple[float, float]:
    """The smallest and the largest absolute value of the finite values that are not zero; (0.0, 0.0) if none is."""

    def of_chunk(chunk: Array) -> tuple[float, float]:
        smallest, largest = _NO_BITS, 0
        scratch = np.empty(min(_BLOCK, len(chunk)), np.uint32)
        for block in _blocks(chunk, _BLOCK):
            bits = np.bitwise_and(_bits(block), np.uint32(0x7FFFFFFF), out=scratch[: len(block)])
            high = bits.max()
            if high >= _INFINITE_BITS:
                bits[bits >= _INFINITE_BITS] = 0
                high = bits.max()
            low = bits.min()
            if low == 0:
                bits[bits == 0] = _NO_BITS
                low = bits.min()
            smallest, largest = min(smallest, int(low)), max(largest, int(high))
        return (_float(smallest), _float(largest)) if largest else (math.inf, 0.0)

    ranges = _map_chunks(of_chunk, values)
    largest = max((high for _, high in ranges), default=0.0)
    return (min(low for low, _ in ranges), largest) if largest else (0.0, 0.0)


def sums_are_exact(exponent: int, largest: float, terms: int) -> bool:
    """No float64 sum of `terms` multiples of 2^exponent up to `largest` ever rounds, whatever the order."""
    # Every partial sum is a multiple of 2^exponent and at most terms · largest; float64 holds 53 bits.
    return Fraction(largest) * terms <= Fraction(2) ** (53 + exponent)


def exact_sums(terms: Array) -> Array:
    """Column sums of float64 [T, n], exact and rounded once; NaN, and Inf − Inf, give NaN."""
    columns = np.ascontiguousarray(terms.T, dtype=np.float64)
    finite = np.isfinite(columns).all(axis=1)
    sums = np.empty(len(columns), np.float64)
    step = max(1, _BLOCK // max(1, columns.shape[1]))
    for block in _blocks(np.flatnonzero(finite), step):
        # + 0.0: what fsum makes of negative zeros differs between Python versions.
        sums[block] = [math.fsum(column) + 0.0 for column in columns[block].tolist()]
    for index in np.flatnonzero(~finite):
        # The finite terms cannot change a sum that an infinity or a NaN decides.
        with np.errstate(invalid="ignore"):
            sums[index] = columns[index][~np.isfinite(columns[index])].sum()
    return sums


def odd_sums(terms: Array) -> Array:
    """Column sums like `exact_sums`, rounded to odd: narrowing them to float or half rounds as if the exact sum were.

    53 bits are more than two above the 24 of a float, so the last one, set wherever bits were lost, breaks every tie.
    A sum of −0 alone is −0.
    """
    sums = exact_sums(terms)
    with np.errstate(invalid="ignore"):
        lost = exact_sums(np.concatenate([terms, -sums[None]]))
    even = (sums.view(np.int64) & 1) == 0
    odd = np.nextafter(sums, np.where(lost > 0, np.inf, -np.inf))
    rounded = np.where(np.isfinite(sums) & even & (lost != 0), odd, sums)
    return np.where((rounded == 0) & np.signbit(terms).all(axis=0), -0.0, rounded)


def assert_conditioned(
    terms: Array,
    baseline: Array,
    criteria: Sequence[Criterion],
    *,
    arithmetic: DType = DType.FLOAT,
    room: float = ROOM,
) -> None:
    """Sequential, reversed and pairwise sums of terms [T, n] in that arithmetic stay within each threshold / `room`.

    Pad columns of fewer terms with zeros. Positions where the baseline is not finite are left out.
    """
    # A term beyond the largest half becomes infinite, and so does the error.
    with np.errstate(over="ignore"):
        narrow = terms.astype(arithmetic.storage)
    for order, sums in _narrow_sums(narrow):
        for criterion in criteria:
            error = _difference(criterion.kind, sums, baseline)
            if not error <= criterion.threshold / room:
                raise ContentError(
                    f"The data are ill-conditioned: {order} {arithmetic.value} sums of the terms have "
                    f"{criterion.kind.value} {error:.3g}, allowed is {criterion.threshold:.3g} / {room:g}: a right "
                    "kernel could fail. Let the recipe draw fewer terms per sum, a narrower range of exponents or "
                    "fewer opposite signs."
                )


def _map_chunks(function: Callable[[Array], _Figure], values: Array) -> list[_Figure]:
    flat = np.ascontiguousarray(values).reshape(-1)
    chunks = list(_blocks(flat, _CHUNK))
    if len(chunks) < 2:
        return [function(chunk) for chunk in chunks]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, chunks))


def _blocks(flat: Array, size: int) -> Iterator[Array]:
    return (flat[start : start + size] for start in range(0, len(flat), size))


def _bits(block: Array) -> Array:
    return block.astype("<f4", copy=False).view("<u4")


def _float(bits: int) -> float:
    return float(np.array(bits, "<u4").view("<f4"))


def _on_lattice(block: Array, exponent: int) -> bool:
    """A quick test that never errs towards yes: all values finite and multiples of 2^exponent."""
    # Outside this range the scaled value could underflow, or the scale itself overflow, in float32.
    if not -127 <= exponent <= 0:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = block.astype(np.float32, copy=False) * np.float32(2.0**-exponent)
        return bool((np.rint(scaled) == scaled).all())


def _block_exponent(block: Array) -> int:
    bits = _bits(block)
    fields = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32)
    # A normal number is (2^23 + mantissa) · 2^(field − 150), a subnormal one mantissa · 2^-149.
    mantissas = (bits & np.uint32(0x7FFFFF)).astype(np.int32) | np.where(fields > 0, 1 << 23, 0).astype(np.int32)
    counted = (mantissas != 0) & (fields != 0xFF)
    if not counted.any():
        return ANY_EXPONENT
    mantissas, fields = mantissas[counted], fields[counted]
    _, lowest_bit = np.frexp((mantissas & -mantissas).astype(np.float32))
    return int((lowest_bit - 1 + np.maximum(fields, 1) - 150).min())


def _narrow_sums(terms: Array) -> Iterator[tuple[str, Array]]:
    with np.errstate(over="ignore", invalid="ignore"):
        yield "sequential", _one_by_one(terms)
        yield "reversed", _one_by_one(terms[::-1])
        yield "pairwise", _in_pairs(terms)


def _one_by_one(terms: Array) -> Array:
    sums = np.zeros(terms.shape[1], terms.dtype)
    for row in terms:
        sums += row
    return sums


def _in_pairs(terms: Array) -> Array:
    if len(terms) == 0:
        return _one_by_one(terms)
    while len(terms) > 1:
        paired = terms[0 : len(terms) - 1 : 2] + terms[1::2]
        terms = np.concatenate([paired, terms[-1:]]) if len(terms) % 2 else paired
    return np.asarray(terms[0])


def _difference(kind: CriterionKind, evaluated: Array, baseline: Array) -> float:
    finite = np.isfinite(baseline)
    wanted = baseline[finite].astype(np.float64)
    error = np.abs(evaluated[finite].astype(np.float64) - wanted)
    match kind.canonical:
        case CriterionKind.DIFF1:
            return float(error.sum() / (np.abs(wanted).sum() + 1e-9))
        case CriterionKind.DIFF2:
            return math.sqrt(float(np.square(error).sum() / (np.square(wanted).sum() + 1e-9)))
    raise ValueError(f"assert_conditioned measures diff1 and diff2, not {kind.value}")
