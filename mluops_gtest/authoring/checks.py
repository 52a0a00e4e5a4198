"""The checks that operators share; each makes one named Check, so that a case can ask for exactly that one."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from mluops_gtest.core.call import OLDEST_ARCH, OpCall, Status
from mluops_gtest.core.declaration import AskedBy, Check, CheckGroup, ParamField
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import Axis, Form, parse_shape
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
    return Check(name, status, holds, message, doc, subsumed, _place(), writes, asked_by, may_clear, in_c)


def names_before(first: str, checks: Iterable[Check]) -> tuple[str, ...]:
    """The names of the checks in front of that one: what a workspace query makes of them that sees no data."""
    return tuple(check.name for check in itertools.takewhile(lambda check: check.name != first, checks))


def _place() -> str:
    """The line of the operator's file that asks for a check, here or in a family of operators beside this module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def handle_present(doc: str) -> Check:
    """`handle_null`: the handle is not null."""
    return require(
        "handle_null", lambda call: call.handle is not None, "the handle must not be null", doc, in_c="handle != NULL"
    )


def params_present(descriptor: str, doc: str) -> Check:
    """`<descriptor>_null`: the descriptor that carries the parameters is not null."""
    return require(
        f"{descriptor}_null",
        lambda call: call.params is not None,
        f"{descriptor} must not be null",
        doc,
        in_c=f"{descriptor} != NULL",
    )


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
        in_c=_one_of(f"{tensor}_desc->rank", allowed),
    )


def _one_of(value: str, allowed: Iterable[object]) -> str:
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
        in_c=_one_of(f"{tensor}_desc->dtype", numbers),
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
        in_c=_one_of(f"{tensor}_desc->layout", (f"MLUOP_LAYOUT_{one.name}" for one in allowed)),
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


# Groups: what follows from the declaration of the operator, for its tuple of checks. Without names a group takes all
# tensors in declared order. `asked_by` says who makes its checks: the call, the workspace queries, or both.


def standard_checks(*own: Check, doc: str) -> tuple[Check, ...]:
    """The usual order: nulls, shapes, parameters, types, strides, large tensors, `own` checks, empty tensors; then the
    workspace and the data, which queries do not get."""
    shapes = (handle(doc), descriptors(doc=doc), arrays(doc=doc), ranks(doc=doc), dims(doc=doc))
    values = (params(doc=doc), dtypes(doc=doc), strided(doc=doc), large(doc=doc))
    return (*shapes, *values, *own, empty(doc=doc), workspace(doc), pointers(doc=doc))


def only_if(condition: Callable[[OpCall], bool], *checks: Check) -> CheckGroup:
    """These checks and groups, which hold where the condition does not; the condition may rely on all earlier ones."""

    def conditional(check: Check) -> Check:
        return replace(check, holds=lambda call: not condition(call) or check.holds(call), in_c="")

    def expand(operator: Operator) -> Iterator[Check]:
        for one in checks:
            yield from map(conditional, one.expand(operator) if isinstance(one, CheckGroup) else (one,))

    return CheckGroup.of(expand)


def _group(
    expand: Callable[[Operator], Iterable[Check]], asked_by: AskedBy, **fields: Status | tuple[str, ...]
) -> CheckGroup:
    return CheckGroup.of(expand, place=_place(), asked_by=asked_by, **fields)


def _ids(operator: Operator, tensors: tuple[str, ...]) -> tuple[str, ...]:
    return tensors or tuple(spec.id for spec in operator.tensors)


def _where_present(operator: Operator, names: Iterable[str], check: Check) -> Check:
    """The check; it holds of a call that lacks one of these tensors, where a call may."""
    optional = operator.optional.intersection(names)
    if not optional:
        return check
    is_lacking = " || ".join(f"{one}_desc == NULL" for one in sorted(optional))
    return replace(
        check,
        holds=lambda call: any(call.inputs[one] is None for one in optional) or check.holds(call),
        in_c=f"{is_lacking} || {check.in_c}" if check.in_c else "",
    )


def _each_present(operator: Operator, names: Iterable[str], of: Callable[[str], Iterable[Check]]) -> Iterator[Check]:
    for name in names:
        yield from (_where_present(operator, (name,), check) for check in of(name))


def handle(doc: str, *, asked_by: AskedBy = "both") -> CheckGroup:
    """`handle_null`."""
    return _group(lambda _: (handle_present(doc),), asked_by)


