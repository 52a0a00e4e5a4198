"""A content root with one operator that has axes, types and kinds of values, for cases that are derived from these."""

from pathlib import Path

GENERATOR = '''
"""Copies a row."""

from typing import Literal

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, ParamField, ParamMessage, RecipeOutput, Status, TensorSpec, Theory, axis,
    checks, exact,
)

FLOATS = (DType.FLOAT, DType.HALF)


def reference(call):
    return Baseline({"y": np.tile(call.array("x"), (call.param("copies"), 1))})


def kernel(call):
    answer = OPERATOR.answer(call)
    if answer.computes:
        call.array("y")[...] = call.array("x")
    return answer.status


def drawn(draw, params, dtype, *, points: int, at: tuple[int, ...] = (), values: Literal["ramp", "wide"] = "ramp"):
    if points == 33:
        raise ValueError("33 is unlucky")
    x = np.arange(1, points + 1) * (1.0 if values == "ramp" else 0.37)
    x[list(at)] = 2000
    return RecipeOutput({"x": x.astype(dtype.storage)}, {"copies": 2, **params})


def special(draw, params, dtype, *, points: int, kind: Literal["nan", "minus inf"]):
    made = drawn(draw, params, dtype, points=points)
    made.inputs["x"][::2] = float(kind.replace("minus ", "-"))
    return made


def fixed(draw, params, dtype):
    return drawn(draw, params, dtype, points=4)


OPERATOR = Operator(
    name="spread", released_name="spread", op_type=("SPREAD", 9996),
    summary="Copies a row.",
    inputs=(TensorSpec("x", "[N]", FLOATS),),
    outputs=(OutputSpec("y", "[copies, N]", dict.fromkeys(FLOATS, exact())),),
    params=ParamMessage("spread_param", 9004, "SpreadParam", (ParamField("copies", 1, default=2),)),
    axes={"points": axis("N", of="x"), "copies": axis("copies", of="y")},
    checks=(
        checks.handle("§1"),
        checks.descriptors(doc="§1"),
        checks.require("copies", lambda call: 1 <= call.param("copies") <= 300, "copies must be 1 … 300", "§2"),
        checks.ranks(doc="§2"),
        checks.dims(doc="§2"),
        checks.pointers(doc="§1"),
    ),
    reference=reference, kernel=kernel, recipes={"drawn": drawn, "special": special, "fixed": fixed},
    theory=lambda call: Theory(8, 8),
)
'''
WRITTEN = """\
- {name: row, tags: [boundary], doc: "§1: a row", data: {recipe: drawn, points: 4}, dtypes: [float, half]}
- {name: ends, tags: [boundary], doc: "§1: a row", data: {recipe: drawn, points: 9, at: [0, 8]}}
- {name: odd, tags: [boundary], doc: "§1: a row", data: {recipe: special, points: 5, kind: nan}}
- {name: plain, tags: [boundary], doc: "§1: a row", data: {recipe: fixed}}
- {name: chosen, tags: [boundary], doc: "§1: a row", data: {recipe: drawn, points: 4}, seed: 7}
"""


def write_spread_root(folder: Path, entries: str, generator: str = GENERATOR, written: str = WRITTEN) -> Path:
    """The root with these entries behind the written ones, and nothing generated yet."""
    for name in ("generators", "cases", "prototxt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "generators" / "spread.py").write_text(generator)
    (folder / "cases" / "spread.yaml").write_text(written + entries)
    return folder
