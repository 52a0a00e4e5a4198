"""The criteria of a case in its file: the older test_param, shared thresholds, or thresholds per output.

From a case file to a Case: tensors by position, values, parameters, criteria, what is expected.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from mluops_gtest.base.errors import CaseFileError, ContentError, suggestion
from mluops_gtest.casefiles.elements import Rules, check_described, load_values
from mluops_gtest.casefiles.files import read_document, read_name
from mluops_gtest.casefiles.schema import Document, Schema, TensorDocument, Unknown, few
from mluops_gtest.core.call import Params, ParamValue, Status
from mluops_gtest.core.case import Case, Expect
from mluops_gtest.core.declaration import ParamField
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Criterion, CriterionKind, DType, Layout, Tensor, TensorDesc

Criteria = tuple[Criterion, ...]

_KINDS: Final = {kind.schema_number: kind for kind in CriterionKind}


def read_criteria(document: Document) -> tuple[Criteria | None, ...]:
    """The criteria of each output; empty if the file has none, None if the file says not to compare it."""
    node = document.node
    kinds, test_param = node.evaluation_criterion, node.test_param
    shared: Criteria | None = None
    if len(test_param.error_func) or len(test_param.error_threshold):
        shared = _criteria(test_param.error_func, test_param.error_threshold, "test_param: error_func")
    elif len(node.evaluation_threshold):
        shared = _criteria(kinds, node.evaluation_threshold, "evaluation_criterion")
    elif not len(kinds) and not any(len(_thresholds(output.message)) for output in document.outputs):
        shared = ()
    criteria: list[Criteria | None] = []
    for index, output in enumerate(document.outputs):
        if output.message.HasField("threshold_use") and output.message.threshold_use == 0:
            criteria.append(None)
        elif shared is not None:
            criteria.append(shared)
        else:
            criteria.append(_criteria(kinds, _thresholds(output.message), f"output {index}: evaluation_criterion"))
    return tuple(criteria)


def _thresholds(message: Any) -> Any:
    return message.thresholds.evaluation_threshold


def _criteria(kinds: Any, thresholds: Any, what: str) -> Criteria:
    if len(kinds) != len(thresholds):
        raise CaseFileError(f"{what} names {len(kinds)} criteria, but there are {len(thresholds)} thresholds for them")
    return tuple(Criterion(_KINDS[kind], threshold) for kind, threshold in zip(kinds, thresholds, strict=True))


def check_judgeable(criteria: Iterable[Criteria | None]) -> None:
    """An error for a criterion that cannot decide anything: a name without formula, a threshold that bounds nothing."""
    for criterion in {criterion for items in criteria for criterion in items or ()}:
        if not criterion.kind.has_formula:
            known = ", ".join(kind.name for kind in CriterionKind if kind.has_formula)
            raise CaseFileError(f"the criterion {criterion.kind.name} has no formula; name one of {known}")
        if not 0 <= criterion.threshold < math.inf:
            raise CaseFileError(f"the threshold {criterion.threshold} of {criterion.kind.name} must be finite and ≥ 0")


def write_criteria(criteria: Iterable[Criteria | None], document: Document) -> None:
    """Shared thresholds where all outputs have the same, else thresholds per output."""
    per_output = _alike(tuple(criteria))
    compared = [items for items in per_output if items is not None]
    for items, output in zip(per_output, document.outputs, strict=True):
        if items is None:
            output.message.threshold_use = 0
    if not any(compared):
        return
    document.node.evaluation_criterion.extend(criterion.kind.schema_number for criterion in compared[0])
    if len(set(compared)) == 1:
        document.node.evaluation_threshold.extend(criterion.threshold for criterion in compared[0])
        return
    for items, output in zip(per_output, document.outputs, strict=True):
        if items is not None:
            _thresholds(output.message).extend(criterion.threshold for criterion in items)


def _alike(criteria: tuple[Criteria | None, ...]) -> tuple[Criteria | None, ...]:
    """The same kinds for every output, because the format has one list of them.

    An output that must be exact says so by a threshold of 0 whatever the kind.
    """
    given = [items for items in criteria if items is not None]
    if not any(given):
        return criteria
    tolerant = [items for items in given if any(criterion.threshold for criterion in items)]
    kinds = {tuple(criterion.kind for criterion in items) for items in tolerant or given[:1]}
    if len(kinds) > 1 or not all(given):
        raise ContentError(
            "The case format has one list of criteria for all outputs; give them the same, in one order."
        )
    (common,) = kinds
    zero = tuple(Criterion(kind, 0.0) for kind in common)
    return tuple(zero if items and items not in tolerant else items for items in criteria)


_COMPUTES: Final = Expect()


def read_expect(node: Any, schema: Schema) -> Expect:
    """Our extension in a file; a file without one expects that the operator computes."""
    if not node.HasExtension(schema.expect):
        return _COMPUTES
    message = node.Extensions[schema.expect]
    if not message.HasField("status") or message.status not in Status.__members__.values():
        known = ", ".join(f"{status.value} {status.name}" for status in Status)
        raise CaseFileError(f"expect: status {message.status} is missing or unknown; known: {known}")

    def optional(field: str) -> Any:
        return getattr(message, field) if message.HasField(field) else None

    for field in ("arch", "nram_bytes", "workspace_size"):
        if getattr(message, field) < 0:
            raise CaseFileError(f"expect: {field} is {getattr(message, field)}; it must be at least 0")
    return Expect(
        status=Status(message.status),
        check=text_of(message, "check") or None,
        arch=optional("arch"),
        nram_bytes=optional("nram_bytes"),
        null_descriptor=tuple(message.null_descriptor),
        null_pointer=tuple(message.null_pointer),
        null_handle=message.null_handle,
        workspace_size=optional("workspace_size"),
        degenerate=text_of(message, "degenerate") or None,
    )


def check_nulls(expect: Expect, operator: Operator) -> None:
    """Check that every name given as null exists; a misspelt one would have no effect."""
    if not expect.null_descriptor and not expect.null_pointer:
        return
    tensors = [spec.id for spec in operator.tensors]
    descriptors = [*tensors, *filter(None, [operator.params_descriptor])]
    for field, known in (("null_descriptor", descriptors), ("null_pointer", operator.pointers)):
        for name in getattr(expect, field):
            if name not in known:
                raise CaseFileError(f"expect: {field} names {name!r}.{suggestion(str(name), known)[:-1]}")


def text_of(message: Any, field: str) -> str:
    """A string field; protobuf hands out bytes where a binary file does not hold UTF-8."""
    value = getattr(message, field)
    if isinstance(value, bytes):
        raise CaseFileError(f"{field} {value[:40]!r} is not UTF-8")
    return str(value)


THEORY: Final = ("latency", "io_efficiency", "efficiency", "theory_io_size", "theory_compute_ops", "workspace_size")
CPU: Final = 1
_DTYPES: Final = {dtype.schema_number: dtype for dtype in DType}
_LAYOUTS: Final = {layout.schema_number: layout for layout in Layout}
# Far above what any library takes; a file of nothing but dims must not cost the time of their product.
_MAX_AXES: Final = 64
# An enumerator that decides how a case is read or judged: skipping one would change its meaning.
_DECIDING: Final = ("device", "baseline_device", "evaluation_criterion", "error_func")
_NOT_USED: Final = ("threshold_rate", "evaluation_threshold_imag")


class OperatorsByName(Protocol):
    """The operators by canonical or released name."""

    def get_any(self, name: str) -> Operator | None:
        """The operator of that name, or None."""


def read_case(
    path: Path,
    schema: Schema,
    operators: OperatorsByName,
    data: memoryview | None = None,
    *,
    case_id: str | None = None,
    strict: bool = False,
    allow_outside_paths: bool = False,
) -> Case:
    """The case in a file, or in `data` from it; a case of an unknown operator is read as far as its values allow."""
    try:
        document = read_document(path, schema, data)
    except CaseFileError as error:
        name = _unknown_operator(path, schema, operators)
        if name is None:
            raise
        return Case(case_id or f"{name}/{path.stem}", name, (), (), {}, (), path=path, notes=(f"not read: {error}",))
    try:
        op_name = text_of(document.node, "op_name")
        if not op_name:
            raise CaseFileError("op_name is missing; a case names its operator")
        rules = Rules(path.parent, strict, allow_outside_paths)
        return _Reading(document, schema, operators.get_any(op_name), rules).case(op_name, path, case_id)
    except CaseFileError as error:
        raise CaseFileError(f"{path}: {error}.") from error
    except MemoryError as error:
        raise CaseFileError(f"{path}: there is not enough memory for its tensors.") from error


def _unknown_operator(path: Path, schema: Schema, operators: OperatorsByName) -> str | None:
    """The op_name in a file that cannot be read, where no operator is known by it."""
    try:
        name = read_name(path, schema)
    except CaseFileError:
        return None
    return name if name and operators.get_any(name) is None else None


def read_operator_name(path: Path) -> str:
    """The op_name in a file, as written."""
    try:
        return str(read_document(path, _bare_schema()).node.op_name)
    except CaseFileError:
        # The error may be in the values, which do not matter here.
        return read_name(path, _bare_schema())


@cache
def _bare_schema() -> Schema:
    return Schema.of(())


class _Reading:
    """One case being read: notes gather as things are tolerated."""

    def __init__(self, document: Document, schema: Schema, operator: Operator | None, rules: Rules) -> None:
        self.document = document
        self.schema = schema
        self.operator = operator
        self.rules = rules
        self.notes: list[str] = []

    def case(self, op_name: str, path: Path, case_id: str | None) -> Case:
        node = self.document.node
        self._note_unknown()
        expect = read_expect(node, self.schema)
        stored = _device(node) != CPU
        inputs = self._tensors("input", self.document.inputs)
        outputs = self._tensors("output", self.document.outputs)
        criteria = self._criteria()
        name = op_name
        if self.operator is not None:
            name = self.operator.name
            check_judgeable(criteria)
            check_nulls(expect, self.operator)
            inputs = tuple(replace(one, becomes=self.operator.input(one.id).becomes) for one in inputs)
            if self.operator.computes(expect.status, expect.check):
                _check_complete(inputs, outputs if stored else (), expect)
        case = Case(
            id=case_id or f"{name}/{path.stem}",
            operator=name,
            inputs=inputs,
            outputs=outputs,
            params=_listed_params(node) if self.operator is None else _params(self.document, self.operator),
            criteria=criteria,
            expect=expect,
            baseline_stored=stored,
            path=path,
            notes=tuple(self.notes),
            theory={figure: getattr(node, figure) for figure in THEORY if node.HasField(figure)},
        )
        whole = case.with_shared_buffers()
        if whole is None:
            pairs = " and ".join(f"{one.id} what {one.becomes} holds" for one in inputs if one.becomes)
            raise CaseFileError(f"{pairs} before the call, so they must have one type and one shape")
        return whole

    def _criteria(self) -> tuple[Criteria | None, ...]:
        try:
            return read_criteria(self.document)
        except CaseFileError as error:
            if self.operator is not None:
                raise
            self.notes.append(str(error))
            return tuple(() for _ in self.document.outputs)

    def _note_unknown(self) -> None:
        unknown = self.document.all_unknown()
        deciding = [item for item in self.document.unknown if item.value is not None and item.field in _DECIDING]
        if deciding and self.operator is not None:
            raise CaseFileError(f"unknown enumerator {few(deciding)}")
        if unknown:
            self.notes.append(f"not in the schema, skipped: {few(unknown)}")
        unused = [field for field in _NOT_USED if len(getattr(self.document.node, field))]
        if unused:
            self.notes.append(f"not used in judging: {few(unused)}")

    def _tensors(self, role: str, tensors: list[TensorDocument]) -> tuple[Tensor, ...]:
        ids = self._ids(role, tensors)
        return tuple(
            self._tensor(f"{role} {index} ({name!r})", name, tensor, role == "output")
            for index, (name, tensor) in enumerate(zip(ids, tensors, strict=True))
        )

    def _ids(self, role: str, tensors: list[TensorDocument]) -> list[str]:
        """The operator's ids by position; for an unknown operator the file's ids, made unique."""
        if self.operator is not None:
            specs = self.operator.inputs if role == "input" else self.operator.outputs
            least = sum(spec.id not in self.operator.optional for spec in specs)
            if not least <= len(tensors) <= len(specs):
                names = ", ".join(spec.id for spec in specs)
                takes = f"{len(specs)}" if least == len(specs) else f"{least} to {len(specs)}"
                raise CaseFileError(
                    f"the file has {len(tensors)} {role} tensors; {self.operator.name} takes {takes}: {names}"
                )
            return [spec.id for spec in specs[: len(tensors)]]
        ids: list[str] = []
        taken: set[str] = set()
        for index, tensor in enumerate(tensors):
            base = text_of(tensor.message, "id") or f"{role}{index}"
            name = base
            # The position is unique, so one attempt is enough unless the file itself plays the same game.
            while name in taken:
                name = f"{name}_{index}"
            taken.add(name)
            ids.append(name)
        return ids

    def _tensor(self, where: str, name: str, tensor: TensorDocument, output: bool) -> Tensor:
        try:
            desc = self._desc(where, tensor)
            try:
                data, note = load_values(tensor, desc, self.rules, output=output)
                if data is not None and (desc.is_strided if output else desc.count > desc.extent):
                    check_described(desc, "spread by strides" if output else "repeated by strides")
            except CaseFileError as error:
                # The values of an unknown operator are never used.
                if self.operator is not None:
                    raise
                data, note = None, f"not read: {error}"
        except CaseFileError as error:
            raise CaseFileError(f"{where}: {error}") from error
        if note:
            self.notes.append(f"{where}: {note}")
        found = Tensor(name, desc, data)
        return found if data is None or not output else found.holding(data.reshape(desc.dims))

    def _desc(self, where: str, tensor: TensorDocument) -> TensorDesc:
        message = tensor.message
        dtype = self._enumerated(where, tensor, "dtype", _DTYPES)
        layout = self._enumerated(where, tensor, "layout", _LAYOUTS)
        if not message.HasField("shape"):
            raise CaseFileError("the shape is missing")
        dims = tuple(message.shape.dims)
        strides = tuple(message.shape.dim_stride) or None
        if len(dims) > _MAX_AXES:
            raise CaseFileError(f"the shape has {len(dims)} axes; at most {_MAX_AXES} are read")
        if dims and min(dims) < 0:
            raise CaseFileError(f"the shape {list(dims)} has a negative length")
        if strides is not None and (len(strides) != len(dims) or min(strides) < 0):
            raise CaseFileError(f"dim_stride {few(strides)} must have one number ≥ 0 per axis of {list(dims)}")
        desc = TensorDesc(dtype, layout, dims, strides)
        # numpy cannot make an array of such a shape even without elements.
        if desc.is_empty and math.prod(filter(None, dims)) * dtype.itemsize > sys.maxsize:
            raise CaseFileError(f"the shape {list(dims)} has no elements, but its other lengths are beyond all memory")
        return desc

    def _enumerated(self, where: str, tensor: TensorDocument, field: str, known: Mapping[int, Any]) -> Any:
        """dtype or layout; an unknown one is an error, never the default."""
        message = tensor.message
        if message.HasField(field):
            number = getattr(message, field)
            if number in known:
                return known[number]
            raise CaseFileError(f"a tensor cannot have the {field} {_enumerator(message, field, number)}")
        for item in tensor.unknown:
            if item.field == field and item.value is not None:
                raise CaseFileError(f"unknown {field} {item.value} ({item.where})")
        default = known[getattr(message, field)]
        if self.rules.strict:
            raise CaseFileError(f"the {field} is missing")
        self.notes.append(f"{where}: no {field}, taken as {default.schema_name}")
        return default


def _enumerator(message: Any, field: str, number: int) -> str:
    return str(message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number[number].name)


def _device(node: Any) -> int:
    if node.HasField("device"):
        return int(node.device)
    return int(node.test_param.baseline_device) if node.test_param.HasField("baseline_device") else CPU


def _check_complete(inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], expect: Expect) -> None:
    """A case that computes needs every input, and the baseline unless the reference makes it."""
    without = {*expect.null_descriptor, *expect.null_pointer}
    for tensors, what in ((inputs, "input"), (outputs, "output (the baseline)")):
        missing = [tensor.id for tensor in tensors if tensor.data is None and tensor.id not in without]
        if missing:
            raise CaseFileError(f"no values for the {what} {', '.join(missing)}; give value_h, value_i, path, …")


def _params(document: Document, operator: Operator) -> Params:
    """The operator's parameters with the schema's defaults; results that are missing in the file stay missing."""
    spec = operator.params
    if spec is None:
        return {}
    node = document.node
    message = getattr(node, spec.field)
    if not node.HasField(spec.field) and any(field.label == "required" for field in spec.fields):
        raise CaseFileError(f"{spec.field} is missing; {operator.name} needs it")
    unknown = [item for item in document.unknown if item.value is not None]
    return {
        field.name: _param(message, field, spec.field, unknown)
        for field in spec.fields
        if not (field.result and field.label != "repeated" and not message.HasField(field.name))
    }


def _param(message: Any, field: ParamField, where: str, unknown: list[Unknown]) -> ParamValue:
    for item in unknown:
        if item.field == field.name:
            raise CaseFileError(f"{where}: unknown {item}")
    if field.label == "repeated":
        return tuple(getattr(message, field.name))
    if field.label == "required" and not message.HasField(field.name):
        raise CaseFileError(f"{where}: {field.name} is missing")
    if field.type == "string":
        return text_of(message, field.name)
    value: ParamValue = getattr(message, field.name)
    return value


def _listed_params(node: Any) -> Params:
    """The parameters of an unknown operator, if the schema lists its message."""
    return {
        inner.name: value if isinstance(value, (int, float)) else tuple(value)
        for field, message in node.ListFields()
        if field.message_type is not None
        and field.name not in ("test_param", "handle_param")
        and not field.is_extension
        for inner, value in message.ListFields()
    }
