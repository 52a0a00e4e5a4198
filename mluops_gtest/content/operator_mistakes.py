"""Finds mistakes in an operator's declaration without calling its functions."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mluops_gtest.errors import suggestion
from mluops_gtest.model.operator import Operator, OutputSpec, ParamField
from mluops_gtest.model.status import Status

_TYPES: Final = ("int32", "int64", "float", "double", "bool", "string", "enum")
_LABELS: Final = ("required", "optional", "repeated")


def first_mistake(operator: Operator, path: Path) -> str | None:
    """`file:line: what is wrong, and what to do`; None if nothing is wrong."""
    for word, place, mistake in _mistakes(operator):
        return f"{place or _place(path, word)}: {mistake}"
    return None


def _mistakes(operator: Operator) -> Iterator[tuple[str, str, str]]:
    """A word on the line, the place if it is known, and the mistake."""
    for twin in _twice(check.name for check in operator.checks):
        *_, last = (check for check in operator.checks if check.name == twin)
        yield twin, last.place, f"two checks are called {twin!r}. Give each its own name: cases refer to it."
    for twin in _twice(spec.id for spec in operator.tensors):
        yield twin, "", f"two tensors are called {twin!r}. Give each its own name."
    for spec in operator.outputs:
        for mistake in _output_mistakes(spec, operator):
            yield spec.id, "", f"the output {spec.id!r} {mistake}"
    for name, mistake in _size_mistakes(operator):
        yield name, "", mistake
    for check in operator.checks:
        if check.writes and check.status is not Status.SUCCESS:
            refusal = f"answers {check.status.name}. A call that is refused writes nothing."
            yield check.name, check.place, f"the check {check.name!r} writes, but {refusal}"
    for name in _twice(field.name for field in operator.param_fields):
        yield name, "", f"two parameters are called {name!r}. Give each its own name."
    for number in _twice(str(field.number) for field in operator.param_fields):
        yield operator.param_fields[0].name, "", f"two parameters have the number {number}. Number them 1, 2, 3, …"
    for field in operator.param_fields:
        for mistake in _field_mistakes(field):
            yield field.name, "", f"the parameter {field.name!r} {mistake}"


def _size_mistakes(operator: Operator) -> Iterator[tuple[str, str]]:
    tensors = [spec.id for spec in operator.tensors]
    for name, axis in operator.sizes.items():
        if axis.tensor not in tensors:
            yield (
                name,
                f"the size {name!r} is that of an unknown tensor {axis.tensor!r}.{suggestion(axis.tensor, tensors)}",
            )


def _output_mistakes(spec: OutputSpec, operator: Operator) -> Iterator[str]:
    if not spec.criteria:
        yield "has no criteria. Write {DType.FLOAT: diff1_and_diff2(3e-3)} or similar."
    for dtype, criteria in spec.criteria.items():
        if not criteria:
            yield f"has no criteria for {dtype.value}. Add them, or remove the type."
    counting = (*operator.results, *(other.id for other in operator.outputs if other is not spec))
    if spec.rows_owned is not None and spec.rows_owned not in counting:
        known = suggestion(spec.rows_owned, counting)
        yield f"owns the rows of {spec.rows_owned!r}, which is neither a result nor another output.{known}"
    if spec.kept is not None and spec.preset is None:
        yield "keeps what nobody presets. Say what the caller presets, e.g. preset=0."


def _field_mistakes(field: ParamField) -> Iterator[str]:
    for kind, value, known in (("type", field.type, _TYPES), ("label", field.label, _LABELS)):
        if value not in known:
            yield f"has the {kind} {value!r}.{suggestion(value, known)}"
    if (field.enum is None) is (field.type == "enum"):
        yield (
            "is an enum without values. Add enum=EnumSpec(…)."
            if field.enum is None
            else (f"has enum values and the type {field.type}. Write the type 'enum'.")
        )
    if field.enum is not None and field.default is not None:
        values = field.enum.values
        if field.default not in values and field.default not in values.values():
            others = suggestion(str(field.default), values)
            yield f"has the default {field.default!r}, which {field.enum.name} does not have.{others}"


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _place(path: Path, word: str) -> str:
    """The first line of the file that names the word in quotes, else the one that begins OPERATOR."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for wanted in (f'"{word}"', f"'{word}'", "OPERATOR"):
        for number, line in enumerate(lines, 1):
            if wanted in line:
                return f"{path}:{number}"
    return str(path)
