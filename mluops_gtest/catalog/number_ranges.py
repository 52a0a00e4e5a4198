"""Lengths and parameters of a call as ranges of numbers, with the numbers at which its checks stop to hold.

Where a check stops is found by bisection, so that no limit is written down twice.
"""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Final

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import changed
from mluops_gtest.catalog.violations import EMPTY, EVERYWHERE, LARGE, Kind, broken_checks, is_call
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import DEFAULT_NRAM_BYTES, InStep, OpCall, Params, ParamValue, Space
from mluops_gtest.core.case import Case, Change
from mluops_gtest.core.declaration import OutputSpec, ParamField, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import Axis, ShapeError, parse_shape, readable_shape
from mluops_gtest.core.tensor import LARGE_ELEMENTS, Tensor

Spec = TensorSpec | OutputSpec
_Dims = tuple[int, ...]

_MOST: Final = 2**31 - 1
# Two sizes of these are large together, where each alone leaves small what has no other size: the first with the last
# beside a factor of 2. The last is the most rows that documents allow, so that few entries of arrays are written out.
_FACTORS: Final = (1_100, 1 << 14, 1 << 17, 1_000_000)
# Of an array that is no longer every entry is looked at alone.
MOST_ENTRIES: Final = 3


class NumberRange(Value):
    """A length or a parameter of a call that can be any number from `low` to `high`; `start` is the call's own."""

    target: str
    category: str
    start: int
    low: int
    high: int
    put: Callable[[Case, int], Case | None]
    # These are tried with others, whatever they break alone.
    extra: tuple[int, ...] = ()


def ranges_of(operator: Operator, base: Case, space: Space | None) -> Iterator[NumberRange]:
    """Every axis, every integer parameter, every symbol of the shapes wherever it stands, the on-chip memory."""
    for tensor in base.tensors:
        for axis, length in enumerate(tensor.desc.dims):
            resize = partial(_resize, name=tensor.id, axis=axis)
            yield NumberRange(f"{tensor.id}_dim{axis}", "dim", length, 0, LARGE_ELEMENTS, resize, (LARGE_ELEMENTS,))
    for one in operator.param_fields:
        if not one.result and one.type not in ("float", "double", "string"):
            yield from _of_integers(one, base.params.get(one.name))
    for symbol in dict.fromkeys(factor for spec in operator.tensors for factor in readable_shape(spec.shape).factors):
        put = Symbol(symbol, operator, None if space is None else space.in_step.get(symbol))
        if symbol.isdecimal():
            number = int(symbol)
            yield NumberRange(
                f"{EVERYWHERE}{symbol}", "dim", number, number - 1, number + 1, put, (number - 1, number + 1)
            )
        elif (start := put.size(base)) is not None:
            # One more than the least that is large, so that one size can be larger than another that is.
            high = _MOST if symbol in base.params else LARGE_ELEMENTS + 1
            yield NumberRange(f"{EVERYWHERE}{symbol}", "dim", start, 0, high, put, (0, *_FACTORS, high))
    for names in alike_of_any_axes(operator):
        for axis, length in enumerate(base.tensor(names[0]).desc.dims):
            resize = partial(_resize_all, names=names, axis=axis)
            yield NumberRange(f"{EVERYWHERE}dim{axis}", "dim", length, 0, LARGE_ELEMENTS, resize, (0, LARGE_ELEMENTS))
    yield NumberRange("nram", "device", DEFAULT_NRAM_BYTES, 0, DEFAULT_NRAM_BYTES, put_nram)


def _resize(case: Case, size: int, *, name: str, axis: int) -> Case | None:
    dims = case.tensor(name).desc.dims if case.has(name) else ()
    if axis >= len(dims):
        return None
    return changed(case, {name: Change(dims=(*dims[:axis], size, *dims[axis + 1 :]))}, {})


def alike_of_any_axes(operator: Operator) -> Iterator[tuple[str, ...]]:
    """The tensors that have the same axes, however many these are."""
    shapes = {spec.id: readable_shape(spec.shape) for spec in operator.tensors}
    for one in dict.fromkeys(spec.shape for spec in operator.tensors):
        names = tuple(spec.id for spec in operator.tensors if spec.shape == one)
        if len(names) > 1 and any(axis.any_number for form in shapes[names[0]].forms for axis in form.axes):
            yield names


def _resize_all(case: Case, size: int, *, names: tuple[str, ...], axis: int) -> Case | None:
    resized: Case | None = case
    for name in names:
        resized = None if resized is None else _resize(resized, size, name=name, axis=axis)
    return resized


