"""Plausible wrong outputs, made from a right one: what a suite must tell before it is believed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from mluops_gtest.engine.buffers import pattern_of
from mluops_gtest.model.dtypes import Array, DType

# Of a block that is written twice, and of what a last partial tile has.
_BLOCK: Final = 64
MAX_DROPPED: Final = 1024
# Within the loosest thresholds that documents have.
_SCALE: Final = 1.002

# The wrong output; None where the fault has no place in such an output.
Fault = Callable[[Array], Array | None]


def faults_of(dtype: DType) -> Mapping[str, Fault]:
    """The faults that an output of that type can have, by name; none where numpy has no such numbers."""
    if dtype.is_integer:
        return {**_ANY, **_INTEGER}
    if not dtype.is_float:
        return {}
    narrower = {name: fault for name, fault in _NARROWER.items() if dtype is not DType.HALF or name != "in half"}
    return {**_ANY, **_FLOAT, **narrower}


def has_place(fault: str, shape: str) -> bool:
    """The fault is one in outputs of that shape in symbols: a vector is its own transpose, one element has no order."""
    axes = shape.strip("[]").split(",")
    if len(axes) == 1 and fault == "transposed":
        return False
    return shape != "[1]" or fault in _OF_ONE_ELEMENT


def wrong_outputs(right: Array, untouched: Array, faults: Sequence[str], dtype: DType) -> Iterator[tuple[str, Array]]:
    """Those of the faults that change this output; `untouched` is what the buffer held before the call."""
    made = faults_of(dtype)
    for name in faults:
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = untouched if name == _UNTOUCHED else made[name](right)
        if wrong is not None and _differs(wrong, right):
            yield name, wrong


def untouched_output(right: Array, dtype: DType, filling: int | None, kept: Array | None, preset: int | None) -> Array:
    """What the caller leaves in the buffer: poison or a preset value, and where rows are kept their preset."""
    pattern = np.frombuffer(pattern_of(dtype, filling), dtype.storage)
    untouched = np.broadcast_to(pattern, right.shape).copy()
    if kept is not None:
        untouched[kept[: len(untouched)]] = preset or 0
    return untouched


def _differs(wrong: Array, right: Array) -> bool:
    """Some element is another number; NaN is NaN, and −0 is 0."""
    return bool(((wrong != right) & ~(np.isnan(wrong) & np.isnan(right))).any())


def _zero(right: Array) -> Array:
    return np.zeros_like(right)


def _some_place(right: Array) -> int:
    """The middle one of the elements that are finite and not 0; the middle where there is none."""
    flat = right.reshape(-1)
    numbers = np.flatnonzero((flat != 0) & np.isfinite(flat))
    return int(numbers[len(numbers) // 2]) if numbers.size else flat.size // 2


def _at_one_place(change: Callable[[Array, int], object]) -> Fault:
    def fault(right: Array) -> Array:
        wrong = right.copy()
        place = _some_place(right)
        wrong.reshape(-1)[place] = change(right.reshape(-1), place)
        return wrong

    return fault


def _another(flat: Array, place: int) -> object:
    """Off by as much as elements are large; an integer by 2."""
    if flat.dtype.kind != "f":
        return flat[place] ^ flat.dtype.type(2)
    numbers = np.abs(flat[np.isfinite(flat)].astype(np.float64))
    return flat.dtype.type(float(flat[place]) + max(float(numbers.mean()) if numbers.size else 0.0, 1e-3))


def _next(flat: Array, place: int) -> object:
    return np.nextafter(flat[place], flat.dtype.type(np.inf))


def _dropped(count: int) -> Fault:
    def fault(right: Array) -> Array | None:
        if right.size <= count:
            return None
        wrong = right.copy()
        wrong.reshape(-1)[-count:] = 0
        return wrong

    return fault


def _repeated(right: Array) -> Array | None:
    block = min(_BLOCK, right.size // 2)
    if not block:
        return None
    wrong = right.copy()
    flat = wrong.reshape(-1)
    flat[block : 2 * block] = flat[:block]
    return wrong


def _rows_swapped(right: Array) -> Array | None:
    """The first two rows that differ, along the first axis that has any."""
    axis = next((axis for axis, length in enumerate(right.shape) if length > 1), None)
    if axis is None:
        return None
    rows = np.moveaxis(right, axis, 0)
    for row in range(1, len(rows)):
        if _differs(rows[row], rows[row - 1]):
            wrong = right.copy()
            np.moveaxis(wrong, axis, 0)[[row - 1, row]] = rows[[row, row - 1]]
            return wrong
    return None


def _transposed(right: Array) -> Array | None:
    if right.ndim < 2:
        return None
    return np.ascontiguousarray(right.swapaxes(-1, -2)).reshape(right.shape)


def _shifted(right: Array) -> Array:
    return np.roll(right.reshape(-1), 1).reshape(right.shape)


def _scaled(right: Array) -> Array:
    return (right.astype(np.float64) * _SCALE).astype(right.dtype)


def _through_half(right: Array) -> Array:
    return right.astype(np.float16).astype(right.dtype)


def _through_bfloat16(right: Array) -> Array:
    bits = right.astype(np.float32).view(np.uint32).astype(np.uint64)
    # To the nearest of 8 bits, ties to even; a NaN stays one.
    rounded = ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)).astype(np.uint32)
    values = np.where(np.isnan(right), np.float32(np.nan), rounded.view(np.float32))
    return values.astype(right.dtype)


def _off_by_one(right: Array) -> Array:
    more: Array = right + right.dtype.type(1)
    return more


_UNTOUCHED: Final = "untouched"
_OF_ONE_ELEMENT: Final = frozenset({"zero", _UNTOUCHED, "one element", "off by one"})
_ANY: Final[Mapping[str, Fault]] = {
    "zero": _zero,
    # What that is, the caller's buffer says.
    _UNTOUCHED: lambda _: None,
    "one element": _at_one_place(_another),
    "last 1 dropped": _dropped(1),
    "last 64 dropped": _dropped(64),
    "last 1024 dropped": _dropped(MAX_DROPPED),
    "block repeated": _repeated,
    "rows swapped": _rows_swapped,
    "transposed": _transposed,
    "shifted by one": _shifted,
}
_INTEGER: Final[Mapping[str, Fault]] = {"off by one": _off_by_one}
_FLOAT: Final[Mapping[str, Fault]] = {
    "one ulp": _at_one_place(_next),
    "scaled by 1.002": _scaled,
    "NaN in one place": _at_one_place(lambda flat, _: flat.dtype.type(np.nan)),
}
_NARROWER: Final[Mapping[str, Fault]] = {"in half": _through_half, "in bfloat16": _through_bfloat16}
