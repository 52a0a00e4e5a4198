"""The checks that operators share: groups of them that follow from the declaration, beside the single ones."""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from mluops_gtest.authoring.single_checks import (
    arch_supported,
    calling_place,
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    layout,
    length_of_shape,
    names_before,
    not_empty,
    not_large,
    param_arrays_present,
    params_present,
    pointers_present,
    rank,
    require,
    same_dtype,
    same_length,
    within_limits,
    workspace_present,
)
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.declaration import AskedBy, Check, CheckGroup
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import Form, parse_shape

# The single checks are words of this module, too.
__all__ = [
    "arch",
    "arch_supported",
    "arrays",
    "contiguous",
    "descriptors",
    "descriptors_present",
    "dim",
    "dims",
    "dtype",
    "dtypes",
    "empty",
    "handle",
    "handle_present",
    "large",
    "layout",
    "layouts",
    "names_before",
    "not_empty",
    "not_large",
    "only_if",
    "param_arrays_present",
    "params",
    "params_present",
    "pointers",
    "pointers_present",
    "rank",
    "ranks",
    "require",
    "same_dtype",
    "standard_checks",
    "strided",
    "strided_alike",
    "workspace",
    "workspace_present",
]

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
    return CheckGroup.of(expand, place=calling_place(), asked_by=asked_by, **fields)


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
            yield within_limits(operator, fields[one], name.format(one), doc)

    return _group(expand, asked_by, status=status)


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
                own = same_length(tensor, number, *_tensor_axis(other), doc)
            else:
                own = length_of_shape(operator, tensor, number, doc)
            yield _where_present(operator, (tensor, other.partition(".")[0]), own)

    return _group(expand, asked_by, status=status)


def _tensor_axis(place: str) -> tuple[str, int]:
    tensor, _, number = place.partition(".")
    return tensor, int(number)


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
