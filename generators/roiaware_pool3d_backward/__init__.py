"""roiaware_pool3d_backward: gives the gradients of pooled features back to the points that were pooled."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any, Final, Literal, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, Draw, DType, OpCall, RecipeOutput, c_api, call_of, checks, left_open, sums
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, total
from mluops_gtest.authoring.reductions import Reduction, changed, renumbered
from mluops_gtest.authoring.space import Choice, Drawn, Space
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_inputs, with_params

from .._shared import roiaware as roi
from .._shared import roiaware_scenes as scenes
from .._shared.boxes import Ints
from .._shared.refusals import first_status
from .._shared.roiaware_scenes import Features

INPUTS: Final = ("pts_idx_of_voxels", "argmax", "grad_out")
LISTS, GRAD = "pts_idx_of_voxels", "grad_in"

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
    roi.at_most("boxes_num", 65535),
    roi.at_most("channels", 65535),
    # §1.4's 2048 is older than the library's limit.
    roi.at_most("max_pts_each_voxel", 98240),
    checks.large(doc="§3.7 (8)"),
    checks.empty("grad_in", doc="§1.1", status=mg.Status.BAD_PARAM),
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
    lists = by_cell(call, LISTS)
    counts = lists[:, :1]
    # §1.4 allows a count of K, whose last entry would lie in the next row; forward lists K − 1 at most.
    if not ((counts >= 0) & (counts < lists.shape[1])).all():
        return "pts_idx_of_voxels counts less than 0 or more than K − 1 points"
    named = lists[:, 1:][np.arange(1, lists.shape[1]) <= counts]
    return None if ((named >= 0) & (named < points)).all() else "pts_idx_of_voxels names a point that does not exist"


# By the place in a list and the counts.
Named = Callable[[Array, Array], Array]


def by_cell(call: OpCall, name: str) -> Array:
    """[V, …]: a tensor by cell."""
    array = call.array(name)
    return array.reshape(-1, array.shape[-1])


def terms(call: OpCall) -> roi.Terms:
    """What is added to the points that the table of the mode names; what is no point is none."""
    if roi.is_max(call):
        points, channels = call.tensor(GRAD).dims
        argmax = by_cell(call, "argmax")
        cell, channel = np.nonzero((argmax >= 0) & (argmax < points))
        grads = by_cell(call, "grad_out")[cell, channel].astype(np.float64)
        places = argmax[cell, channel].astype(np.int64) * channels + channel
        return roi.Terms(places, grads, np.ones(len(grads), np.int64), (points, channels))
    counts = by_cell(call, LISTS)[:, :1]
    return _shares(call, int(counts.max()), is_listed, counts[:, 0])


def is_listed(place: Array, counts: Array) -> Array:
    """bool [V, K]: behind the count, and not behind the points."""
    return np.asarray((place > 0) & (place <= counts))


def _shares(call: OpCall, last: int, is_named: Named, divisors: Array) -> roi.Terms:
    """Where the points of lists share the gradients of their cells, by the place in the list, up to the last one."""
    lists, dims = by_cell(call, LISTS)[:, : 1 + last], call.tensor(GRAD).dims
    named = is_named(np.arange(lists.shape[1]), lists[:, :1])
    cell, place = np.nonzero(named & (lists >= 0) & (lists < dims[0]))
    values = by_cell(call, "grad_out")[cell]
    return roi.Terms.of_rows(lists[cell, place], values, np.maximum(divisors, 1)[cell], dims)


def _grad(call: OpCall, added: roi.Terms) -> Array:
    return added.sums(call.tensor(GRAD).dtype.storage)


def reference(call: OpCall) -> mg.Baseline:
    """Every element, exact and rounded once; +0 for points that nobody names: the operator clears grad_in itself."""
    return mg.Baseline({GRAD: _grad(call, terms(call))})


def bound(call: OpCall) -> Mapping[str, mg.Bound]:
    """A term meets a division, or a reciprocal and a product, and the additions of its sum."""
    added = terms(call)
    if roi.is_max(call):
        return {GRAD: mg.Bound(added.magnitudes, added.met, unit=sums.lattice_unit(call.array("grad_out")))}
    return {GRAD: mg.Bound(added.magnitudes, added.met + 2)}


def theory(call: OpCall) -> mg.Theory:
    """An addition per named point, and a division with the mean; the table of the mode, and both gradients."""
    table = "argmax" if roi.is_max(call) else LISTS
    touched = sum(call.tensor(name).desc.nbytes for name in (table, "grad_out", GRAD))
    return mg.Theory(touched, len(terms(call).places) * (1 if roi.is_max(call) else 2))


# Mistakes that kernels make about what is added, about both tables, and about grad_out.


def _assigned(call: OpCall) -> Mapping[str, Array]:
    added, grad = terms(call), np.zeros(call.tensor(GRAD).dims, call.tensor(GRAD).dtype.storage)
    grad.reshape(-1)[added.places] = added.quotients
    return {GRAD: grad}


def _last_box_wins(call: OpCall) -> Mapping[str, Array]:
    grads, last = call.array("grad_out"), np.zeros(call.tensor(GRAD).dims, call.tensor(GRAD).dtype.storage)
    number = np.arange(len(grads)).reshape(-1, 1, 1, 1, 1)
    for box in range(len(grads)):
        alone = with_inputs(call, grad_out=np.where(number == box, grads, 0))
        own = _grad(alone, terms(alone))
        last = np.where(own != 0, own, last)
    return {GRAD: last}


def _minus_one_is_last(call: OpCall) -> OpCall:
    argmax = call.array("argmax")
    return with_inputs(call, argmax=np.where(argmax < 0, call.tensor(GRAD).dims[0] - 1, argmax))


def _strided_by_lists(call: OpCall) -> OpCall:
    grads, most = call.array("grad_out"), int(call.param("max_pts_each_voxel"))
    channels = grads.shape[-1]
    place = np.arange(grads.size // channels)[:, None] * most + np.arange(channels)
    return with_inputs(call, grad_out=np.take(grads, place, mode="wrap").reshape(grads.shape))


def _once(points: Array) -> Array:
    """A point that is listed again is none."""
    is_again = (points[..., :, None] == points[..., None, :]) & np.tri(points.shape[-1], k=-1, dtype=bool)
    return np.where(is_again.any(axis=-1), -1, points)


def _of_points(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Lists with other points and the same counts."""
    return lambda lists: np.append(lists[..., :1], change(lists[..., 1:]), axis=-1)


