"""What can be wrong with a call: every way to break its nulls, types, layouts, ranks, lengths, strides and parameters.

A kind changes a call in one way and never chooses: the same call gives the same change.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations
from typing import Any, Final

from msgspec.structs import replace

from mluops_gtest.catalog.make import changed
from mluops_gtest.catalog.number_ranges import MOST_ENTRIES, kinds_along, ranges_of
from mluops_gtest.catalog.violations import NULL, STRIDED, Apply, Kind, broken_checks
from mluops_gtest.core.call import OLDEST_ARCH, ParamValue, Space
from mluops_gtest.core.case import Case, Change
from mluops_gtest.core.declaration import OutputSpec, ParamField, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import LARGE_ELEMENTS, DType, Layout, Tensor, TensorDesc, contiguous

Spec = TensorSpec | OutputSpec

# Devices that documents name: of numbers between them nobody says what they are.
_ARCHES: Final = (200, 220, 270, 290, OLDEST_ARCH)
_WORKSPACE_BYTES: Final = 16
_FLOATS: Final = {
    "0": 0.0,
    "minus_0": -0.0,
    "below_0": -(2.0**-30),
    "minus_1": -1.0,
    "nan": math.nan,
    "inf": math.inf,
    "minus_inf": -math.inf,
}


def kinds_of(operator: Operator, base: Case, space: Space | None = None) -> tuple[Kind, ...]:
    """Every kind for every tensor, parameter and symbol; those of one tensor come before those that change many.

    The space says what goes in step with a symbol, and which calls are none.
    """
    kinds = [
        *_of_caller(operator, base),
        *(kind for one in base.tensors for kind in _of_tensor(operator.tensor(one.id), one, operator, base)),
        *_of_alike_tensors(operator, base),
        *(kind for one in operator.param_fields for kind in _of_float(one, operator, base)),
        *(kind for one in operator.param_fields for kind in _of_product(one, base.params.get(one.name))),
    ]
    for numbers in ranges_of(operator, base, space):
        kinds += kinds_along(numbers, operator, base, None if space is None else space.defined)
    return tuple({kind.slug: kind for kind in reversed(kinds)}.values())[::-1]


def _of_caller(operator: Operator, base: Case) -> Iterator[Kind]:
    """Null pointers of all kinds, and devices."""

    def with_caller(case: Case, **fields: Any) -> Case:
        return replace(case, expect=replace(case.expect, **fields))

    def without(case: Case, where: str, name: str, **fields: Any) -> Case | None:
        if name in operator.optional and not case.has(name):
            return None
        names = tuple(sorted({*getattr(case.expect, where), name}))
        return with_caller(case, **{where: names}, **fields)

    yield Kind("handle", "null", NULL, partial(with_caller, null_handle=True))
    descriptor = operator.params_descriptor
    if descriptor is not None:
        yield Kind(descriptor, "null", NULL, partial(without, where="null_descriptor", name=descriptor))
    for tensor in base.tensors:
        yield Kind(tensor.id, "desc_null", NULL, partial(without, where="null_descriptor", name=tensor.id))
        yield Kind(tensor.id, "ptr_null", NULL, partial(without, where="null_pointer", name=tensor.id))
    for one in operator.param_fields:
        if one.label == "repeated" and not one.result:
            yield Kind(one.name, "array_null", NULL, partial(without, where="null_pointer", name=one.name))
    workspace = partial(without, where="null_pointer", name="workspace", workspace_size=_WORKSPACE_BYTES)
    yield Kind("workspace", "null", NULL, workspace)
    for arch in _ARCHES:
        yield Kind("arch", str(arch), "device", partial(with_caller, arch=arch))


def _of_tensor(spec: Spec, tensor: Tensor, operator: Operator, base: Case) -> Iterator[Kind]:
    name = spec.id
    yield Kind(name, "rank_more", "rank", _changing(_one_axis_more, name))
    yield Kind(name, "rank_less", "rank", _changing(_one_axis_less, name))
    for dtype in _other_dtypes(spec, tensor.desc.dtype):
        yield Kind(name, f"dtype_{dtype.value}", "dtype", _changing(Change(dtype=dtype.value), name))
    yield from _of_layout(spec, tensor, operator, base)
    for one, other in combinations(range(len(tensor.desc.dims)), 2):
        if tensor.desc.dims[one] != tensor.desc.dims[other]:
            exchange = partial(_exchange, one=one, other=other)
            yield Kind(name, f"dim{one}_dim{other}_exchanged", "dim", _changing(exchange, name))
    for what, strides_of in _STRIDES.items():
        yield Kind(name, f"strided_{what}", STRIDED, _changing(partial(_strided, strides_of=strides_of), name))
    # Where some strides are legal they may be too large.
    apart = _changing(partial(_strided, strides_of=_STRIDES["step"]), name)(base)
    if apart is not None and f"{name}_strided" not in {check.name for check in broken_checks(operator, apart)}:
        yield Kind(name, "strided_far", STRIDED, _changing(partial(_strided, strides_of=_far_apart), name))


def _changing(change: Change | Callable[[Tensor], Change | None], *names: str) -> Apply:
    """Gives these tensors the change, or what it is for each of them."""

    def apply(case: Case) -> Case | None:
        if not all(map(case.has, names)):
            return None
        changes = {name: change if isinstance(change, Change) else change(case.tensor(name)) for name in names}
        fitting = {name: one for name, one in changes.items() if one is not None}
        return changed(case, fitting, {}) if len(fitting) == len(names) else None

    return apply


def _one_axis_more(tensor: Tensor) -> Change:
    return Change(dims=(*tensor.desc.dims, 1))


def _one_axis_less(tensor: Tensor) -> Change | None:
    """The first two axes become one: as many elements as before."""
    dims = tensor.desc.dims
    return Change(dims=(dims[0] * dims[1], *dims[2:]) if len(dims) > 1 else ()) if dims else None


def _exchange(tensor: Tensor, one: int, other: int) -> Change | None:
    dims = list(tensor.desc.dims)
    if other >= len(dims):
        return None
    dims[one], dims[other] = dims[other], dims[one]
    return Change(dims=tuple(dims))


def _other_dtypes(spec: Spec, own: DType) -> Iterator[DType]:
    """One of the same width, one of the same kind, one of another kind; and those that other calls may have."""
    usual = [DType.INT32, DType.FLOAT, DType.INT64, DType.DOUBLE, DType.HALF, DType.INT16, DType.INT8]
    wrong = [dtype for dtype in usual if dtype not in spec.dtypes]
    same_kind = [dtype for dtype in wrong if dtype.is_float == own.is_float]
    other_kind = [dtype for dtype in wrong if dtype.is_float != own.is_float]
    same_width = [dtype for dtype in wrong if dtype.itemsize == own.itemsize]
    chosen = [dtype for dtype in spec.dtypes if dtype is not own]
    for candidates in (same_width, same_kind, other_kind):
        chosen += [dtype for dtype in candidates if dtype not in chosen][:1]
    yield from dict.fromkeys(chosen)


def _of_layout(spec: Spec, tensor: Tensor, operator: Operator, base: Case) -> Iterator[Kind]:
    """Layouts that some check looks at: two that no call may have, and those that do not fit this one."""
    if spec.layouts is None:
        return
    wrong = [layout for layout in Layout if layout not in spec.layouts]
    for layout in (*wrong[:2], *(one for one in spec.layouts if one is not tensor.desc.layout)):
        apply = _changing(Change(layout=layout.value), spec.id)
        case = apply(base)
        if case is not None and broken_checks(operator, case):
            yield Kind(spec.id, f"layout_{layout.value}", "layout", apply)


_Dims = tuple[int, ...]


def _strides_of_copies(dims: _Dims) -> _Dims:
    first = next((axis for axis, length in enumerate(dims) if length != 1), 0)
    return tuple(0 if axis == first else stride for axis, stride in enumerate(contiguous(dims)))


def _far_apart(dims: _Dims) -> _Dims:
    """2^31 elements from the first to the last row that there is."""
    first = next((axis for axis, length in enumerate(dims) if length != 1), 0)
    return tuple(LARGE_ELEMENTS if axis == first else stride for axis, stride in enumerate(contiguous(dims)))


_STRIDES: Final[Mapping[str, Callable[[_Dims], _Dims]]] = {
    "gap": lambda dims: contiguous((*dims[:-1], dims[-1] + 1)) if len(dims) > 1 else (2,),
    "turned": lambda dims: contiguous(dims[::-1])[::-1],
    "step": lambda dims: tuple(2 * stride for stride in contiguous(dims)),
    "copies": _strides_of_copies,
}


def _strided(tensor: Tensor, strides_of: Callable[[_Dims], _Dims]) -> Change | None:
    """The strides; a single element gets a neighbour first."""
    dims = tensor.desc.dims
    if not dims or tensor.desc.is_empty:
        return None
    if math.prod(dims) == 1:
        dims = (*dims[:-1], 2)
    strides = strides_of(dims)
    if not TensorDesc(tensor.desc.dtype, tensor.desc.layout, dims, strides).is_strided:
        return None
    return Change(dims=dims if dims != tensor.desc.dims else None, strides=strides)


def _of_alike_tensors(operator: Operator, base: Case) -> Iterator[Kind]:
    """Tensors that have a type or a shape in common, changed alike."""
    given = [operator.tensor(tensor.id) for tensor in base.tensors]
    for _, names in _groups({spec.id: frozenset(spec.dtypes) for spec in given}):
        first = operator.tensor(names[0])
        for dtype in _other_dtypes(first, base.tensor(names[0]).desc.dtype):
            apply = _changing(Change(dtype=dtype.value), *names)
            yield Kind("_and_".join(names), f"dtype_{dtype.value}", "dtype", apply)
    for _, names in _groups({spec.id: spec.shape for spec in given}):
        for what, change in (("rank_more", _one_axis_more), ("rank_less", _one_axis_less)):
            yield Kind("_and_".join(names), what, "rank", _changing(change, *names))
        for what, strides_of in _STRIDES.items():
            apply = _changing(partial(_strided, strides_of=strides_of), *names)
            case = apply(base)
            # Strides that are right together alone.
            if case is not None and not broken_checks(operator, case):
                yield Kind("_and_".join(names), f"strided_{what}", STRIDED, apply)


def _groups(values: Mapping[str, Any]) -> Iterator[tuple[Any, list[str]]]:
    """The names that have a value in common, with it."""
    for value in dict.fromkeys(values.values()):
        names = [name for name, own in values.items() if own == value]
        if len(names) > 1:
            yield value, names


def _of_float(one: ParamField, operator: Operator, base: Case) -> Iterator[Kind]:
    """Numbers beyond every limit, and those that are still valid where a check refuses others."""
    if one.type not in ("float", "double") or one.label == "repeated" or one.result:
        return
    kinds = [
        Kind(one.name, what, "param", partial(_put_param, name=one.name, value=to)) for what, to in _FLOATS.items()
    ]
    broken = [{check.name for check in broken_checks(operator, kind.apply(base) or base)} for kind in kinds]
    checks = frozenset().union(*broken)
    for kind, own in zip(kinds, broken, strict=True):
        is_valid = not own and bool(checks)
        yield replace(kind, limit_of=checks, is_valid=True, what=f"{kind.what}_limit") if is_valid else kind


def _of_product(one: ParamField, value: ParamValue) -> Iterator[Kind]:
    """Two entries of a short array, negated: their product stays what it is."""
    if one.result or not isinstance(value, tuple) or not all(type(entry) is int for entry in value):
        return
    for places in combinations(range(len(value)) if len(value) <= MOST_ENTRIES else (), 2):
        negated = tuple(-int(entry) if at in places else entry for at, entry in enumerate(value))
        put = partial(_put_param, name=one.name, value=negated)
        yield Kind(f"{one.name}_{places[0]}_{places[1]}", "negated", "param", put)


def _put_param(case: Case, *, name: str, value: ParamValue) -> Case:
    return changed(case, {}, {name: value})
