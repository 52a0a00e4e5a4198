"""What can be wrong with a call of any operator: nulls, types, layouts, ranks, lengths, strides, parameters, handle.

A fault changes the call alone; what must come back is told by the operator's ordered checks. Some faults leave a call
that is right, or right but for another one: just valid and just invalid lie beside each other.
"""

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final
from zlib import crc32

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import changed
from mluops_gtest.catalog.number_ranges import Symbol
from mluops_gtest.core.call import DEFAULT_ARCH, OLDEST_ARCH, Space
from mluops_gtest.core.case import Case, Change
from mluops_gtest.core.declaration import OutputSpec, ParamField, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import readable_shape
from mluops_gtest.core.tensor import LARGE_ELEMENTS, Layout, Tensor, contiguous

# The call with the fault; None where it cannot have it.
Apply = Callable[[Case, Random], Case | None]

STRIDES: Final = "strides"
# Of lengths that are too large, too small or none: checks of them often tell only where one meets another.
SIZE_KINDS: Final = frozenset({"empty", "large", "limit"})
_DTYPES: Final = ("half", "float", "double", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool")
_LAYOUTS: Final = tuple(layout.value for layout in Layout)
# Tensors of one call that get a type in common.
_ALIKE: Final = 0.7
# Devices that documents name: of numbers between them nobody says what they are.
_ARCHES: Final = (200, 220, 270, 290, OLDEST_ARCH, DEFAULT_ARCH)
_NRAM_BYTES: Final = (0, 16, 256, 4096)
_WORKSPACE_BYTES: Final = (1, 16, 4096)
_MAX_VALUE: Final = {"int64": 2**31, "int32": 2**31 - 1}
_FLOATS: Final = (0.0, -0.0, -1.0, -(2.0**-149), math.nan, math.inf, -math.inf, 2.0**127)


class Fault(Value):
    """One thing that is wrong with a call; faults of one kind are alike for kernels."""

    name: str
    kind: str
    apply: Apply
    # It changes every tensor that has a size.
    everywhere: bool = False


def faults_of(operator: Operator, space: Space) -> dict[str, Fault]:
    """Every fault that a call of the operator may have, by name; the space tells its limits and what goes in step."""
    found = [
        *_of_caller(operator),
        *(fault for spec in operator.tensors for fault in _of_tensor(spec)),
        *_of_all_tensors(operator),
        *_of_symbols(operator, space),
        *(fault for field in operator.param_fields if not field.result for fault in _of_param(field)),
    ]
    named = {fault.name: fault for fault in found}
    assert len(named) == len(found), "every fault has a name of its own"
    return named


def _of_caller(operator: Operator) -> Iterator[Fault]:
    """Null pointers of all kinds, and devices."""

    def caller(name: str, kind: str, change: Callable[[Case, Random], dict[str, Any]]) -> Fault:
        return Fault(name, kind, lambda case, rng: replace(case, expect=replace(case.expect, **change(case, rng))))

    def absent(field: str, name: str) -> Callable[[Case, Random], dict[str, Any]]:
        return lambda case, _rng: {field: tuple(dict.fromkeys((*getattr(case.expect, field), name)))}

    yield caller("null handle", "null", lambda _case, _rng: {"null_handle": True})
    yield caller("arch", "device", lambda _case, rng: {"arch": rng.choice(_ARCHES)})
    yield caller("nram", "device", lambda _case, rng: {"nram_bytes": rng.choice(_NRAM_BYTES)})
    for name in [spec.id for spec in operator.tensors]:
        yield caller(f"null descriptor of {name}", "null", absent("null_descriptor", name))
        yield caller(f"null pointer of {name}", "null", absent("null_pointer", name))
    if operator.params_descriptor is not None:
        yield caller("null descriptor of the parameters", "null", absent("null_descriptor", operator.params_descriptor))
    for name in [field.name for field in operator.param_fields if field.label == "repeated"]:
        yield caller(f"null pointer of {name}", "null", absent("null_pointer", name))
    yield caller(
        "null workspace",
        "null",
        lambda case, rng: {
            "null_pointer": tuple(dict.fromkeys((*case.expect.null_pointer, "workspace"))),
            "workspace_size": rng.choice(_WORKSPACE_BYTES),
        },
    )


def _of_tensor(spec: TensorSpec | OutputSpec) -> Iterator[Fault]:
    name = spec.id
    yield Fault(f"{name}: dtype", "dtype", _retyping(name, _DTYPES))
    if len(spec.dtypes) > 1:
        # Right for this tensor, though not beside the others.
        allowed = tuple(dtype.value for dtype in spec.dtypes)
        yield Fault(f"{name}: allowed dtype", "dtype", _retyping(name, allowed))
    for what, kind, change in (
        ("layout", "layout", _other_layout),
        ("strides", STRIDES, _strided),
        ("rank + 1", "rank", _one_axis_more),
        ("rank − 1", "rank", _one_axis_less),
    ):
        yield Fault(f"{name}: {what}", kind, _changing(name, change))
    for axis in range(max((len(form.axes) for form in readable_shape(spec.shape).forms), default=0)):
        for what, kind, length in (
            ("+ 1", "dim", lambda n: n + 1),
            ("− 1", "dim", lambda n: max(n - 1, 0)),
            ("0", "empty", lambda _n: 0),
            ("2^31", "large", lambda _n: LARGE_ELEMENTS),
        ):
            yield Fault(f"{name}: dim {axis} {what}", kind, _changing(name, _resizing(axis, length)))


def _changing(name: str, change: Callable[[Tensor, Random], Change | None]) -> Apply:
    def apply(case: Case, rng: Random) -> Case | None:
        made = change(case.tensor(name), rng)
        return None if made is None else changed(case, {name: made}, {})

    return apply


def _retyping(name: str, types: tuple[str, ...]) -> Apply:
    """Another of the types; several tensors of a call often get the same: what must agree is often wrong together."""

    def apply(case: Case, rng: Random) -> Case:
        others = [word for word in types if word != case.tensor(name).desc.dtype.value]
        favourite = types[crc32(case.id.encode()) % len(types)]
        chosen = favourite if favourite in others and rng.random() < _ALIKE else rng.choice(others)
        return changed(case, {name: Change(dtype=chosen)}, {})

    return apply


def _other_layout(tensor: Tensor, rng: Random) -> Change:
    return Change(layout=rng.choice([word for word in _LAYOUTS if word != tensor.desc.layout.value]))


def _strided(tensor: Tensor, rng: Random) -> Change | None:
    """Rows with a gap between them, or the axes in another order; a single element gets a neighbour."""
    dims = tensor.desc.dims
    if not dims or tensor.desc.is_empty or tensor.desc.is_large:
        return None
    if math.prod(dims) == 1:
        return Change(dims=(*dims[:-1], 2), strides=(*((4,) * (len(dims) - 1)), 2))
    gap = contiguous((*dims[:-1], dims[-1] + 1)) if len(dims) > 1 else (2,)
    turned = tuple(reversed(contiguous(tuple(reversed(dims)))))
    return Change(strides=rng.choice((gap, turned)))


def _one_axis_more(tensor: Tensor, rng: Random) -> Change:
    dims = tensor.desc.dims
    return Change(dims=rng.choice(((*dims, 1), (1, *dims))))


def _one_axis_less(tensor: Tensor, rng: Random) -> Change:
    dims = tensor.desc.dims
    return Change(dims=rng.choice((dims[:-1], dims[1:])))


def _resizing(axis: int, length: Callable[[int], int]) -> Callable[[Tensor, Random], Change | None]:
    def change(tensor: Tensor, _rng: Random) -> Change | None:
        dims = tensor.desc.dims
        return None if axis >= len(dims) else Change(dims=(*dims[:axis], length(dims[axis]), *dims[axis + 1 :]))

    return change


def _of_all_tensors(operator: Operator) -> Iterator[Fault]:
    """Tensors that must be alike, changed alike."""
    floats = [spec.id for spec in operator.tensors if any(dtype.is_float for dtype in spec.dtypes)]
    integers = [spec.id for spec in operator.tensors if all(dtype.is_integer for dtype in spec.dtypes)]

    def typed(names: list[str]) -> Apply:
        def apply(case: Case, rng: Random) -> Case:
            return changed(case, dict.fromkeys(names, Change(dtype=rng.choice(_DTYPES))), {})

        return apply

    for what, names in (("floats", floats), ("integers", integers)):
        if len(names) > 1:
            yield Fault(f"dtype of all {what}", "dtype", typed(names))


def _of_symbols(operator: Operator, space: Space) -> Iterator[Fault]:
    """A size that tensors and parameters share, changed in all of them."""
    for symbol in dict.fromkeys(factor for spec in operator.tensors for factor in readable_shape(spec.shape).factors):
        if symbol.isdecimal():
            sizes = [("+ 1", "dim", int(symbol) + 1), ("− 1", "dim", int(symbol) - 1)]
        else:
            # 2^14 and 2^17 are large together, where each alone leaves small what has no other size.
            powers = ((f"2^{power}", "large", 1 << power) for power in (14, 17, 30, 31))
            limits = (one for limit in space.limits for one in (limit - 1, limit))
            sizes = [("1", "dim", 1), *powers, *((str(limit), "limit", limit) for limit in limits)]
        for what, kind, size in (("0", "empty", 0), *sizes):
            yield Fault(f"{symbol} everywhere: {what}", kind, _resymbolled(operator, space, symbol, size), True)


def _resymbolled(operator: Operator, space: Space, symbol: str, size: int) -> Apply:
    resize = Symbol(symbol, operator, space.in_step.get(symbol))
    return lambda case, _rng: resize(case, size)


def _of_param(field: ParamField) -> Iterator[Fault]:
    if field.type in ("float", "double"):
        yield Fault(f"{field.name}: other", "param", _setting(field, lambda _value, rng: rng.choice(_FLOATS)))
        yield Fault(f"{field.name}: negative", "param", _setting(field, lambda value, _rng: -value))
    elif field.type == "bool":
        yield Fault(f"{field.name}: not", "param", _setting(field, lambda value, _rng: not value))
    elif field.type != "string":
        most = _MAX_VALUE.get(field.type, _MAX_VALUE["int32"])
        for what, make in (
            ("0", lambda _value, _rng: 0),
            ("−1", lambda _value, _rng: -1),
            ("+ 1", lambda value, _rng: value + 1),
            ("− 1", lambda value, _rng: value - 1),
            ("negative", lambda value, _rng: -value),
            ("small", lambda _value, rng: rng.randint(1, 4)),
            ("most", lambda _value, _rng: most),
            ("least", lambda _value, _rng: -(2**31)),
        ):
            yield Fault(f"{field.name}: {what}", "param", _setting(field, make))


def _setting(field: ParamField, make: Callable[[Any, Random], Any]) -> Apply:
    def apply(case: Case, rng: Random) -> Case | None:
        value = case.params.get(field.name)
        if value is None:
            return None
        if isinstance(value, tuple):
            if not value:
                return None
            # As many as before: a library reads as many as other arguments say.
            places = range(len(value)) if rng.random() < 1 / 4 else [rng.randrange(len(value))]
            new: Any = tuple(make(one, rng) if place in places else one for place, one in enumerate(value))
        else:
            new = make(value, rng)
        return changed(case, {}, {field.name: new})

    return apply
