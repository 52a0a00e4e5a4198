"""The content that campaigns run: one tiny operator, a case for every fault, and calm cases between them."""

import random
from pathlib import Path

from tests.campaign.faults import Fault, everything
from tests.campaign.sandbox import ROOT, Sandbox

BACKEND = f"{ROOT / 'tests' / 'campaign' / 'backend.py'}:backend"
CALM = "calm"
_CALM_CASES = 200

_GENERATOR = '''
"""Doubles a vector, unless the case asks the campaign's backend for a fault."""

import numpy as np

from mluops_gtest.authoring import (
    Baseline, DType, Operator, OutputSpec, ParamField, ParamMessage, RecipeOutput, Status, TensorSpec, Theory,
    checks, exact,
)


def reference(call):
    return Baseline({"y": (call.array("x").astype(np.float64) * 2).astype("<f4")})


def kernel(call):
    call.array("y")[...] = call.array("x") * np.float32(2)
    return Status.SUCCESS


def noise(draw, params, dtype, *, count: int):
    return RecipeOutput({"x": draw.stream("x").lattice(count, 20)}, {"fault": 0, **params})


def tiny(draw, params, dtype, *, count: int):
    """Subnormal numbers."""
    return RecipeOutput({"x": draw.stream("x").lattice(count, 20) * np.float32(1e-40)}, {"fault": 0, **params})


OPERATOR = Operator(
    name="trial", released_name="trial", op_type=("TRIAL", 9998),
    summary="Doubles a vector.",
    inputs=(TensorSpec("x", "[N]", (DType.FLOAT,)),),
    outputs=(OutputSpec("y", "[N]", {DType.FLOAT: exact()}),),
    params=ParamMessage("trial_param", 9002, "TrialParam", (ParamField("fault", 1, default=0),)),
    checks=(
        checks.handle_present("§1"),
        *checks.descriptors_present(["x", "y"], "§1"),
        checks.rank("x", 1, "§1"),
        checks.require("same_dims", lambda c: c.tensor("x").dims == c.tensor("y").dims, "x and y differ", "§1"),
        checks.not_empty("x", "§1"),
        *checks.pointers_present(["x", "y"], "§1"),
    ),
    reference=reference, kernel=kernel, recipes={"noise": noise, "tiny": tiny},
    theory=lambda call: Theory(8 * call.tensor("x").desc.count, call.tensor("x").desc.count),
)
'''


def write_content(folder: Path, seed: int) -> Path:
    """A content root with a case for every fault and the calm cases, in an order drawn from the seed."""
    root = folder / "root"
    for name in ("generators", "cases", "prototxt"):
        (root / name).mkdir(parents=True)
    (root / "generators" / "trial.py").write_text(_GENERATOR)
    draw = random.Random(seed)
    entries = [(case_id(fault), number) for number, fault in enumerate(everything().values(), 1)]
    entries += [(name, 0) for name in calm_ids()]
    draw.shuffle(entries)
    lines = [
        f'- {{name: {name.partition("/")[2]}, tags: [random], doc: "§1", params: {{fault: {number}}}, '
        f"data: {{recipe: {'tiny' if name in tiny_ids() else 'noise'}, count: {draw.choice((16, 64, 1000, 5000))}}}}}\n"
        for name, number in entries
    ]
    (root / "cases" / "trial.yaml").write_text("".join(lines))
    made = Sandbox(folder / "generate").run("generate", "--all", "--root", root)
    if made.code != 0:
        raise RuntimeError(f"the content of the campaign cannot be made: {made.err}")
    return root


def case_id(fault: Fault) -> str:
    """The case with this fault."""
    return f"trial/f_{fault.name}"


def calm_ids() -> list[str]:
    """Cases that do nothing wrong, and notice what others did to their process."""
    return [f"trial/{CALM}_{i:03}" for i in range(_CALM_CASES)]


def tiny_ids() -> list[str]:
    """Those of them whose numbers are subnormal."""
    return calm_ids()[::10]