def descriptors(*tensors: str, doc: str, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_desc_null` each; the descriptor of the parameters is `<descriptor>_null`.

    Tensors that a call may lack are left out unless they are named.
    """

    def expand(operator: Operator) -> Iterator[Check]:
        for name in tensors or (one for one in _ids(operator, ()) if one not in operator.optional):
            if name == operator.params_descriptor:
                yield params_present(name, doc)
            else:
                yield from descriptors_present((name,), doc)

    return _group(expand, asked_by)


def arrays(*names: str, doc: str, asked_by: AskedBy = "both") -> CheckGroup:
    """`<name>_array_null` of each repeated parameter."""

    def expand(operator: Operator) -> Iterable[Check]:
        repeated = tuple(one.name for one in operator.param_fields if one.label == "repeated" and not one.result)
        return param_arrays_present(names or repeated, doc)

    return _group(expand, asked_by)


def params(
    *names: str, doc: str, name: str = "{}", status: Status = Status.BAD_PARAM, asked_by: AskedBy = "both"
) -> CheckGroup:
    """A check of each parameter with limits, called as `name` says, e.g. `{}_value`: least, most, allowed values, the
    symbol that it equals, for which descriptors must be there."""

    def expand(operator: Operator) -> Iterator[Check]:
        fields = {one.name: one for one in operator.param_fields}
        for one in names or [one.name for one in fields.values() if one.has_limits]:
            yield _within_limits(operator, fields[one], name.format(one), doc)

    return _group(expand, asked_by, status=status)


def _within_limits(operator: Operator, field: ParamField, name: str, doc: str) -> Check:
    def holds(call: OpCall) -> bool:
        value = call.param(field.name)
        return field.is_allowed(value) and (not field.equals or value == operator.size_of(call, field.equals))

    limits = [
        f"{field.name} {sign} {end}" for sign, end in ((">=", field.least), ("<=", field.most)) if end is not None
    ]
    is_number = not field.equals and field.label != "repeated"
    in_c = " && ".join(limits) or _one_of(field.name, field.allowed) if is_number else ""
    return require(name, holds, f"{field.name} must be {field.limits_in_words}", doc, in_c=in_c)


def ranks(*tensors: str, doc: str, status: Status = Status.BAD_PARAM, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_rank` each: as many axes as the shape has."""

    def expand(operator: Operator) -> Iterator[Check]:
        for name in _ids(operator, tensors):
            allowed = parse_shape(operator.tensor(name).shape).ranks
            if allowed is not None:
                yield _where_present(operator, (name,), rank(name, allowed, doc))

    return _group(expand, asked_by, status=status)


def layouts(*tensors: str, doc: str, status: Status = Status.BAD_PARAM, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_layout` each: one of the tensor's layouts, where it has some."""

    def expand(operator: Operator) -> Iterator[Check]:
        for name in _ids(operator, tensors):
            allowed = operator.tensor(name).layouts
            if allowed is not None:
                yield _where_present(operator, (name,), layout(name, allowed, doc))

    return _group(expand, asked_by, status=status)


def dtypes(
    *tensors: str, doc: str, name: str = "dtype", status: Status = Status.BAD_PARAM, asked_by: AskedBy = "both"
) -> CheckGroup:
    """`<tensor>_dtype` each: one of the tensor's types; `xyz = new_xyz`: the type of the other tensor."""

    def expand(operator: Operator) -> Iterator[Check]:
        for entry in _ids(operator, tensors):
            tensor, _, other = entry.partition(" = ")
            own = same_dtype(tensor, other, doc, name) if other else dtype(tensor, operator.tensor(tensor).dtypes, doc)
            yield _where_present(operator, (tensor, other), own)

    return _group(expand, asked_by, status=status)


def dims(*axes: str, doc: str, status: Status = Status.BAD_PARAM, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_dim<axis>` each: as long as the shape says.

    `xyz.0` is axis 0 of xyz; without names all axes in declared order, but for those that define a symbol and equal no
    parameter. A symbol is the parameter of its name, else as long as where `axes` of the operator says, else where it
    stands first alone; there it is held to the parameter that it `equals`. `xyz.0 = new_xyz.0` is held to that axis
    instead. Of several forms the one that holds for the call decides; axes are numbered as where no leading one is
    missing.
    """

    def expand(operator: Operator) -> Iterator[Check]:
        for entry in axes or _checked_axes(operator):
            place, _, other = entry.partition(" = ")
            tensor, number = _tensor_axis(place)
            if other:
                own = _same_length(tensor, number, *_tensor_axis(other), doc)
            else:
                own = _length_of_shape(operator, tensor, number, doc)
            yield _where_present(operator, (tensor, other.partition(".")[0]), own)

    return _group(expand, asked_by, status=status)


def _tensor_axis(place: str) -> tuple[str, int]:
    tensor, _, number = place.partition(".")
    return tensor, int(number)


def _same_length(tensor: str, axis: int, other: str, other_axis: int, doc: str) -> Check:
    message = f"axis {axis} of {tensor} must be as long as axis {other_axis} of {other}"
    length = f"{other}_desc->dims[{other_axis}]"
    return dim(tensor, axis, lambda call: call.tensor(other).dims[other_axis], message, doc, length)


def _checked_axes(operator: Operator) -> Iterator[str]:
    for spec in operator.tensors:
        checked = {
            number
            for form in parse_shape(spec.shape).forms
            for number, one in enumerate(form.axes)
            if not (one.at_least or one.any_number or _defines(operator, spec.id, form, number))
        }
        yield from (f"{spec.id}.{number}" for number in sorted(checked))


def _defines(operator: Operator, tensor: str, form: Form, number: int) -> bool:
    """The axis says how long its symbol is, which no parameter must equal, so there is nothing to check."""
    symbol = form.axes[number].symbol
    place = None if symbol is None or operator.equals(symbol) else operator.defining_axis(symbol)
    return place is not None and place[0] == tensor and all(one.symbol != symbol for one in form.axes[number + 1 :])


def _length_of_shape(operator: Operator, tensor: str, number: int, doc: str) -> Check:
    shape = parse_shape(operator.tensor(tensor).shape)
    axes = [form.axes[number] for form in shape.forms if number < len(form.axes)]
    place = None if axes[0].symbol is None else operator.defining_axis(axes[0].symbol)
    if place == (tensor, number) and (param := operator.equals(axes[0].symbol)):
        axes, place = [Axis(param, ((param,),))], None
    message = f"axis {number} of {tensor} must be {' or '.join(dict.fromkeys(one.text for one in axes))}"
    if not shape.is_plain:
        return require(f"{tensor}_dim{number}", partial(_fits_form, operator, tensor, number), message, doc)
    if place is not None and parse_shape(operator.tensor(place[0]).shape).is_plain:
        return _same_length(tensor, number, *place, doc)
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


def strided(*tensors: str, doc: str, status: Status = Status.NOT_SUPPORTED, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_strided` each: contiguous."""

    def expand(operator: Operator) -> Iterable[Check]:
        return _each_present(operator, _ids(operator, tensors), lambda name: contiguous((name,), doc))

    return _group(expand, asked_by, status=status)


def strided_alike(
    *tensors: str, doc: str, status: Status = Status.NOT_SUPPORTED, asked_by: AskedBy = "both"
) -> CheckGroup:
    """`strides_alike`: no tensor is strided, or all have one shape and the same strides, which leave no gaps; those of
    one element do not count."""

    def expand(operator: Operator) -> Iterator[Check]:
        names = _ids(operator, tensors)

        def holds(call: OpCall) -> bool:
            given = (
                call.tensor(name) for name in names if name not in operator.optional or call.inputs[name] is not None
            )
            descs = [one.desc for one in given if one.desc.count != 1]
            first = next((desc for desc in descs if desc.is_strided), None)
            if first is None:
                return True
            return first.is_dense and all((one.dims, one.steps) == (first.dims, first.steps) for one in descs)

        yield require(
            "strides_alike", holds, f"{', '.join(names)} must be contiguous, or strided alike without gaps", doc
        )

    return _group(expand, asked_by, status=status)


def large(*tensors: str, doc: str, status: Status = Status.NOT_SUPPORTED, asked_by: AskedBy = "both") -> CheckGroup:
    """`<tensor>_large` each: fewer than 2^31 elements."""

    def expand(operator: Operator) -> Iterable[Check]:
        return _each_present(operator, _ids(operator, tensors), lambda name: not_large((name,), doc))

    return _group(expand, asked_by, status=status)


def empty(
    *tensors: str, doc: str, status: Status = Status.SUCCESS, writes: bool = False, asked_by: AskedBy = "both"
) -> CheckGroup:
    """`<tensor>_empty` each: a tensor without elements ends the call with this status."""

    def expand(operator: Operator) -> Iterable[Check]:
        names = _ids(operator, tensors)
        return _each_present(operator, names, lambda name: (not_empty(name, doc, status, writes=writes),))

    return _group(expand, asked_by)


def workspace(doc: str, *, asked_by: AskedBy = "call", may_clear: tuple[str, ...] = ()) -> CheckGroup:
    """`workspace_null`; queries get no workspace."""
    return _group(lambda _: (workspace_present(doc),), asked_by, may_clear=may_clear)


def pointers(
    *tensors: str,
    doc: str,
    empty_may_be_null: bool = False,
    asked_by: AskedBy = "call",
    may_clear: tuple[str, ...] = (),
) -> CheckGroup:
    """`<tensor>_ptr_null` each; queries get no data."""

    def expand(operator: Operator) -> Iterable[Check]:
        names = _ids(operator, tensors)
        return _each_present(
            operator, names, lambda name: pointers_present((name,), doc, empty_may_be_null=empty_may_be_null)
        )

    return _group(expand, asked_by, may_clear=may_clear)


def arch(doc: str, *, asked_by: AskedBy = "both") -> CheckGroup:
    """`arch`."""
    return _group(lambda _: (arch_supported(doc),), asked_by)
