"""Checks one by one: each function makes named ones, so that a case can ask for exactly that check.

`in_c` says a condition as C libraries make it, for `new c-library`.
"""

import inspect
import itertools
from collections.abc import Callable, Iterable
from functools import partial

from mluops_gtest.core.call import OLDEST_ARCH, OpCall, Status
from mluops_gtest.core.declaration import AskedBy, Check, ParamField
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import Axis, parse_shape
from mluops_gtest.core.tensor import DType, Layout


def require(
    name: str,
    holds: Callable[[OpCall], bool],
    message: str,
    doc: str,
    status: Status = Status.BAD_PARAM,
    subsumed: str | None = None,
    *,
    writes: bool = False,
    asked_by: AskedBy = "both",
    may_clear: tuple[str, ...] = (),
    in_c: str = "",
) -> Check:
    """A check of the operator's own; an early success that `writes` owes what the reference says of the call.

    `in_c` is the condition as `new c-library` writes it, e.g. `samples <= num_experts * capacity`.
    """
    return Check(name, status, holds, message, doc, subsumed, calling_place(), writes, asked_by, may_clear, in_c)


def names_before(first: str, checks: Iterable[Check]) -> tuple[str, ...]:
    """The names of the checks in front of that one: what a workspace query makes of them that sees no data."""
    return tuple(check.name for check in itertools.takewhile(lambda check: check.name != first, checks))


