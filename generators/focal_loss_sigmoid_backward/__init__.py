"""focal_loss_sigmoid_backward: the derivative of focal_loss_sigmoid_forward by its input, without an incoming gradient.

With p = 1/(1 + e^−x), in the target's column −α · (1 − p)^γ · (1 − p − γ · p · ln p), in all others −(1 − α) · p^γ ·
(γ · (1 − p) · ln(1 − p) − p), times the weight of the row's target.
"""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg, TensorSpec, checks, reductions

from .._shared import focal_loss as focal
from .._shared.refusals import Refusals
from .._shared.wrong_focal_loss import Wrong, focal_mutants, rounded, suspects

# §1.1 and §1.2 name a grad_output; §1.3, the function of §2.2 and mmcv's kernel have none.
# Rulings as in forward: a row's factor is weight[target[n]]; with γ = 0 the power is 1; no error per element is stated.
# §1.4 says that HIGH_PRECISION is not supported, of "reduction": a slip. It is the only one that is.

# Rows are short: targets never leave 16 bits, so no `names`.
TARGET: Final = TensorSpec("target", "[N]", (DType.INT32,), None)
# §1.4 has (0, …) and [0, 10000], §1.3 [0, 8] and [0, 1000]: header and code take 0 to 10000.
MOST_GAMMA: Final = 10000


def most_columns(dtype: DType, nram_bytes: int, *, is_weighted: bool) -> int:
    """As released, how many columns fit into the on-chip memory; §1.4's numbers belong to another size of it."""
    align = 256 if dtype is DType.HALF else 128
    room = nram_bytes - 14 * align
    if not is_weighted:
        return (room // 2 - 4) // 20
    return (room - 136) // 44 // (align // 4) * (align // 4)


def _fits(call: OpCall) -> bool:
    arg, nram = call.tensor("input"), 0 if call.handle is None else call.handle.nram_bytes
    return arg.dims[1] <= most_columns(arg.dtype, nram, is_weighted=focal.has_weight(call))


# As released: what the check function refuses is BAD_PARAM, strides too, and no tensor is too large.
CHECKS = (
    checks.handle("§2.2"),
    checks.descriptors(doc="§2.2"),
    checks.ranks("input", "target", "grad_input", doc="§1.3"),
    checks.dims("grad_input.0", "grad_input.1", "target.0", doc="§1.3"),
    checks.strided("input", "target", "grad_input", "weight", doc="§1.1", status=Status.BAD_PARAM),
    # §1.4 says that half is not supported yet; header and code take it.
    checks.dtypes("input", "grad_input = input", "target", doc="§1.1"),
    checks.only_if(
        focal.has_weight,
        checks.ranks("weight", doc="§1.3"),
        checks.dims("weight.0", doc="§1.3"),
        checks.dtypes("weight = input", doc="§1.1"),
    ),
    checks.params("prefer", "reduction", doc="§1.4", status=Status.NOT_SUPPORTED),
    checks.require(
        "gamma",
        lambda call: not (call.param("gamma") < 0 or call.param("gamma") > MOST_GAMMA),
        "gamma must be in 0 … 10000",
        "§1.4",
        Status.NOT_SUPPORTED,
    ),
    checks.only_if(focal.has_weight, checks.pointers("weight", doc="§2.2")),
    checks.require("columns", _fits, "a row must fit into the on-chip memory", "§1.4", Status.NOT_SUPPORTED),
    # Where target or grad_input has no elements, input has none.
    checks.empty("input", doc="§1.1"),
    checks.pointers("input", "target", "grad_input", doc="§2.2"),
)


# Mistakes that are no mistakes of the loss.
_WRONG: Final[Wrong] = {
    "the result is the loss": lambda r, _: focal.losses(r),
    "the derivative is that by p": lambda r, v: v / (np.exp(-r.x) / (1 + np.exp(-r.x)) ** 2),
    "the target's column has the other sign": lambda _, v: np.abs(v),
    "all columns but the target's have the other sign": lambda r, v: np.where(r.is_target, v, -v),
    "the logarithm's term is missing": lambda r, _: focal.gradients(r, lambda q, *_: q),
    "ln p and ln(1 − p) are exchanged": lambda r, _: focal.gradients(r, lambda q, pt, _ln, g: q - g * pt * np.log(q)),
    "grad_output is the sum of a row": lambda _, v: v * v.sum(axis=1, keepdims=True),
    "arithmetic is in bfloat16": rounded(focal.gradient_term),
}

# The kernel that the numpy backend runs: §3.1's vectors, in which αt is alpha − 1 where a column is not the target's.


def _compute(x: Array, hits: tuple[Array, Array], alpha: np.float32, gamma: np.float32) -> Array:
    one, smallest = np.float32(1), np.finfo(np.float32).tiny
    p = one / (one + np.exp(-x))
    pt, share = one - p, np.full_like(x, alpha - one)
    pt[hits], share[hits] = p[hits], alpha
    power = np.exp(gamma * np.log(np.maximum(one - pt, smallest)))
    gradient: Array = (one - pt - gamma * pt * np.log(np.maximum(pt, smallest))) * (-share * power)
    return gradient


def _refuse(call: OpCall, tensors: focal.Tensors, weights: list[TensorArg]) -> Refusals:
    fits = focal.shapes_fit(tensors, weights) and not any(arg.desc.is_strided for arg in (*tensors, *weights))
    yield not fits, Status.BAD_PARAM
    yield call.param("prefer") != 1 or call.param("reduction") != 0, Status.NOT_SUPPORTED
    yield call.param("gamma") < 0 or call.param("gamma") > 10000, Status.NOT_SUPPORTED
    yield any(arg.null for arg in weights), Status.BAD_PARAM
    # In bytes: 14 alignments, and 20 or 44 for each column.
    lanes = 64 if tensors[0].dtype is DType.HALF else 32
    free = (call.handle.nram_bytes if call.handle else 0) - 14 * 4 * lanes
    most = (free - 136) // (44 * lanes) * lanes if weights else (free // 2 - 4) // 20
    yield tensors[0].dims[1] > most, Status.NOT_SUPPORTED
    yield 0 in tensors[0].dims, Status.SUCCESS
    yield any(arg.null for arg in tensors), Status.BAD_PARAM


OPERATOR = focal.GRADIENT.operator(
    summary="The derivative of every logit's focal loss.",
    target=TARGET,
    checks=CHECKS,
    refuse=_refuse,
    compute=_compute,
    suspects=suspects(focal.GRADIENT, _WRONG),
    mutants=focal_mutants,
    # Targets are renumbered where columns go.
    reductions=lambda operator: {"columns": reductions.along(operator, "C", {"target": None})},
)
