"""The memory that a backend works on, and the call that it gets.

The harness owns every buffer: it lies in one slab between guard zones that no backend may write, and holds poison or
what the caller presets. `bind` makes the call of a case with such buffers, and withholds the results. What a backend
tells in numbers is checked before it is used. An operator's own functions are asked here as well: for its baseline,
for the bounds of its outputs, for the rows that it owns; an exception or an answer that does not fit becomes an error
with file and line.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import HarnessError, repr_short, suggestion
from mluops_gtest.base.files import pieces
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.native.arrays import address_of
from mluops_gtest.base.native.library import native_function
from mluops_gtest.base.text import cut_text
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Handle, OpCall, Params, TensorArg
from mluops_gtest.core.case import BUFFER_LIMIT, Case, Expect
from mluops_gtest.core.cause import Overrun
from mluops_gtest.core.declaration import Baseline, Bound, OutputSpec
from mluops_gtest.core.operator import Operator, T, call_operator_function, refuse_by_operator
from mluops_gtest.core.tensor import Array, DType, Tensor, TensorDesc

# On either side of a buffer; the pattern differs from every poison.
GUARD_BYTES: Final = 1024
GUARD_PATTERN: Final = 0x5C


_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64


def native_first_difference(left: Array, right: Array) -> int | None:
    """The offset of the first byte that differs between two contiguous arrays of one size; −1 where none does."""
    find = native_function("first_difference", _NUMBER, _POINTER, _POINTER, _NUMBER)
    return None if find is None else int(find(address_of(left), address_of(right), left.nbytes))


def native_count_holding(cells: Array, pattern: Array) -> int | None:
    """How many cells of a contiguous array have the bits of the one in `pattern`."""
    count = native_function("count_holding", _NUMBER, _POINTER, _NUMBER, _POINTER, ctypes.c_int)
    size = pattern.itemsize
    return None if count is None else int(count(address_of(cells), cells.nbytes // size, address_of(pattern), size))


# The slab of an earlier, larger case goes on behind the last buffer. Bytes of it that are looked at, too: a fixed
# number costs 7 µs whatever ran before. Punching a hole there and asking for data in it (SEEK_DATA) would see all of
# it, but measured 20 ms for the hole and 100 ms to fill the pages again where cases of 64 MiB and of 4 KiB alternate.
TAIL_BYTES = 64 << 10
_ALIGNMENT = 64
_BLOCK = 1 << 20
_SMALL = 1 << 14  # bytes below which copying to bytes beats two numpy calls
_GUARD = np.full(GUARD_BYTES + _ALIGNMENT + TAIL_BYTES, GUARD_PATTERN, np.uint8)
_GUARDED = _GUARD.tobytes()


class Side(Enum):
    """Where inaccessible pages lie flush against every buffer."""

    BEHIND = "behind"
    IN_FRONT = "in front of"


class BufferSpec(Value):
    """A buffer that a call needs; `alignment` is what its address must be a multiple of wherever it lies."""

    name: str
    size: int
    itemsize: int = 1
    alignment: int = 1


class Buffer(Value):
    """`data` between two guard zones, all parts of one slab."""

    before: Array
    data: Array
    after: Array

    def guard(self) -> None:
        """Both zones get their pattern."""
        self.before[:] = _GUARD[: self.before.size]
        self.after[:] = _GUARD[: self.after.size]

    def overrun(self, name: str) -> Overrun | None:
        """Where a guard zone of the buffer of that name was written; None when both are intact."""
        # Somebody may be writing: what differs at one moment may not at the next.
        if not _GUARDED.startswith(self.after.data) and (places := np.flatnonzero(self.after != GUARD_PATTERN)).size:
            return Overrun(name, "behind", int(places[0]) + 1)
        if not _GUARDED.startswith(self.before.data) and (places := np.flatnonzero(self.before != GUARD_PATTERN)).size:
            return Overrun(name, "in front", self.before.size - int(places[-1]))
        return None


class Arena:
    """One slab, reused from case to case: the first touch of fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._slab: Array = np.empty(0, np.uint8)
        # Where the slab lies, and where in it the first aligned byte is.
        self._address = self._start = 0

    def allocate(self, wanted: Sequence[BufferSpec], side: Side | None = None) -> dict[str, Buffer]:
        """Aligned buffers with fresh guard zones and undefined contents; all earlier ones are forgotten."""
        assert side is None, "this memory has no pages that are inaccessible"
        self._reserve(_ALIGNMENT + sum(_stride(one.size) for one in wanted) + TAIL_BYTES)
        start = self._start
        buffers = {}
        for number, one in enumerate(wanted, 1):
            first, end = start + GUARD_BYTES, start + GUARD_BYTES + one.size
            start += _stride(one.size)
            limit = start + TAIL_BYTES if number == len(wanted) else start
            buffer = Buffer(self._slab[first - GUARD_BYTES : first], self._slab[first:end], self._slab[end:limit])
            buffer.guard()
            buffers[one.name] = buffer
        return buffers

    def _reserve(self, size: int) -> None:
        """A slab of at least that size."""
        if size > self._slab.size:
            self._slab = np.empty(0, np.uint8)  # freed before the larger one is taken
            self._slab = self._new_slab(size)
            self._address = address_of(self._slab)
            self._start = -self._address % _ALIGNMENT

    def _new_slab(self, size: int) -> Array:
        """A slab of that size; an arena that is shared between processes takes it elsewhere."""
        return np.empty(size, np.uint8)

    def offset_of(self, array: Array) -> int:
        """Where in the slab an array of this arena begins."""
        return int(array.ctypes.data) - self._address if array.size else 0


