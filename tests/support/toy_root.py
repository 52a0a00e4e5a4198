"""A content root with one tiny operator: a sixth operator is one file (or folder) and one YAML."""

from collections.abc import Mapping
from pathlib import Path

GENERATOR = '''
"""Doubles a vector."""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, ParamField, ParamMessage, RecipeOutput, Status, TensorSpec, Theory,
    diff1_and_diff2, exact,
)
from mluops_gtest.authoring import checks


def reference(call):
    return Baseline({"y": (call.array("x").astype(np.float64) * call.param("factor")).astype("<f4")})


def kernel(call):
    if call.handle is None or call.inputs["x"] is None or call.outputs["y"] is None:
        return Status.BAD_PARAM
    if len(call.inputs["x"].dims) != 1 or call.outputs["y"].dims != call.inputs["x"].dims:
        return Status.BAD_PARAM
    if call.inputs["x"].desc.is_empty:
        return Status.SUCCESS
    call.array("y")[...] = call.array("x") * np.float32(call.param("factor"))
    return Status.SUCCESS


def ramp(draw, params, dtype, *, count: int, start: float = 1.0):
    x = (np.arange(count) + start).astype("<f4")
    return RecipeOutput({"x": x}, {"factor": 2, **params})


def noise(draw, params, dtype, *, count: int):
    return RecipeOutput({"x": draw.stream("x").lattice(count, 20)}, {"factor": 2, **params})


OPERATOR = Operator(
    name="scale_by", released_name="scale", op_type=("SCALE", 9999),
    summary="Multiplies a vector by an integer.",
    inputs=(TensorSpec("x", "[N]", (DType.FLOAT,)),),
    outputs=(OutputSpec("y", "[N]", {DType.FLOAT: diff1_and_diff2(1e-6)}),),
    params=ParamMessage("scale_param", 9001, "ScaleParam", (ParamField("factor", 1, default=2),)),
    checks=(
        checks.handle_present("§1"),
        *checks.descriptors_present(["x", "y"], "§1"),
        checks.rank("x", 1, "§1"),
        checks.require("same_dims", lambda c: c.tensor("x").dims == c.tensor("y").dims, "x and y differ", "§1"),
        checks.not_empty("x", "§1"),
        *checks.pointers_present(["x", "y"], "§1"),
    ),
    reference=reference, kernel=kernel, recipes={"ramp": ramp, "noise": noise},
    theory=lambda call: Theory(8 * call.tensor("x").desc.count, call.tensor("x").desc.count),
)
'''
CASES = """\
- name: ramp_{n}
  tags: [boundary]
  doc: "§1: a ramp"
  each: {n: {from: 2, to: 4}}
  data: {recipe: ramp, count: "{n}"}
- name: big
  tags: [network]
  doc: "§1: larger than what is committed"
  data: {recipe: noise, count: 100000}
- name: odd_thing
  tags: [undefined]
  doc: "§1: nobody knows"
  data: {recipe: ramp, count: 5}
- name: rank_2
  tags: [negative]
  doc: "§1"
  data: {recipe: ramp, count: 4}
  change: {x: {dims: [2, 2]}}
  expect: {status: BAD_PARAM, check: x_rank}
- name: empty
  tags: [negative]
  doc: "§1"
  data: {recipe: ramp, count: 4}
  change: {x: {dims: [0]}, y: {dims: [0]}}
  expect: {status: SUCCESS, check: x_empty}
"""


# Another operator, so that two roots can stand beside each other.
_OTHER = {"scale_by": "shift_by", '"scale"': '"shift"', "SCALE": "SHIFT", "9999": "9998", "9001": "9002"}
_OTHER |= {"scale_param": "shift_param", "ScaleParam": "ShiftParam"}


def write_toy_root(folder: Path, cases: str = CASES, parts: Mapping[str, str] | None = None) -> Path:
    """With `parts` the operator is a folder that holds them; without, one file."""
    for name in ("generators", "cases", "prototxt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if parts is None:
        (folder / "generators" / "scale_by.py").write_text(GENERATOR)
    else:
        own = folder / "generators" / "scale_by"
        own.mkdir(exist_ok=True)
        for name, text in {"__init__": GENERATOR, **parts}.items():
            (own / f"{name}.py").write_text(text)
    (folder / "cases" / "scale_by.yaml").write_text(cases)
    return folder


def write_other_root(folder: Path) -> Path:
    """A root with the operator shift_by."""
    write_toy_root(folder)
    generator = (folder / "generators" / "scale_by.py").rename(folder / "generators" / "shift_by.py")
    (folder / "cases" / "scale_by.yaml").rename(folder / "cases" / "shift_by.yaml")
    text = GENERATOR
    for old, new in _OTHER.items():
        text = text.replace(old, new)
    generator.write_text(text)
    return folder
