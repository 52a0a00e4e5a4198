"""An operator with every unusual contract: rows that an output counts, an input that may change, rows that are kept, an
early success that writes, criteria of a case. Backends that break one of them each."""

from pathlib import Path

GENERATOR = '''
"""Packs the positive values of a vector to its front."""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, RecipeOutput, Status, TensorSpec, Theory, diff1_and_diff2, exact,
)
from mluops_gtest.authoring import checks


def reference(call):
    x = call.array("x").astype(np.float64)
    packed = np.full(len(x), -np.inf)
    packed[: (x > 0).sum()] = x[x > 0] / 3
    return Baseline({
        "packed": packed.astype("<f4"),
        "place": np.where(x > 0, np.cumsum(x > 0) - 1, -1).astype("<i4"),
        "count": np.array([(x > 0).sum()], "<i4"),
    })


def kernel(call):
    if call.inputs["x"] is None or len(call.inputs["x"].dims) != 1:
        return Status.BAD_PARAM
    found = np.flatnonzero(call.array("x") > 0)
    call.array("packed")[: len(found)] = call.array("x")[found] / np.float32(3)
    call.array("place")[found] = np.arange(len(found))
    call.array("count")[0] = len(found)
    return Status.SUCCESS


def listed(draw, params, dtype, *, x: tuple[float, ...]):
    return RecipeOutput({"x": np.array(x, "<f4")}, {})


OPERATOR = Operator(
    name="positive_rows", released_name="positive_rows", op_type=("POSITIVE_ROWS", 9997),
    summary="Packs the positive values of a vector to its front, divided by 3.",
    inputs=(TensorSpec("x", "[N]", (DType.FLOAT,), may_become=lambda c: np.maximum(c.array("x"), np.float32(-1))),),
    outputs=(
        OutputSpec("packed", "[N]", {DType.FLOAT: diff1_and_diff2(1e-3)}, rows_owned="count"),
        OutputSpec("place", "[N]", {DType.INT32: exact()}, preset=-1, kept=lambda call: call.array("x") <= 0),
        OutputSpec("count", "[1]", {DType.INT32: exact()}),
    ),
    checks=(
        *checks.descriptors_present(["x"], "§1"),
        checks.rank("x", 1, "§1"),
        checks.not_empty("x", "§1", writes=True),
    ),
    reference=reference, kernel=kernel, recipes={"listed": listed},
    theory=lambda call: Theory(12 * call.tensor("x").desc.count, call.tensor("x").desc.count),
)
'''
CASES = """\
- name: mixed
  tags: [smoke]
  doc: "§1"
  data: {recipe: listed, x: [-5.0, 3.0, -1.0, 7.0, 9.0]}
- name: sharp
  tags: [smoke]
  doc: "§1"
  criteria: {packed: {diff3: 1.0e-6}}
  data: {recipe: listed, x: [-2.5, 3.0, 7.0]}
- name: nothing
  tags: [boundary]
  doc: "§1: the count is written although there is nothing to pack"
  data: {recipe: listed, x: []}
  expect: {status: SUCCESS, check: x_empty}
- name: rank
  tags: [negative]
  doc: "§1"
  data: {recipe: listed, x: [1.0, 2.0]}
  change: {x: {dims: [1, 2]}}
  expect: {status: BAD_PARAM, check: x_rank}
- name: large
  tags: [heavy, boundary]
  doc: "§1"
  data: {recipe: listed, x: [1.0, 2.0, 4.0, -4.0]}
"""
BACKENDS = '''
import numpy as np

from mluops_gtest import Status


class Backend:
    """The right one; a class below breaks one thing."""

    name = "mine"

    def run(self, call):
        if len(call.inputs["x"].dims) != 1:
            return Status.BAD_PARAM
        x = call.array("x").copy()
        found = np.flatnonzero(x > 0)
        self.write(call, x, found)
        self.change(call.array("x"))
        return Status.SUCCESS

    def write(self, call, x, found):
        call.array("packed")[: len(found)] = x[found] / np.float32(3)
        call.array("place")[found] = np.arange(len(found))
        call.array("count")[0] = len(found)

    def change(self, x):
        pass


class LiftsNegatives(Backend):
    """What the operator allows."""

    def change(self, x):
        np.maximum(x, -1, out=x)


class LiftsSomeNegatives(Backend):
    def change(self, x):
        x[:1] = np.maximum(x[:1], -1) - (x[:1] > -5) * 0.5


class ChangesAPositive(Backend):
    def change(self, x):
        np.maximum(x, -1, out=x)
        x[1:2] += 1


class MiscountsByOne(Backend):
    def write(self, call, x, found):
        super().write(call, x, found)
        call.array("count")[0] += 1
        call.array("packed")[...] = 0


class LeavesTheCount(Backend):
    def write(self, call, x, found):
        if len(x):
            super().write(call, x, found)


class WritesPreservedRows(Backend):
    def write(self, call, x, found):
        call.array("place")[...] = 0
        super().write(call, x, found)


class LeavesPlaces(Backend):
    def write(self, call, x, found):
        before = call.array("place").copy()
        super().write(call, x, found)
        call.array("place")[found[-1:]] = before[found[-1:]]


class WritesBehindTheCount(Backend):
    """Allowed: nobody owns those rows."""

    def write(self, call, x, found):
        call.array("packed")[...] = 8
        super().write(call, x, found)


class IsALittleOff(Backend):
    def write(self, call, x, found):
        super().write(call, x, found)
        call.array("packed")[: len(found)] *= np.float32(1 + 1e-5)


class WritesWhenRefusing(Backend):
    def run(self, call):
        if len(call.inputs["x"].dims) != 1:
            call.array("place")[0] = -1
            return Status.BAD_PARAM
        return super().run(call)
'''


def write_positive_rows(folder: Path) -> Path:
    """A root with the operator, and `backends.py` beside its content."""
    for name in ("generators", "cases", "prototxt"):
        (folder / name).mkdir(parents=True)
    (folder / "generators" / "positive_rows.py").write_text(GENERATOR)
    (folder / "cases" / "positive_rows.yaml").write_text(CASES)
    (folder / "backends.py").write_text(BACKENDS)
    return folder