def _stride(size: int) -> int:
    """From the start of one buffer's front zone to the next one's."""
    used = 2 * GUARD_BYTES + size
    return used + -used % _ALIGNMENT


@cache
def pattern_of(dtype: DType, preset: int | None) -> Array:
    """One element's bits before the call: the preset value, else the dtype's poison."""
    if preset is not None:
        # A faulty call may give the output a type that does not hold it.
        return np.array([preset]).astype(dtype.storage).view(_cell(dtype))
    return np.frombuffer(dtype.poison, _cell(dtype))


def fill(data: Array, pattern: Array) -> None:
    """Every element of the buffer gets the pattern."""
    data.view(pattern.dtype)[:] = pattern[0]


def whole_buffer(arg: TensorArg, array: Array) -> Array:
    """The flat buffer behind the tensor's array, the gaps between strided elements included."""
    if arg.desc.is_strided:
        return np.lib.stride_tricks.as_strided(array, (arg.desc.extent,), (arg.dtype.itemsize,))
    return np.ascontiguousarray(array).reshape(-1)


def gaps_touched(data: Array, desc: TensorDesc, pattern: Array) -> Array:
    """The places in a strided tensor's buffer that belong to no element and no longer hold the pattern."""
    touched = data.view(pattern.dtype) != pattern[0]
    desc.view(touched)[...] = False
    return np.flatnonzero(touched)


def places_holding(values: Array, pattern: Array) -> Array:
    """The flat indices of the elements that still hold the pattern."""
    cells = _cells(values, pattern)
    # Almost always there are none: to know that takes one read, without a mask.
    if cells.nbytes > _SMALL and native_count_holding(cells, pattern) == 0:
        return np.zeros(0, np.int64)
    return np.flatnonzero(cells == pattern[0])


def places_touched(values: Array, pattern: Array) -> Array:
    """The flat indices of the elements that no longer hold it."""
    cells = _cells(values, pattern)
    if cells.nbytes > _SMALL and native_count_holding(cells, pattern) == cells.size:
        return np.zeros(0, np.int64)
    return np.flatnonzero(cells != pattern[0])


def places_changed(values: Array, before: Array, dtype: DType) -> Array:
    """The flat indices of the elements whose bits are not those of before."""
    left, right = (np.ascontiguousarray(array).reshape(-1).view(_cell(dtype)) for array in (values, before))
    return np.flatnonzero(left != right)


def first_difference(left: Array, right: Array) -> int | None:
    """The offset of the first byte that differs between two byte arrays of one size."""
    if left.size <= _SMALL and left.tobytes() == right.tobytes():
        return None
    for place, piece in pieces(right):
        offset = _difference_in_piece(left[place], piece)
        if offset is not None:
            return int(place.start) + offset
    return None


def _difference_in_piece(left: Array, right: Array) -> int | None:
    found = native_first_difference(left, right)
    if found is not None:
        return found if found >= 0 else None
    for start in range(0, left.size, _BLOCK):
        places = np.flatnonzero(left[start : start + _BLOCK] != right[start : start + _BLOCK])
        if places.size:
            return start + int(places[0])
    return None