def _read(**changes: Callable[[Array], Array]) -> Suspect:
    return as_read(reference, misread(**changes))


def _of_mean(
    call: OpCall, is_named: Named = is_listed, divisors: Callable[[Array, int], Array] = lambda counts, _: counts
) -> Mapping[str, Array]:
    """With other places that count, and divisors, by the counts and K."""
    most = int(call.param("max_pts_each_voxel"))
    own = divisors(by_cell(call, LISTS)[:, 0], most)
    return {} if roi.is_max(call) else {GRAD: _grad(call, _shares(call, most, is_named, own))}


SUSPECTS: Final[Mapping[str, Suspect]] = {
    "gradients are assigned, not added": _assigned,
    "a box overwrites what others gave": _last_box_wins,
    "−1 is the last point": as_read(reference, _minus_one_is_last),
    "−1 is point 0": _read(argmax=lambda argmax: np.maximum(argmax, 0)),
    "point 0 is none": _read(argmax=lambda argmax: np.where(argmax == 0, -1, argmax)),
    "argmax counts from 1": _read(argmax=lambda argmax: argmax - 1),
    "argmax is that of the first channel": _read(argmax=lambda argmax: np.broadcast_to(argmax[..., :1], argmax.shape)),
    "gradients are not divided": partial(_of_mean, divisors=lambda counts, _: np.ones_like(counts)),
    "gradients are divided by K": partial(_of_mean, divisors=np.full_like),
    "gradients are divided by K − 1": partial(_of_mean, divisors=lambda counts, most: np.full_like(counts, most - 1)),
    "gradients are divided by one more": partial(_of_mean, divisors=lambda counts, _: counts + 1),
    "the count is taken for a point": partial(_of_mean, is_named=lambda place, counts: place < counts),
    "the last point of a list is left out": partial(
        _of_mean, is_named=lambda place, counts: (place > 0) & (place < counts)
    ),
    "the first point of a list is left out": partial(
        _of_mean, is_named=lambda place, counts: (place > 1) & (place <= counts)
    ),
    "entries behind the count are read": partial(_of_mean, is_named=lambda place, counts: place > 0 * counts),
    "listed points count from 1": _read(pts_idx_of_voxels=_of_points(lambda points: points - 1)),
    "point 0 is none in lists": _read(pts_idx_of_voxels=_of_points(lambda points: np.where(points == 0, -1, points))),
    "a point that is listed twice counts once": _read(pts_idx_of_voxels=_of_points(_once)),
    "maximum and mean are exchanged": as_read(
        reference, lambda call: with_params(call, pool_method=1 - call.param("pool_method"))
    ),
    "grad_out has rows of K": as_read(reference, _strided_by_lists),
    "every box has the lists and points of the first": _read(
        pts_idx_of_voxels=lambda lists: np.broadcast_to(lists[:1], lists.shape),
        argmax=lambda argmax: np.broadcast_to(argmax[:1], argmax.shape),
    ),
    "every gradient goes to the next point": lambda call: {GRAD: np.roll(_grad(call, terms(call)), 1, axis=0)},
    "grad_in is written as [C, P]": lambda call: {GRAD: _grad(call, terms(call)).T.reshape(call.tensor(GRAD).dims)},
}


