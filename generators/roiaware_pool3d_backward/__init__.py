"""roiaware_pool3d_backward: gives the gradients of pooled features back to the points that were pooled."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    SizedAxis,
    Status,
    TensorSpec,
    Theory,
    axis,
    checks,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.reductions import Reduction, changed, renumbered
from mluops_gtest.authoring.sums import lattice_unit

from .._shared import roiaware as roi
from .suspects import SUSPECTS, cells, sums, terms

INPUTS: Final = ("pts_idx_of_voxels", "argmax", "grad_out")
MOST_POINTS: Final = 98240


# What is checked, in normative order.


CHECKS = (
    checks.handle("§3.7 (1)"),
    checks.descriptors(doc="§3.7 (1)"),
    checks.ranks(doc="§3.7 (2)"),
    checks.dims(doc="§3.7 (3)"),
    checks.dtypes("pts_idx_of_voxels", "argmax", "grad_out", "grad_in = grad_out", doc="§3.7 (4)"),
    checks.params("pool_method", doc="§3.7 (5)"),
    # §1.1: what has no element is refused.
    checks.params("boxes_num", "channels", "max_pts_each_voxel", *roi.GRID, doc="§1.1"),
    checks.require("points", lambda call: call.tensor("grad_in").dims[0] > 0, "there must be points", "§1.1"),
    checks.strided(doc="§1.4"),
    roi.at_most("boxes_num", roi.MOST),
    roi.at_most("channels", roi.MOST),
    # §1.4's 2048 is older than the library's limit.
    roi.at_most("max_pts_each_voxel", MOST_POINTS),
    checks.large(doc="§3.7 (8)"),
    checks.empty("grad_in", doc="§1.1", status=Status.BAD_PARAM),
    # Both tables, in both modes.
    checks.pointers(doc="§3.7 (10)"),
    checks.arch("released; asked last"),
)


def precondition(call: OpCall) -> str | None:
    """The table of the mode names points that exist; the other one is not read."""
    points = call.tensor("grad_in").dims[0]
    if roi.is_max(call):
        # §1.4 demands [0, P − 1] and forgets the −1 of cells without points.
        argmax = call.array("argmax")
        return None if ((argmax >= -1) & (argmax < points)).all() else "argmax names a point that does not exist"
    lists = call.array("pts_idx_of_voxels")
    lists = lists.reshape(-1, lists.shape[-1])
    # §1.4 allows a count of K, whose last entry would lie in the next row; forward lists K − 1 at most.
    if not ((lists[:, 0] >= 0) & (lists[:, 0] < lists.shape[1])).all():
        return "pts_idx_of_voxels counts less than 0 or more than K − 1 points"
    lists = lists[lists[:, 0] > 0]
    is_named = np.arange(1, lists.shape[1]) <= lists[:, :1]
    is_there = (lists[:, 1:] >= 0) & (lists[:, 1:] < points)
    return None if (is_there | ~is_named).all() else "pts_idx_of_voxels names a point that does not exist"


# The oracle: exact sums of gradients or of their quotients, rounded once.


def reference(call: OpCall) -> Baseline:
    """Every element, also of points that nobody names."""
    return Baseline({"grad_in": sums(call, terms(call))})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """A term meets a division, or a reciprocal and a product, and the additions of its sum."""
    added = terms(call)
    if roi.is_max(call):
        return {"grad_in": Bound(added.magnitudes, added.met, unit=lattice_unit(call.array("grad_out")))}
    return {"grad_in": Bound(added.magnitudes, added.met + 2)}


def theory(call: OpCall) -> Theory:
    """An addition per named point, and a division with the mean; the table of the mode, and both gradients."""
    table = "argmax" if roi.is_max(call) else "pts_idx_of_voxels"
    touched = sum(call.tensor(name).desc.nbytes for name in (table, "grad_out", "grad_in"))
    return Theory(touched, len(terms(call).places) * (1 if roi.is_max(call) else 2))


# One element as §1.2 and §3.2 define it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Over all cells, without rounding."""
    grads = cells(call, "grad_out")

    @cache
    def listing() -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for cell, row in enumerate(cells(call, "pts_idx_of_voxels").tolist()):
            for point in row[1 : 1 + row[0]]:
                found.setdefault(point, []).append((cell, row[0]))
        return found

    def grad_in(point: int, channel: int) -> Fraction | float:
        if roi.is_max(call):
            return total(grads[cells(call, "argmax")[:, channel] == point, channel].astype(np.float64))
        own = [(float(grads[cell, channel]), count) for cell, count in listing().get(point, [])]
        if not np.isfinite([grad for grad, _ in own]).all():
            return total(np.array([grad for grad, _ in own]))
        return sum((Fraction(grad) / count for grad, count in own), Fraction(0))

    return {"grad_in": grad_in}


# The kernel that the numpy backend runs: cell by cell, in float32, the mean by a reciprocal.