def _cells(values: Array, pattern: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(pattern.dtype)


def _cell(dtype: DType) -> "np.dtype[np.generic]":
    return dtype.bits if dtype.itemsize <= 8 else np.dtype(f"V{dtype.itemsize}")


# Longer than anybody waits for a call.
MAX_SECONDS: Final = 1e6
_MAX_BITS: Final = 256
_MAX_LETTERS: Final = 200


def checked_seconds(what: str, value: Any, most: float = MAX_SECONDS) -> float:
    """A time as a float, or an error that says what came instead; nothing takes longer than `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} {short(value)}; it must be a number of seconds.")
    # Compared before it is converted: an int may be too large for a float. NaN is in no order.
    if not 0 <= value <= most:
        raise ValueError(f"{what} {short(value)}; it must be a number of seconds from 0 to {most:g}.")
    return float(value)


def short(value: Any) -> str:
    """A value in few letters, however large it is."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"an int of {value.bit_length()} bits"
    return cut_text(repr(value), _MAX_LETTERS)


def baseline_of(operator: Operator, call: OpCall) -> Baseline:
    """The reference's answer: exactly the declared outputs, in the types that the call wants, and every result."""
    return call_operator_function(
        operator.reference,
        f"the reference of {operator.name}",
        lambda: operator.reference(call),
        mistake_in=partial(_mistake, operator, call),
    )


def _mistake(operator: Operator, call: OpCall, baseline: object) -> str | None:
    if not isinstance(baseline, Baseline):
        return f"returns {repr_short(baseline)}. Let it return Baseline({{output: array}}, {{result: number}})."
    parts = (
        ("output", baseline.outputs, tuple(spec.id for spec in operator.outputs)),
        ("scalar result", baseline.scalars, operator.results),
    )
    for kind, given, wanted in parts:
        for name in given:
            if name not in wanted:
                return f"returns the {kind} {name!r}, which the operator does not declare.{suggestion(name, wanted)}"
        for name in wanted:
            if name not in given:
                return f"does not return the {kind} {name!r}. Add it to the Baseline."
    for name, array in baseline.outputs.items():
        desc = None if (argument := call.outputs.get(name)) is None else argument.desc
        if not isinstance(array, np.ndarray):
            return f"returns {repr_short(array)} as {name!r}. Return a numpy array."
        if desc is not None and array.dtype != desc.dtype.storage:
            return (
                f"returns {name!r} as {array.dtype}, the call wants {desc.dtype.value}. Round once at the end, by "
                f".astype(call.tensor({name!r}).dtype.storage); `criteria` of the OutputSpec lists its types."
            )
    for name, number in baseline.scalars.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            return f"returns {repr_short(number)} as the result {name!r}. Return an int."
    return None


def ask_about_call(operator: Operator, function: object, ask: Callable[[OpCall], T], call: OpCall, which: str) -> T:
    """What `ask` says of the call, which is `which` in words; `function` is where the operator's code is."""
    advice = (
        "Checks answer every call, in their order; the precondition and the reference every call that they let pass."
    )
    refuse = refuse_by_operator(function, f"{operator.name} fails on {which}", advice, unless=(HarnessError,))
    return call_operator_function(function, operator.name, lambda: ask(call), refuse)


def row_counts(operator: Operator, outputs: Iterable[Tensor], results: Mapping[str, int]) -> dict[str, int]:
    """What says how many rows are owned: the scalar results, and the right values of outputs that count."""
    counting = (tensor for tensor in outputs if tensor.id in operator.counts and tensor.data is not None)
    return {**results, **{tensor.id: int(tensor.values.reshape(-1)[0]) for tensor in counting}}


def owned_rows(spec: OutputSpec, counts: Mapping[str, int]) -> int | None:
    """How many leading rows the operator owns; None: all."""
    return None if spec.rows_owned is None else counts.get(spec.rows_owned)


def is_constant_baseline(tensor: Tensor, operator: Operator, counts: Mapping[str, int]) -> bool:
    """What the operator owns of this baseline is constant; what is one number by its nature is never called so."""
    if tensor.id in operator.numbers:
        return False
    values = tensor.values[: owned_rows(operator.output(tensor.id), counts)].reshape(-1)
    # No element is not called constant.
    if values.size == 0:
        return False
    bits = values.view(f"V{values.itemsize}") if values.itemsize > 8 else values.view(f"u{values.itemsize}")
    # The last element settles almost every array without looking at the rest.
    return bool(bits[-1] == bits[0] and (bits == bits[0]).all())


# A zero of any type.
_ZERO: Final = bytes(16)


def bind(
    case: Case,
    operator: Operator,
    inputs: Mapping[str, Array | None],
    outputs: Mapping[str, Array | None],
    workspace: Array | None = None,
    workspace_size: int = 0,
) -> OpCall:
    """The call of this case with these buffers: nulls and handle as the case asks, results withheld."""
    expect = case.expect
    # 0 is a value, too: no device is older, none has less memory.
    arch = DEFAULT_ARCH if expect.arch is None else expect.arch
    nram_bytes = DEFAULT_NRAM_BYTES if expect.nram_bytes is None else expect.nram_bytes
    handle = Handle(arch, nram_bytes)
    given = (tensor for tensor in case.inputs if not tensor.becomes)
    return OpCall(
        operator=case.operator,
        params=_visible_params(case, operator),
        # None for one that the case lacks.
        inputs={**dict.fromkeys(spec.id for spec in operator.arguments), **_arguments(case, given, inputs)},
        outputs=_arguments(case, case.outputs, outputs),
        handle=None if expect.null_handle else handle,
        workspace=None if "workspace" in expect.null_pointer else workspace,
        workspace_size=workspace_size if expect.workspace_size is None else expect.workspace_size,
        size_null="size" in expect.null_pointer,
    )


def bind_values(case: Case, operator: Operator) -> OpCall:
    """The call with the case's input values; outputs and workspace exist on paper only: for checks and references."""
    paper = {tensor.id: _on_paper(tensor.desc) for tensor in case.outputs if not tensor.desc.is_large}
    values = {tensor.id: tensor.values if tensor.data is not None else None for tensor in case.inputs}
    paper |= {tensor.becomes: tensor.values for tensor in case.inputs if tensor.becomes and tensor.data is not None}
    return bind(case, operator, values, paper, workspace=np.empty(0, np.uint8))


def _on_paper(desc: TensorDesc) -> Array:
    """Zeros that are one zero, read only: as np.broadcast_to makes them, at a tenth of its price."""
    return np.ndarray(desc.dims, desc.dtype.storage, _ZERO, strides=(0,) * len(desc.dims))


def expected_results(case: Case, operator: Operator) -> dict[str, int]:
    """The scalar results that the case stores, e.g. num_act_out; those it does not store are absent."""
    return {name: value for name in operator.results if isinstance(value := case.params.get(name), int)}


def has_buffer(case: Case, tensor: Tensor) -> bool:
    """The tensor gets a buffer."""
    return gets_buffer(case.expect, tensor.desc, has_values=tensor.data is not None)


def gets_buffer(expect: Expect, desc: TensorDesc, *, has_values: bool) -> bool:
    """In a case that expects a status a large tensor without values is a descriptor alone."""
    if desc.is_large:
        return False
    special = expect.check is not None or expect.status != 0
    return has_values or not special or desc.nbytes <= BUFFER_LIMIT


def _arguments(
    case: Case, tensors: Iterable[Tensor], arrays: Mapping[str, Array | None]
) -> dict[str, TensorArg | None]:
    expect = case.expect
    arguments: dict[str, TensorArg | None] = {}
    for tensor in tensors:
        null = tensor.id in expect.null_pointer
        array = None if null else arrays.get(tensor.id)
        absent = tensor.id in expect.null_descriptor
        arguments[tensor.id] = None if absent else TensorArg(tensor.desc, array, null)
    return arguments


def _visible_params(case: Case, operator: Operator) -> Params | None:
    if operator.params_descriptor in case.expect.null_descriptor:
        return None
    return {
        name: None if name in case.expect.null_pointer else value
        for name, value in case.params.items()
        if name not in operator.results
    }


# The bounds of a case: computed, or kept from an earlier run.
BoundSource = Callable[[Case, Operator], Mapping[str, Bound]]


def bounds_of(operator: Operator, call: OpCall) -> Mapping[str, Bound]:
    """The bound of every output that has one in a call that computes; none for an operator that declares nothing."""
    bound, what = operator.bound, f"the bound of {operator.name}"
    if bound is None:
        return {}
    advice = "It must give a bound wherever the reference gives a baseline."
    refuse = refuse_by_operator(bound, f"{what} fails", advice, unless=(MemoryError,))
    return call_operator_function(bound, what, lambda: bound(call), refuse, partial(mistake_in, operator, call))


def computed_bounds(case: Case, operator: Operator) -> Mapping[str, Bound]:
    """The bounds of a case, from its inputs."""
    return bounds_of(operator, bind_values(case, operator))


def mistake_in(operator: Operator, call: OpCall, bounds: object) -> str | None:
    """What bounds lack to fit the outputs of the call, in words; None where they fit."""
    if not isinstance(bounds, Mapping):
        return f"returns {repr_short(bounds)}. Let it return {{output: Bound(magnitude, roundings)}}."
    outputs = tuple(spec.id for spec in operator.outputs)
    for name, bound in bounds.items():
        if name not in outputs:
            return f"names the output {name!r}, which the operator does not declare.{suggestion(name, outputs)}"
        if not isinstance(bound, Bound):
            return f"gives {repr_short(bound)} for {name!r}. Give a Bound."
        dims = call.tensor(name).dims
        for part in ("magnitude", "roundings", "unit"):
            shape = np.shape(getattr(bound, part))
            if not _broadcasts(shape, dims):
                return (
                    f"has a {part} of the shape {list(shape)} for {name!r}, whose shape is {list(dims)}. "
                    "Give a number, or an array with that shape or with 1 on axes that do not matter."
                )
    return None


def _broadcasts(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, dims) == dims
    except ValueError:
        return False