def put_nram(case: Case, size: int) -> Case:
    """The call on a device with so much on-chip memory."""
    return replace(case, expect=replace(case.expect, nram_bytes=size))


def _of_integers(one: ParamField, value: ParamValue) -> Iterator[NumberRange]:
    """A parameter; of an array its ends and its middle, and all entries at once: it stays as long as it is.

    No file holds a number that its enum does not have.
    """
    low, high = (0, 1) if one.type == "bool" else (-_MOST - 1, _MOST)
    if one.enum is not None:
        low, high = min(one.enum.values.values()), max(one.enum.values.values())

    def put(case: Case, number: int, places: tuple[int, ...] | None) -> Case | None:
        if one.enum is not None and number not in one.enum.values.values():
            return None
        new: ParamValue = bool(number) if one.type == "bool" else number
        own = case.params.get(one.name)
        if isinstance(own, tuple):
            new = tuple(number if places is None or at in places else entry for at, entry in enumerate(own))
        return changed(case, {}, {one.name: new})

    if isinstance(value, int):
        yield NumberRange(one.name, "param", int(value), low, high, partial(put, places=None), (0, -int(value), high))
    elif isinstance(value, tuple) and value:
        ends = dict.fromkeys((0, len(value) // 2, len(value) - 1))
        for place in range(len(value)) if len(value) <= MOST_ENTRIES else ends:
            entry = partial(put, places=(place,))
            yield NumberRange(f"{one.name}_{place}", "param", int(value[place]), low, high, entry, (high,))
        yield NumberRange(f"{EVERYWHERE}{one.name}", "param", int(value[0]), low, high, partial(put, places=None))


class Symbol(Value):
    """A size that tensors and parameters share: called with a call and a number, it gives it to all of them."""

    name: str
    operator: Operator
    in_step: Callable[[OpCall, int], InStep] | None

    def size(self, case: Case) -> int | None:
        """The size that the call has; None where no axis is this symbol alone."""
        for tensor in case.tensors:
            spec = self.operator.tensor(tensor.id)
            for axis, length in zip(_axes(spec, tensor, case.params) or (), tensor.desc.dims, strict=False):
                if axis.factors == (self.name,):
                    return length
        value = case.params.get(self.name)
        return value if isinstance(value, int) else None

    def __call__(self, case: Case, size: int) -> Case | None:
        changes: dict[str, Change] = {}
        for tensor in case.tensors:
            spec = self.operator.tensor(tensor.id)
            dims = self._dims(spec, tensor, size, case)
            if min(dims, default=0) < 0:
                return None
            if dims != tensor.desc.dims:
                changes[spec.id] = Change(dims=dims)
        params = self.operator.params_along(self.name, min(size, _MOST), case.params)
        if self.in_step is not None:
            others = self.in_step(bind_values(case, self.operator), size)
            changes |= {name: Change(dims=dims) for name, dims in others.dims.items()}
            params = {**params, **others.params}
        return changed(case, changes, params) if changes else None

    def _dims(self, spec: Spec, tensor: Tensor, size: int, case: Case) -> _Dims:
        """The dims with another size of the symbol; other factors of a product stay."""
        dims = list(tensor.desc.dims)
        for number, axis in enumerate(_axes(spec, tensor, case.params) or ()):
            if self.name in axis.factors:
                others = (factor for factor in axis.factors if factor != self.name)
                known = (int(one) if one.isdecimal() else Symbol(one, self.operator, None).size(case) for one in others)
                dims[number] = size * (math.prod(one for one in known if one is not None) or 1)
        return tuple(dims)


def _axes(spec: Spec, tensor: Tensor, params: Params) -> tuple[Axis, ...] | None:
    """The axes of the tensor as it is; None where its shape has none of this layout and rank, or cannot be read."""
    return readable_shape(spec.shape).axes(len(tensor.desc.dims), tensor.desc.layout.value, params)


def kinds_along(
    numbers: NumberRange, operator: Operator, base: Case, defined: Callable[[OpCall], bool] | None
) -> Iterator[Kind]:
    """The neighbours of the call's own number, the extra ones, and where each check stops to hold."""
    limits: dict[tuple[int, bool], set[str]] = {}
    for last, first, check in _limits(numbers, operator, base, defined):
        limits.setdefault((first, False), set()).add(check)
        if last != numbers.start:
            limits.setdefault((last, True), set()).add(check)
    near = [one for one in (numbers.start - 1, numbers.start + 1) if numbers.low <= one <= numbers.high]
    plain = dict.fromkeys(near if numbers.category != "device" else ())
    for number in plain:
        yield _kind_of(numbers, number)
    for (number, is_valid), checks in limits.items():
        if number not in plain or is_valid:
            yield _kind_of(numbers, number, frozenset(checks), is_valid=is_valid)
    for number in numbers.extra:
        if number not in plain and (number, False) not in limits:
            yield _kind_of(numbers, number, frozenset())


def _kind_of(
    numbers: NumberRange, number: int, limit_of: frozenset[str] | None = None, *, is_valid: bool = False
) -> Kind:
    words = {numbers.start - 1: "less", numbers.start + 1: "more"} if limit_of is None else {}
    what = words.get(number, f"minus_{-number}" if number < 0 else str(number))
    is_length = numbers.category == "dim"
    category = EMPTY if is_length and number == 0 else LARGE if is_length and number > _FACTORS[0] else numbers.category

    def apply(case: Case) -> Case | None:
        return numbers.put(case, number)

    return Kind(numbers.target, f"{what}_limit" if is_valid else what, category, apply, limit_of, is_valid)


def _limits(
    numbers: NumberRange, operator: Operator, base: Case, defined: Callable[[OpCall], bool] | None
) -> Iterator[tuple[int, int, str]]:
    """Upwards and downwards: the last number at which a check holds, the first at which it does not, and the check."""

    @cache
    def broken_at(number: int) -> frozenset[str] | None:
        case = numbers.put(base, number)
        if case is None or not is_call(case, operator, defined):
            return None
        return frozenset(check.name for check in broken_checks(operator, case))

    for sign, end in ((1, numbers.high), (-1, numbers.low)):
        seen: set[str] = set()
        last = numbers.start
        steps = (numbers.start + sign * (1 << power) for power in range(33))
        inside = [number for number in steps if sign * number < sign * end]
        for number in (*inside, *([end] if end != numbers.start else [])):
            broken = broken_at(number)
            if broken is None:
                break
            for check in sorted(broken - seen):
                yield (*_bisect(last, number, check, broken_at), check)
            seen |= broken
            last = number


def _bisect(holds: int, breaks: int, check: str, broken_at: Callable[[int], frozenset[str] | None]) -> tuple[int, int]:
    while abs(breaks - holds) > 1:
        middle = (holds + breaks) // 2
        broken = broken_at(middle)
        if broken is None or check in broken:
            breaks = middle
        else:
            holds = middle
    return holds, breaks


def case_symbols(case: Case, operator: Operator) -> dict[str, int]:
    """The value of every size in a case; refused where one name stands for two values or a product is wrong."""
    known = {name: value for name, value in case.params.items() if isinstance(value, int)}
    # What a call may lack, and has no elements of, has no sizes.
    tensors = [one for one in case.tensors if not (one.id in operator.optional and one.desc.is_empty)]
    axes = [pair for tensor in tensors for pair in _each_axis(tensor, operator, case.params)]
    found: dict[str, int] = {}
    for where, axis, length in axes:
        name = axis.symbol
        if name is not None and not axis.at_least:
            first = found.setdefault(name, known.get(name, length))
            if first != length:
                raise ShapeError(f"{where} is {length}; {axis.text} is {first} elsewhere")
    forms = [form for spec in operator.tensors for form in parse_shape(spec.shape).forms]
    missing = {axis.text: 1 for form in forms for axis in form.axes[: form.optional]}
    for where, axis, length in axes:
        wanted = _value(axis, {**missing, **known, **found})
        if wanted is not None and not (length >= wanted if axis.at_least else length == wanted):
            raise ShapeError(f"{where} is {length}; the shape says {axis.text}, which is {wanted}")
    return found


def _each_axis(tensor: Tensor, operator: Operator, params: Params) -> Iterator[tuple[str, Axis, int]]:
    spec = operator.tensor(tensor.id)
    form = parse_shape(spec.shape).form(tensor.desc.layout.value, params)
    if form is None or form.ranks is None:
        return
    axes = form.of_rank(len(tensor.desc.dims))
    if axes is None:
        raise ShapeError(f"{tensor.id} has {len(tensor.desc.dims)} axes; its shape is {spec.shape}")
    for number, (axis, length) in enumerate(zip(axes, tensor.desc.dims, strict=True)):
        yield f"axis {number} of {tensor.id}", axis, length


def _value(axis: Axis, known: dict[str, int]) -> int | None:
    """The length that the axis should have; None where a name in it has no value."""
    try:
        return sum(math.prod(int(one) if one.isdecimal() else known[one] for one in term) for term in axis.terms)
    except KeyError:
        return None