# One element as §1.2 and §3.2 define it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Over all cells, without rounding."""
    grads = by_cell(call, "grad_out")

    @cache
    def shares() -> dict[int, list[tuple[int, int]]]:
        """By point the cells that list it, and their counts."""
        found: dict[int, list[tuple[int, int]]] = {}
        for cell, row in enumerate(by_cell(call, LISTS).tolist()):
            for point in row[1 : 1 + row[0]]:
                found.setdefault(point, []).append((cell, row[0]))
        return found

    def grad_in(point: int, channel: int) -> Fraction | float:
        if roi.is_max(call):
            return total(grads[by_cell(call, "argmax")[:, channel] == point, channel].astype(np.float64))
        own = (fraction(grads[cell, channel]) / count for cell, count in shares().get(point, []))
        return sum(own, Fraction(0))

    return {GRAD: grad_in}


# The kernel that the numpy backend runs: by ascending cells, in float32, the mean by a reciprocal.


def kernel(call: OpCall) -> mg.Status:
    """Check the call, clear grad_in, give every cell's gradients to its points."""
    # How many points there are, grad_in alone says.
    result = call.outputs[GRAD]
    points = result.dims[0] if result is not None and result.dims else 0
    if (refused := first_status(roi.kernel_refusals(OPERATOR, call, 98240, P=points))) is not None:
        return refused
    lists, argmax, grads = (call.array(name).reshape(-1, call.tensor(name).dims[-1]) for name in INPUTS)
    added = np.zeros(call.tensor("grad_in").dims, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if roi.is_max(call):
            cell, channel = np.nonzero(argmax != -1)
            np.add.at(added, (argmax[cell, channel], channel), grads[cell, channel].astype(np.float32))
        else:
            counts = lists[:, :1]
            cell, place = np.nonzero(np.arange(1, lists.shape[1]) <= counts)
            shares = grads[cell].astype(np.float32) * (np.float32(1) / counts[cell].astype(np.float32))
            np.add.at(added, lists[cell, place + 1], shares)
        call.array("grad_in")[...] = added
    return mg.Status.SUCCESS


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


# Recipes: the tables that forward gives for its scenes, and tables drawn for what they are to show.

# any: points anywhere, the first and the last among them; distinct: no point twice in a channel; one_point: all cells;
# ends: the first and the last alone; counts: 0, 1 and K − 1 in turn; twice: the two points of a list are one;
# empty_channel: −1 throughout channel 0; empty: no point at all. Behind the counts stand points that must not count.
Kind = Literal["any", "distinct", "one_point", "ends", "counts", "twice", "empty_channel", "empty"]

_NAMES: Final = ("pool_method", "boxes_num", *roi.GRID, "channels", "max_pts_each_voxel")


def scene(
    draw: Draw, params: mg.Params, dtype: DType, *, points: int = 16, objects: int = 1, grads: Features = "full"
) -> RecipeOutput:
    """Tables of boxes around objects on a road."""
    return _of_forward(draw, params, dtype, points, grads, partial(scenes.scene, objects=objects))


def cells(
    draw: Draw, params: mg.Params, dtype: DType, *, counts: Ints, points: int = 16, grads: Features = "full"
) -> RecipeOutput:
    """Tables of two straight boxes with so many points in their first cells."""
    return _of_forward(draw, params, dtype, points, grads, partial(scenes.cells, counts=counts))


def _of_forward(
    draw: Draw, params: mg.Params, dtype: DType, points: int, grads: Features, recipe: Callable[..., RecipeOutput]
) -> RecipeOutput:
    p = scenes.complete({**params, "pts_num": points})
    made = recipe(draw, {**p, "pool_method": roi.MAX}, dtype)
    given = roi.outputs(call_of("roiaware_pool3d_forward", made.params, made.inputs))
    # The table of the other mode is that of the next cell: whoever reads it is found out.
    other = LISTS if p["pool_method"] == roi.MAX else "argmax"
    rows = given[other].reshape(-1, given[other].shape[-1])
    given[other] = np.roll(rows, 1, axis=0).reshape(given[other].shape)
    return _complete_output(draw, p, dtype, {name: given[name] for name in INPUTS[:2]}, points, grads)


def tables(
    draw: Draw, params: mg.Params, dtype: DType, *, points: int = 16, kind: Kind = "any", grads: Features = "full"
) -> RecipeOutput:
    """Tables of that kind."""
    p = scenes.complete(params)
    shape = tuple(int(p[name]) for name in ("boxes_num", *roi.GRID))
    number, most, channels = math.prod(shape), int(p["max_pts_each_voxel"]), int(p["channels"])
    one = min(1, most - 1)
    counts = draw.stream("counts").integers(0, most, number)
    lists = draw.stream("lists").integers(0, points, (number, most))
    argmax = draw.stream("argmax").integers(-1, points, (number, channels))
    match kind:
        case "any":
            counts[[0, -1]] = one
            for table in (lists[:, 1:], argmax):
                table[0], table[-1] = 0, points - 1
        case "distinct":
            if points < number:
                raise ValueError(f"{number} cells have no point each; there are {points}")
            counts[:] = one
            lists[:, 1:2] = _sample(draw, "listed", points, number)[:, None]
            argmax = np.stack([_sample(draw, f"argmax {c}", points, number) for c in range(channels)], axis=1)
        case "one_point":
            counts[:] = one
            lists[:], argmax[:] = points // 2, points // 2
        case "ends":
            lists, argmax = (np.where(table % 2, points - 1, 0) for table in (lists, argmax))
        case "counts":
            counts = np.array((0, one, most - 1))[np.arange(number) % 3]
        case "twice":
            if most < 3:
                raise ValueError("lists of two points need K ≥ 3")
            counts[:], lists[:, 2] = 2, lists[:, 1]
        case "empty_channel":
            argmax[:, 0] = -1
        case "empty":
            counts[:], argmax[:] = 0, -1
    lists[:, 0] = counts
    given = {name: table.reshape(*shape, -1).astype("<i4") for name, table in ((LISTS, lists), ("argmax", argmax))}
    return _complete_output(draw, p, dtype, given, points, grads)


def _sample(draw: Draw, name: str, points: int, number: int) -> Array:
    """Distinct points, the first and the last among them."""
    chosen = draw.stream(name).sample(points, number)
    for end, place in ((0, 0), (points - 1, -1)):
        if end not in chosen:
            chosen[place] = end
    return chosen


def _complete_output(
    draw: Draw, p: dict[str, Any], dtype: DType, given: Mapping[str, Array], points: int, grads: Features
) -> RecipeOutput:
    shape = given["argmax"].shape
    drawn = scenes.draw_features(draw, dtype, (math.prod(shape[:-1]), shape[-1]), grads)
    inputs, params = {**given, "grad_out": drawn.reshape(shape)}, {name: p[name] for name in _NAMES}
    result = {GRAD: np.empty((points, shape[-1]), dtype.storage)}
    terms(call_of(OPERATOR.name, params, inputs, result)).assert_sums_pass(dtype)
    return RecipeOutput(inputs, params, outputs={GRAD: result[GRAD].shape})


def draw_call(at: Mapping[str, Any]) -> Drawn:
    """A call of one of the recipes."""
    own = {"scene": {"objects": at["few"]}, "cells": {"counts": (at["pts_num"] // 4,)}}
    recipe = at["what"] if at["what"] in own else "tables"
    args = {"points": at["pts_num"], "grads": at["grads"], **own.get(at["what"], {"kind": at["what"]})}
    return Drawn(recipe, {name: at[name] for name in _NAMES}, args, at["dtype"])


_GRADS: Final = tuple(kind for kind in get_args(Features) if kind not in ("tiny", "zeros"))
SPACE: Final = Space(
    axes={**scenes.scene_axes(), "what": Choice(("scene", "cells", *get_args(Kind))), "grads": Choice(_GRADS)},
    draw=draw_call,
    elements=scenes.scene_elements,
)

OPERATOR = mg.Operator(
    name="roiaware_pool3d_backward",
    op_type=("ROIAWARE_POOL3D_BACKWARD", 10121),
    summary="Gives the gradients of cells to their largest points, or in equal parts to all points of the list.",
    # §3.7 checks no layout. The header calls the inputs outputs, and grad_in an input.
    inputs=(
        mg.TensorSpec(LISTS, roi.LISTS, (DType.INT32,), None),
        mg.TensorSpec("argmax", roi.OF_CHANNELS, (DType.INT32,), None),
        mg.TensorSpec("grad_out", roi.OF_CHANNELS, roi.FLOATS, None),
    ),
    # Those of forward's mean.
    outputs=(mg.OutputSpec(GRAD, "[P, channels]", roi.CRITERIA, None),),
    # Not in the order of forward's message.
    params=roi.roiaware_params("backward", 10121, "boxes_num", *roi.GRID, "channels", "max_pts_each_voxel"),
    axes={
        "boxes": mg.axis("boxes_num", of="grad_out"),
        "channels": mg.axis("channels", of="grad_out"),
        "points": mg.axis("P", of=GRAD),
    },
    reductions={"points": Reduction(lambda call: call.tensor(GRAD).dims[0], _without_points)},
    checks=CHECKS,
    subsumed={
        "grad_out_large": "grad_out has the dims of argmax, which is asked first",
        "grad_in_empty": "channels and points are positive by then",
    },
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    recipes={"scene": scene, "cells": cells, "tables": tables},
    space=SPACE,
    suspects=SUSPECTS,
    precondition=precondition,
    left_open={"subnormal": left_open.find_subnormal},
    order_free=True,
    c_api=c_api.c_function(
        "mluOpRoiAwarePool3dBackward",
        arguments=(
            c_api.HANDLE,
            *c_api.scalar("pool_method", "boxes_num", *roi.GRID, "channels", "max_pts_each_voxel"),
            *c_api.tensor(*INPUTS, GRAD),
        ),
        # The header calls this name deprecated.
        twins={"mluOpRoiAwarePool3dBackward": "mluOpRoiawarePool3dBackward"},
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