def calling_place() -> str:
    """The line of the operator's file that asks for a check or a group, itself or through a module of this package."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def handle_present(doc: str) -> Check:
    """`handle_null`: the handle is not null."""
    words = "the handle must not be null"
    return require("handle_null", lambda call: call.handle is not None, words, doc, in_c="handle != NULL")


def params_present(descriptor: str, doc: str) -> Check:
    """`<descriptor>_null`: the descriptor that carries the parameters is not null."""
    words, in_c = f"{descriptor} must not be null", f"{descriptor} != NULL"
    return require(f"{descriptor}_null", lambda call: call.params is not None, words, doc, in_c=in_c)


def param_arrays_present(names: Iterable[str], doc: str) -> tuple[Check, ...]:
    """`<name>_array_null` each: the host array behind a repeated parameter is not null."""
    return _require_each(
        names,
        "array_null",
        lambda call, name: call.param(name) is not None,
        "the array {} must not be null",
        doc,
        in_c="{} != NULL",
    )


def descriptors_present(tensors: Iterable[str], doc: str) -> tuple[Check, ...]:
    """`<tensor>_desc_null` each: the descriptor is not null."""

    def holds(call: OpCall, tensor: str) -> bool:
        return (call.inputs if tensor in call.inputs else call.outputs)[tensor] is not None

    return _require_each(
        tensors, "desc_null", holds, "the descriptor of {} must not be null", doc, in_c="{}_desc != NULL"
    )


def _require_each(
    names: Iterable[str],
    suffix: str,
    holds: Callable[[OpCall, str], bool],
    message: str,
    doc: str,
    status: Status = Status.BAD_PARAM,
    *,
    in_c: str = "",
) -> tuple[Check, ...]:
    """A check for each name, for which `{}` stands in the message and in C."""

    def of_one(name: str) -> Check:
        words = message.format(name)
        return require(f"{name}_{suffix}", lambda call: holds(call, name), words, doc, status, in_c=in_c.format(name))

    return tuple(map(of_one, names))


def arch_supported(doc: str) -> Check:
    """`arch`: MLU370 or newer, else ARCH_MISMATCH."""
    return require(
        "arch",
        lambda call: call.handle is not None and call.handle.arch >= OLDEST_ARCH,
        f"the device must be MLU{OLDEST_ARCH} or newer",
        doc,
        Status.ARCH_MISMATCH,
        in_c=f"handle->arch >= {OLDEST_ARCH}",
    )


def rank(tensor: str, ranks: int | tuple[int, ...], doc: str) -> Check:
    """`<tensor>_rank`: the number of axes is one of `ranks`."""
    allowed = (ranks,) if isinstance(ranks, int) else ranks
    words = " or ".join(map(str, allowed))
    return require(
        f"{tensor}_rank",
        lambda call: len(call.tensor(tensor).dims) in allowed,
        f"{tensor} must have rank {words}",
        doc,
        in_c=equals_any(f"{tensor}_desc->rank", allowed),
    )


def equals_any(value: str, allowed: Iterable[object]) -> str:
    """The C of `value in allowed`."""
    return " || ".join(f"{value} == {one}" for one in allowed)


def dim(
    tensor: str, axis: int, wanted: int | Callable[[OpCall], int], message: str, doc: str, length_in_c: str = ""
) -> Check:
    """`<tensor>_dim<axis>`: that axis has the wanted length, a number or one computed from the call."""

    def holds(call: OpCall) -> bool:
        length = wanted if isinstance(wanted, int) else wanted(call)
        return call.tensor(tensor).dims[axis] == length

    length = str(wanted) if isinstance(wanted, int) else length_in_c
    in_c = f"{tensor}_desc->dims[{axis}] == {length}" if length else ""
    return require(f"{tensor}_dim{axis}", holds, message, doc, in_c=in_c)


def dtype(tensor: str, allowed: tuple[DType, ...], doc: str) -> Check:
    """`<tensor>_dtype`: the element type is one of `allowed`."""
    words = " or ".join(d.value for d in allowed)
    numbers = [f"MLUOP_DTYPE_{one.name}" for one in allowed if one.c_number is not None]
    return require(
        f"{tensor}_dtype",
        lambda call: call.tensor(tensor).dtype in allowed,
        f"{tensor} must be {words}",
        doc,
        in_c=equals_any(f"{tensor}_desc->dtype", numbers),
    )


def same_dtype(tensor: str, other: str, doc: str, name: str = "dtype") -> Check:
    """`<tensor>_<name>`: the element type is that of another tensor."""
    return require(
        f"{tensor}_{name}",
        lambda call: call.tensor(tensor).dtype is call.tensor(other).dtype,
        f"{tensor} must have the element type of {other}",
        doc,
        in_c=f"{tensor}_desc->dtype == {other}_desc->dtype",
    )


def layout(tensor: str, allowed: tuple[Layout, ...], doc: str) -> Check:
    """`<tensor>_layout`: the layout is one of `allowed`."""
    words = " or ".join(value.value for value in allowed)
    return require(
        f"{tensor}_layout",
        lambda call: call.tensor(tensor).layout in allowed,
        f"{tensor} must be laid out {words}",
        doc,
        in_c=equals_any(f"{tensor}_desc->layout", (f"MLUOP_LAYOUT_{one.name}" for one in allowed)),
    )


def contiguous(tensors: Iterable[str], doc: str) -> tuple[Check, ...]:
    """`<tensor>_strided` each: strides other than the contiguous ones are NOT_SUPPORTED, but for axes of length 1."""

    def holds(call: OpCall, tensor: str) -> bool:
        return not call.tensor(tensor).desc.is_strided

    words, in_c = "{} must be contiguous", "!is_strided({}_desc)"
    return _require_each(tensors, "strided", holds, words, doc, Status.NOT_SUPPORTED, in_c=in_c)


def not_large(tensors: Iterable[str], doc: str) -> tuple[Check, ...]:
    """`<tensor>_large` each: 2^31 elements or more are NOT_SUPPORTED."""

    def holds(call: OpCall, tensor: str) -> bool:
        return not call.tensor(tensor).desc.is_large

    words, in_c = "{} must have fewer than 2^31 elements", "!is_large({}_desc)"
    return _require_each(tensors, "large", holds, words, doc, Status.NOT_SUPPORTED, in_c=in_c)


def not_empty(tensor: str, doc: str, status: Status = Status.SUCCESS, *, writes: bool = False) -> Check:
    """`<tensor>_empty`: a tensor without elements ends the call, by default early with SUCCESS."""
    return require(
        f"{tensor}_empty",
        lambda call: not call.tensor(tensor).desc.is_empty,
        f"{tensor} has no elements",
        doc,
        status,
        writes=writes,
        in_c=f"!is_empty({tensor}_desc)",
    )


def pointers_present(tensors: Iterable[str], doc: str, *, empty_may_be_null: bool = False) -> tuple[Check, ...]:
    """`<tensor>_ptr_null` each: the data pointer is not null."""

    def holds(call: OpCall, tensor: str) -> bool:
        arg = call.tensor(tensor)
        return not arg.null or (empty_may_be_null and arg.desc.is_empty)

    in_c = "{0} != NULL || is_empty({0}_desc)" if empty_may_be_null else "{} != NULL"
    return _require_each(tensors, "ptr_null", holds, "the data pointer of {} must not be null", doc, in_c=in_c)


def workspace_present(doc: str) -> Check:
    """`workspace_null`: a workspace of non-zero size is not null."""
    return require(
        "workspace_null",
        lambda call: call.workspace is not None or call.workspace_size == 0,
        "the workspace must not be null when its size is not zero",
        doc,
        in_c="workspace != NULL || workspace_size == 0",
    )


def within_limits(operator: Operator, field: ParamField, name: str, doc: str) -> Check:
    """The parameter has one of the values that its field allows."""

    def holds(call: OpCall) -> bool:
        value = call.param(field.name)
        return field.is_allowed(value) and (not field.equals or value == operator.size_of(call, field.equals))

    limits = [
        f"{field.name} {sign} {end}" for sign, end in ((">=", field.least), ("<=", field.most)) if end is not None
    ]
    is_number = not field.equals and field.label != "repeated"
    in_c = " && ".join(limits) or equals_any(field.name, field.allowed) if is_number else ""
    return require(name, holds, f"{field.name} must be {field.limits_in_words}", doc, in_c=in_c)


def same_length(tensor: str, axis: int, other: str, other_axis: int, doc: str) -> Check:
    """`<tensor>_dim<axis>`: that axis is as long as one of another tensor."""
    message = f"axis {axis} of {tensor} must be as long as axis {other_axis} of {other}"
    length = f"{other}_desc->dims[{other_axis}]"
    return dim(tensor, axis, lambda call: call.tensor(other).dims[other_axis], message, doc, length)


def length_of_shape(operator: Operator, tensor: str, number: int, doc: str) -> Check:
    """`<tensor>_dim<axis>`: that axis is as long as the tensor's shape says."""
    shape = parse_shape(operator.tensor(tensor).shape)
    axes = [form.axes[number] for form in shape.forms if number < len(form.axes)]
    place = None if axes[0].symbol is None else operator.defining_axis(axes[0].symbol)
    if place == (tensor, number) and (param := operator.equals(axes[0].symbol)):
        axes, place = [Axis(param, ((param,),))], None
    message = f"axis {number} of {tensor} must be {' or '.join(dict.fromkeys(one.text for one in axes))}"
    if not shape.is_plain:
        return require(f"{tensor}_dim{number}", partial(_fits_form, operator, tensor, number), message, doc)
    if place is not None and parse_shape(operator.tensor(place[0]).shape).is_plain:
        return same_length(tensor, number, *place, doc)
    return dim(
        tensor, number, lambda call: operator.length_of(call, axes[0]), message, doc, _length_in_c(operator, axes[0])
    )


def _length_in_c(operator: Operator, axis: Axis) -> str:
    """The sum of products, of numbers and of parameters that are one; empty where there is something else."""
    numbers = {one.name for one in operator.param_fields if one.label != "repeated" and not one.result}
    if not all(factor.isdecimal() or factor in numbers for term in axis.terms for factor in term):
        return ""
    return " + ".join(" * ".join(("INT64_C(1)", *term) if len(term) > 1 else term) for term in axis.terms)


def _fits_form(operator: Operator, tensor: str, number: int, call: OpCall) -> bool:
    """The axis is as long as the form says that holds for the call; what has no such axis fits."""
    argument = call.tensor(tensor)
    form = parse_shape(operator.tensor(tensor).shape).form(argument.layout.value, call.params)
    if form is None:
        return True
    at = number - len(form.axes) + len(argument.dims)
    return not 0 <= at < len(argument.dims) or argument.dims[at] == operator.length_of(call, form.axes[number])
