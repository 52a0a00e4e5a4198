"""Writes cases for the released runner: only schema fields, its ids, its folders."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mluops_gtest.codec.case_files.writer import write_case
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.errors import UsageError
from mluops_gtest.files.writing import place_below, replace_file
from mluops_gtest.model.binding import row_counts
from mluops_gtest.model.case import Case, Expect
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import Tensor

INDEX = "index.json"


def not_exportable(case: Case, operator: Operator | None) -> str:
    """Why the released runner cannot run the case: it compares the values of calls that compute. Empty: it can."""
    if operator is None:
        return f"operator {case.operator!r} is not known here"
    expect = case.expect
    if replace(expect, check=None).is_plain and operator.computes(expect.status, expect.check):
        return _unjudged_rows(case, operator)
    if expect.status is not Status.SUCCESS:
        return f"it expects the status {expect.status.name}" + (f" (check {expect.check})" if expect.check else "")
    if expect.check is not None:
        return f"nothing is computed (check {expect.check})"
    plain = Expect()
    special = [name for name in expect.__struct_fields__ if getattr(expect, name) != getattr(plain, name)]
    return f"it needs a special caller ({', '.join(name for name in special if name != 'degenerate')})"


def _unjudged_rows(case: Case, operator: Operator) -> str:
    """Why the released runner would judge rows that belong to nobody: an output counts those that count."""
    counts = row_counts(operator, case.outputs, {})
    for tensor in case.outputs:
        count = operator.output(tensor.id).rows_owned
        if count in operator.counts and counts.get(count) != tensor.desc.dims[0]:
            return f"the released runner compares all rows of {tensor.id}, also those behind {count}, which are free"
    return ""


@dataclass(slots=True)
class Export:
    """A folder that cases are exported into, and what its index says of them."""

    folder: Path
    suffix: str
    schema: Schema
    written: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    _taken: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} is not empty; export needs a new or empty folder, so name another one.")

    def add(self, case: Case, operator: Operator, name: str) -> None:
        """Write the case where the released suite would have it: OPERATOR/test_case/NAME."""
        path = self._path(Path(operator.released_name) / "test_case", name)
        target = place_below(self.folder, path)
        write_case(_released(case, operator), operator, target, self.schema, blobs=True)
        entry = {"id": case.id, "op_name": operator.released_name, "file": path.as_posix(), "tags": list(case.tags)}
        self.written.append(entry)

    def write_index(self, tool_version: str) -> None:
        """The exported cases in order, and the others with the reason."""
        record = {"format": 1, "tool_version": tool_version, "cases": self.written, "left_out": self.left_out}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        replace_file(self.folder / INDEX, [text.encode()])

    def _path(self, folder: Path, name: str) -> Path:
        path, number = folder / f"{name}{self.suffix}", 1
        # Files of the same name in two folders of the user's.
        while path in self._taken:
            number += 1
            path = folder / f"{name}_{number}{self.suffix}"
        self._taken.add(path)
        return path


def _released(case: Case, operator: Operator) -> Case:
    """The case with the ids of the released suite; criteria are written out, because its runner has no defaults."""
    return replace(
        case,
        expect=Expect(degenerate=case.expect.degenerate),
        inputs=_numbered(case.inputs, "input"),
        outputs=_numbered(case.outputs, "output"),
        criteria=tuple(
            operator.output(tensor.id).criteria.get(tensor.desc.dtype, ()) if criteria == () else criteria
            for criteria, tensor in zip(case.criteria, case.outputs, strict=True)
        ),
    )


def _numbered(tensors: Iterable[Tensor], role: str) -> tuple[Tensor, ...]:
    return tuple(replace(tensor, id=f"{role}{number}") for number, tensor in enumerate(tensors, 1))