def kernel(call: OpCall) -> Status:
    """Check the call, clear grad_in, give every cell's gradients to its points."""
    refused = _refusal(call)
    if refused is not None:
        return refused
    lists, argmax, grads = (call.array(name).reshape(-1, call.tensor(name).dims[-1]) for name in INPUTS)
    added = np.zeros(call.tensor("grad_in").dims, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if roi.is_max(call):
            for cell in np.flatnonzero((argmax != -1).any(axis=1)).tolist():
                channels = np.flatnonzero(argmax[cell] != -1)
                added[argmax[cell, channels], channels] += grads[cell, channels]
        else:
            for cell in np.flatnonzero(lists[:, 0]).tolist():
                count = int(lists[cell, 0])
                share = grads[cell].astype(np.float32) * (np.float32(1) / np.float32(count))
                for point in lists[cell, 1 : 1 + count].tolist():
                    added[point] += share
        call.array("grad_in")[...] = added
    return Status.SUCCESS


def _refusal(call: OpCall) -> Status | None:
    numbers, result = roi.numbers_of(call), call.outputs["grad_in"]
    channels = numbers["channels"]
    cells = tuple(numbers[name] for name in ("boxes_num", *roi.GRID))
    # How many points there are, grad_in alone says.
    points = result.dims[0] if result is not None and result.dims else 0
    dims = dict.fromkeys(("argmax", "grad_out"), (*cells, channels))
    dims |= {"pts_idx_of_voxels": (*cells, numbers["max_pts_each_voxel"]), "grad_in": (points, channels)}
    return roi.kernel_refusal(call, dims, 98240)


# With torch: one scatter of all terms.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_in."""
    import torch

    lists, argmax, grads = (inputs[name].reshape(-1, inputs[name].shape[-1]) for name in INPUTS)
    result, grads = outputs["grad_in"], grads.float()
    added = torch.zeros(result.shape)
    if roi.is_max(call):
        cell, channel = (argmax >= 0).nonzero(as_tuple=True)
        added.index_put_((argmax[cell, channel].long(), channel), grads[cell, channel], accumulate=True)
    else:
        counts = lists[:, :1]
        cell, place = (torch.arange(1, lists.shape[1]) <= counts).nonzero(as_tuple=True)
        added.index_add_(0, lists[cell, place + 1].long(), grads[cell] / counts[cell])
    result.copy_(added)


# Fewer points: those that name a lost one name the one before.


def _without_points(call: OpCall, start: int, stop: int) -> Any:
    lists, argmax = call.arrays("pts_idx_of_voxels", "argmax")
    points, channels = call.tensor("grad_in").dims
    moved = renumbered(lists, start, stop)
    moved[..., 0] = lists[..., 0]
    named = {"pts_idx_of_voxels": moved, "argmax": np.where(argmax < 0, argmax, renumbered(argmax, start, stop))}
    return changed(call, named, outputs={"grad_in": (points - stop + start, channels)})


_CELLS: Final = f"[{roi.CELLS}, channels]"

OPERATOR = Operator(
    name="roiaware_pool3d_backward",
    released_name="roiaware_pool3d_backward",
    op_type=("ROIAWARE_POOL3D_BACKWARD", 10121),
    summary="Gives the gradients of cells to their largest points, or in equal parts to all points of the list.",
    # §3.7 checks no layout. The header calls the inputs outputs, and grad_in an input.
    inputs=(
        TensorSpec("pts_idx_of_voxels", f"[{roi.CELLS}, max_pts_each_voxel]", (DType.INT32,), None),
        TensorSpec("argmax", _CELLS, (DType.INT32,), None),
        TensorSpec("grad_out", _CELLS, roi.FLOATS, None),
    ),
    # Those of forward's mean.
    outputs=(OutputSpec("grad_in", "[P, channels]", roi.CRITERIA, None),),
    # Not in the order of forward's message.
    params=roi.roiaware_params(
        *("roiaware_pool3d_backward_param", 10121, "RoiawarePool3dBackwardParam"),
        *("boxes_num", *roi.GRID, "channels", "max_pts_each_voxel"),
    ),
    axes={
        "boxes": axis("boxes_num", of="grad_out"),
        "channels": axis("channels", of="grad_out"),
        "points": axis("P", of="grad_in"),
    },
    sizes={"boxes": SizedAxis("grad_out", 0), "channels": SizedAxis("grad_out", 4)},
    reductions={"points": Reduction(lambda call: call.tensor("grad_in").dims[0], _without_points)},
    checks=CHECKS,
    subsumed={
        "grad_out_large": "grad_out has the dims of argmax, which is asked first",
        "grad_in_empty": "channels and points are positive by then",
    },
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    precondition=precondition,
    left_open={"subnormal": find_subnormal},
    order_free=True,
    c_api=c_function(
        "mluOpRoiAwarePool3dBackward",
        arguments=(
            HANDLE,
            *scalar("pool_method", "boxes_num", *roi.GRID, "channels", "max_pts_each_voxel"),
            *tensor(*INPUTS, "grad_in"),
        ),
        # The header calls this name deprecated.
        twins={"mluOpRoiAwarePool3dBackward": "mluOpRoiawarePool3dBackward"},
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
