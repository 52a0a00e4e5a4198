"""A content root with one small operator that has checks of every usual kind, for cases that are derived from them."""

from pathlib import Path

GENERATOR = '''
"""Picks rows of a table."""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, ParamField, ParamMessage, RecipeOutput, Status, TensorSpec, Theory, checks,
    exact,
)

TENSORS = ("table", "index", "out")
FLOATS = (DType.FLOAT, DType.HALF)


def reference(call):
    rows = call.array("table")[call.array("index")]
    return Baseline({"out": (rows * call.param("factor")).astype(call.tensor("table").dtype.storage)})


def kernel(call):
    answer = OPERATOR.answer(call)
    if answer.computes:
        call.array("out")[...] = call.array("table")[call.array("index")] * np.float32(call.param("factor"))
    return answer.status


def ramp(draw, params, dtype, *, rows: int, columns: int, picks: int):
    table = np.arange(1, rows * columns + 1).reshape(rows, columns).astype(dtype.storage)
    index = (np.arange(picks) % rows).astype("<i4")
    return RecipeOutput({"table": table, "index": index}, {"factor": 2, "scale": 1.0, **params})


CHECKS = (
    checks.handle_present("§1"),
    *checks.descriptors_present(TENSORS, "§1"),
    checks.rank("table", 2, "§2"),
    checks.rank("index", 1, "§2"),
    checks.rank("out", 2, "§2"),
    checks.require("scale", lambda call: call.param("scale") >= 0, "scale must be at least 0", "§3"),
    checks.require("factor", lambda call: 1 <= call.param("factor") <= 8, "factor must be 1 … 8", "§3"),
    checks.dim("out", 0, lambda call: call.tensor("index").dims[0], "out has a row per index", "§2"),
    checks.dim("out", 1, lambda call: call.tensor("table").dims[1], "out has the columns of table", "§2"),
    *checks.contiguous(TENSORS, "§4"),
    checks.dtype("table", FLOATS, "§2"),
    checks.dtype("index", (DType.INT32,), "§2"),
    checks.same_dtype("out", "table", "§2"),
    checks.require(
        "picks", lambda call: call.tensor("index").dims[0] <= 1000, "at most 1000 rows", "§5", Status.NOT_SUPPORTED
    ),
    *checks.not_large(("table", "out"), "§5"),
    checks.not_empty("index", "§6"),
    *checks.pointers_present(TENSORS, "§1"),
    checks.arch_supported("§1"),
)

OPERATOR = Operator(
    name="pick", released_name="pick", op_type=("PICK", 9997),
    summary="Picks rows of a table.",
    inputs=(TensorSpec("table", "[M, C]", FLOATS), TensorSpec("index", "[N]", (DType.INT32,))),
    outputs=(OutputSpec("out", "[N, C]", dict.fromkeys(FLOATS, exact())),),
    params=ParamMessage(
        "pick_param", 9003, "PickParam", (ParamField("factor", 1, default=2), ParamField("scale", 2, "float"))
    ),
    checks=CHECKS, reference=reference, kernel=kernel, recipes={"ramp": ramp},
    theory=lambda call: Theory(8, 8),
)
'''
WRITTEN = """\
- {name: valid, tags: [boundary], doc: "§1: a call", data: {recipe: ramp, rows: 5, columns: 3, picks: 4}}
- {name: alike, tags: [boundary], doc: "§1: a call", data: {recipe: ramp, rows: 4, columns: 3, picks: 4}}
- {name: one_row, tags: [boundary], doc: "§1: a call", data: {recipe: ramp, rows: 1, columns: 3, picks: 4}}
- name: no_handle
  tags: [negative]
  doc: "§1"
  data: {recipe: ramp, rows: 5, columns: 3, picks: 4}
  null: {handle: true}
  expect: {status: BAD_PARAM, check: handle_null}
"""
CASES = f"""{WRITTEN}\
- {{standard: checks, base: valid}}
- {{standard: order, base: [valid]}}
"""


def write_pick_root(folder: Path, cases: str = CASES, generator: str = GENERATOR) -> Path:
    """The root, with nothing generated yet."""
    for name in ("generators", "cases", "prototxt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "generators" / "pick.py").write_text(generator)
    (folder / "cases" / "pick.yaml").write_text(cases)
    return folder
