"""focal_loss_sigmoid_forward: output[n, c] = −αt · (1 − pt)^γ · ln pt, times the weight of the row's target.

pt is p = 1/(1 + e^−x) and αt is alpha where c == target[n]; elsewhere pt is 1 − p and αt is 1 − alpha.
"""

from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg, TensorSpec, checks

from .._shared import focal_loss as focal
from .._shared.refusals import Refusals
from .._shared.wrong_focal_loss import Mistake, Wrong, focal_mutants, relabelled, rounded, suspects

# Ruling, §1.2: the factor of a row is weight[target[n]] in all its columns, not weight[c]. §3.1: with γ = 0 the power
# is 1, also 0^0. §1.5.1 has norms alone: no error per element is stated, and DIFF3 never applies.
# §1.4: ULTRAHIGH_PRECISION is not supported. Ruling: FAST and HIGH_PRECISION have one answer, the real formula; mmcv
# and the released FAST baseline form 1 − p in float and clamp it at FLT_MIN, and are wrong from x = 16.7 on.

# C, in whose row every column is "otherwise", is outside; the precondition has the limits.
TARGET: Final = TensorSpec("target", "[N]", (DType.INT32,), None, names="C", outside="skipped")

CHECKS = (
    checks.handle("§2.2"),
    checks.descriptors(doc="§2.2"),
    # §1.4: SUM and MEAN are refused, not computed.
    checks.params("prefer", "reduction", doc="§1.4", status=Status.NOT_SUPPORTED),
    # §1.4: [0, +∞), so 0 is legal; alpha may be any number.
    checks.require(
        "gamma", lambda call: not call.param("gamma") < 0, "gamma must not be negative", "§1.4", Status.NOT_SUPPORTED
    ),
    checks.ranks("input", "target", doc="§1.3"),
    checks.dims("target.0", doc="§1.3"),
    checks.ranks("output", doc="§1.3"),
    checks.dims("output.0", "output.1", doc="§1.3"),
    checks.dtypes("input", "target", "output = input", doc="§1.3"),
    checks.only_if(
        focal.has_weight,
        checks.dtypes("weight = input", doc="§1.3"),
        checks.ranks("weight", doc="§1.3"),
        checks.dims("weight.0", doc="§1.3"),
    ),
    # As released: what the check function refuses is all BAD_PARAM.
    checks.large("input", doc="released", status=Status.BAD_PARAM),
    # Where target or output has no elements, input has none.
    checks.empty("input", doc="§1.1"),
    checks.only_if(focal.has_weight, checks.pointers("weight", doc="§2.2")),
    checks.strided("weight", doc="§1.1"),
    checks.pointers("input", "target", "output", doc="§2.2"),
    checks.strided("input", "target", "output", doc="§1.1"),
)
# Where columns are split, without weight and with it (§3.3).
SPLITS: Final = (27296, 23392)


def _of_part(split: int) -> Mistake:
    return relabelled(lambda t, _: t, lambda columns: np.arange(columns) % split)


# Mistakes that are no mistakes of the derivative, which is flat where x is small.
_WRONG: Final[Wrong] = {
    "x is −18 at least": lambda r, _: r._replace(x=np.maximum(r.x, -18)),
    **{f"targets are compared with columns of a part of {split}": _of_part(split) for split in SPLITS},
    "gamma is the power of pt": lambda r, _: focal.losses(r, lambda q, pt, ln, g: -((pt / q) ** g) * ln),
    "the logarithm is that of 1 − pt": lambda r, _: focal.losses(r, lambda q, *_: -np.log(q)),
    "the result is the derivative": lambda r, _: focal.gradients(r),
    "arithmetic is in bfloat16": rounded(focal.loss_term),
    "arithmetic is in half": rounded(focal.loss_term, np.float16, np.float16),
    "1 − p is formed in float": rounded(focal.loss_term, np.float32, np.float32),
}

# The kernel that the numpy backend runs: all columns as otherwise, then the targets' (§3.1).


def _compute(x: Array, hits: tuple[Array, Array], alpha: np.float32, gamma: np.float32) -> Array:
    loss = np.asarray(_loss(-x, gamma) * (np.float32(1) - alpha))
    loss[hits] = _loss(x[hits], gamma) * alpha
    return loss


def _loss(z: Array, gamma: np.float32) -> Array:
    """−(1 − pt)^γ · ln pt for pt = 1/(1 + e^−z), by log-sum-exp."""
    one, e = np.float32(1), np.exp(-np.abs(z))
    power = np.exp2(gamma * np.log2(np.where(z > 0, e, one) / (one + e))) if gamma else one
    loss: Array = power * (np.maximum(-z, np.float32(0)) + np.log1p(e))
    return loss


def _refuse(call: OpCall, tensors: focal.Tensors, weights: list[TensorArg]) -> Refusals:
    yield call.param("prefer") == 2 or call.param("reduction") != 0 or call.param("gamma") < 0, Status.NOT_SUPPORTED
    yield not focal.shapes_fit(tensors, weights) or tensors[0].desc.count >= 1 << 31, Status.BAD_PARAM
    yield 0 in tensors[0].dims, Status.SUCCESS
    for args in (weights, tensors):
        yield any(arg.null for arg in args), Status.BAD_PARAM
        yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED


OPERATOR = focal.LOSS.operator(
    summary="The focal loss of every logit, whose class is the row's target or is not.",
    target=TARGET,
    checks=CHECKS,
    refuse=_refuse,
    compute=_compute,
    suspects=suspects(focal.LOSS, _WRONG),
    mutants=partial(focal_mutants, splits=SPLITS),
)
