"""active_rotated_filter_forward: writes every filter R times, turned by 360°/R each time, orientations included."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, OpCall, Status, c_api, checks, copy_of, exact_numbers, space, suspects

from .._shared.bit_patterns import KINDS, BitPatterns
from .._shared.refusals import Refusals, first_status, tensors_of

FLOATS: Final = (DType.FLOAT, DType.HALF)
ORIENTATIONS: Final = tuple(1 << power for power in range(8))
SIDES: Final = (1, 3)
ROTATIONS: Final = (2, 4, 8)


def _among(allowed: tuple[int, ...], tensor: str, axis_number: int) -> Callable[[OpCall], bool]:
    return lambda call: call.tensor(tensor).dims[axis_number] in allowed


# What is checked, in normative order; neither the device nor a layout is.

CHECKS = (
    checks.handle("§3.8"),
    checks.descriptors(doc="§3.8"),
    checks.ranks(doc="§3.8"),
    checks.dims("indices.0", "input.3", "indices.1", "indices.2", "output.2", "output.3", doc="§3.8"),
    # §3.8 prints "greater than 1"; §1.3 is right: one orientation is legal.
    checks.require(
        "orientations", _among(ORIENTATIONS, "input", 2), "there must be 1, 2, 4, … or 128 orientations", "§1.3"
    ),
    checks.require("height", _among(SIDES, "input", 3), "a filter must be 1×1 or 3×3", "§1.4"),
    checks.require("rotations", _among(ROTATIONS, "indices", 3), "there must be 2, 4 or 8 rotations", "§1.4"),
    checks.dims("output.0", "output.1", doc="§1.1"),
    checks.strided(doc="§1.4"),
    checks.dtypes("input", "output = input", "indices", doc="§1.3"),
    # Both answer alike; output, which is larger, comes first. indices has at most 9216 elements.
    checks.large("output", "input", doc="released"),
    # §1.1 says that a tensor without elements returns at once; §3.8 is right: it is an error.
    checks.empty("input", doc="§3.8", status=Status.BAD_PARAM),
    checks.workspace("§3.8"),
    checks.pointers(doc="§3.8"),
)

# The table of indices: for every entry of a filter and every rotation the place it goes to, counted from 1.

# The outer places of a 3×3 plane, clockwise from the top left one.
_RING: Final = np.array([0, 1, 2, 5, 8, 7, 6, 3])


def moved_table(orientations: int, height: int, layers: Array, steps: Array) -> Array:
    """int32 [A, h, h, R]: per rotation all orientations go so many layers on, and rings so many places clockwise."""
    cells = height * height
    places = np.repeat(np.arange(cells)[:, None], len(steps), axis=1)
    if height == 3:
        places[_RING] = _RING[(np.arange(8)[:, None] + steps) % 8]
    targets = (np.arange(orientations)[:, None] + layers) % orientations
    table = targets[:, None] * cells + places + 1
    return table.reshape(orientations, height, height, -1).astype("<i4")


def rotation_table(orientations: int, height: int, rotations: int) -> Array:
    """What §1.2 calls the rotation rule: rotation k turns by θ = k·360°/R, clockwise."""
    turns = np.arange(rotations)
    # ⌊θ·A/360⌋ layers, and θ/45 places.
    return moved_table(orientations, height, turns * orientations // rotations, turns * 8 // rotations)


def precondition(call: OpCall) -> str | None:
    """Every rotation takes each entry to a place of its own: indices are addresses, and nothing checks them."""
    table = call.array("indices")
    places = table.reshape(-1, table.shape[3])
    wrong = np.flatnonzero((np.sort(places, axis=0) != np.arange(1, len(places) + 1)[:, None]).any(axis=0))
    return f"rotation {wrong[0]} is no permutation of 1 … {len(places)}" if wrong.size else None


def find_other_table(call: OpCall, _baseline: mg.Baseline) -> str | None:
    """§3.1: the operator turns by its own rule and "does not accept" another table; mmcv follows any."""
    orientations, height, _, rotations = call.tensor("indices").dims
    is_rule = np.array_equal(call.array("indices"), rotation_table(orientations, height, rotations))
    return None if is_rule else "indices are not those of the rotation rule"


def copies(call: OpCall) -> copy_of.CopyOf:
    """output[o·R + k, i·A + orientation]: every element a copy of the bits of input[o, i]."""
    filters, planes, *_ = call.tensor("input").dims
    table = call.array("indices")
    # indices name the target, as mmcv scatters, and count from 1: entry e of a filter goes to indices[e, k] − 1.
    entries = np.argsort(table.reshape(-1, table.shape[3]), axis=0).T
    source = np.arange(planes)[:, None] * entries.shape[1] + entries[:, None]
    return copy_of.CopyOf(call.array("input").reshape(filters, -1), source.reshape(-1), call.tensor("output").dims)


DEFINITION = copy_of.define_copies("output", copies, row="filter")


def _planes(*axes: int) -> suspects.Suspect:
    """The leading axes of output (o, k, i, orientation) are in another order."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        filters, planes, orientations, height, _ = call.tensor("input").dims
        right = copies(call).copied().reshape(filters, -1, planes, orientations, height, height)
        return {"output": right.transpose(*axes, 4, 5).reshape(call.tensor("output").dims)}

    return outputs


def _reread(change: Callable[[Array, Array, int], Array]) -> suspects.Suspect:
    """By another table, of the rows and rotations [n, R] of its own places counted from 0, and the cells of a plane."""

    def read(table: Array) -> Array:
        places = table.reshape(-1, table.shape[3]) - 1
        entries = np.arange(len(places))[:, None]
        return (change(places, entries, table.shape[1] ** 2) + 1).reshape(table.shape).astype("<i4")

    return suspects.as_read(DEFINITION.reference, suspects.misread(indices=read))


# Mistakes that kernels make about the table and about the order of the planes.
SUSPECTS = {
    "filters turn counter-clockwise": _reread(lambda places, *_: places[:, -np.arange(places.shape[1])]),
    "indices name where an entry comes from": _reread(lambda places, *_: np.argsort(places, axis=0)),
    "orientations stay where they are": _reread(lambda to, e, cells: e // cells * cells + to % cells),
    "orientations move backwards": _reread(
        lambda to, e, cells: (2 * (e // cells) - to // cells) % (len(e) // cells) * cells + to % cells
    ),
    "entries keep their place in the plane": _reread(lambda to, e, cells: to // cells * cells + e % cells),
    "nothing turns": _reread(lambda to, e, _: np.broadcast_to(e, to.shape)),
    "rotations are the outermost axis": _planes(1, 0, 2, 3),
    "orientations are outside of input planes": _planes(0, 1, 3, 2),
}


def elements(call: OpCall) -> Mapping[str, exact_numbers.ExactElement]:
    """By mmcv's scatter: the entry whose index, for this rotation, is this place."""
    filters, table = call.array("input"), call.array("indices")
    _, _, orientations, height, width = filters.shape
    rotations = table.shape[3]

    def output(plane: int, layer: int, row: int, column: int) -> Fraction | float:
        place = (layer % orientations * height + row) * width + column
        (entry,) = np.argwhere(table[..., plane % rotations] == place + 1)
        return exact_numbers.fraction(filters[plane // rotations, layer // orientations][tuple(entry)])

    return {"output": output}


# The kernel that the numpy backend runs. As §3.1 it never reads the table: rolled orientations, and quarter turns of
# the planes or of the planes turned by 45°.

# §3.1's row 1 of `trans`: where every cell of a plane comes from when it turns by 45°.
_TURNED_45: Final = (3, 0, 1, 6, 4, 2, 7, 8, 5)


def kernel(call: OpCall) -> Status:
    """Check the call, then write every rotation."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    filters, output = call.array("input"), call.array("output")
    planes, orientations, height = filters.shape[1:4]
    rotations = len(output) // len(filters)
    rotated = output.reshape(len(filters), rotations, planes, orientations, height, height)
    turned = filters
    if rotations == 8 and height == 3:
        turned = filters.reshape(*filters.shape[:3], 9)[..., _TURNED_45].reshape(filters.shape)
    for rotation in range(rotations):
        quarters, eighth = divmod(rotation * 8 // rotations, 2)
        plane = np.rot90(turned if eighth else filters, -quarters, axes=(3, 4))
        rotated[:, rotation] = np.roll(plane, int(rotation / rotations * orientations), axis=2)
    return Status.SUCCESS


def _refusals(call: OpCall) -> Refusals:
    args = tensors_of(call)
    yield call.handle is None or [len(arg.dims) for arg in args] != [5, 4, 4], Status.BAD_PARAM
    filters, table, output = args
    (out, planes, orientations, height, _), rotations = filters.dims, table.dims[3]
    plane = (height, height)
    shapes = [(out, planes, orientations, *plane), (orientations, *plane, rotations)]
    yield [arg.dims for arg in args] != [*shapes, (out * rotations, planes * orientations, *plane)], Status.BAD_PARAM
    yield orientations not in (1, 2, 4, 8, 16, 32, 64, 128), Status.BAD_PARAM
    yield height not in (1, 3) or rotations not in (2, 4, 8), Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    yield filters.dtype not in (DType.HALF, DType.FLOAT) or output.dtype is not filters.dtype, Status.BAD_PARAM
    yield table.dtype is not DType.INT32, Status.BAD_PARAM
    yield output.desc.count >= 1 << 31, Status.NOT_SUPPORTED
    yield call.workspace_size > 0 and call.workspace is None, Status.BAD_PARAM
    yield any(arg.null for arg in args) or out * planes == 0, Status.BAD_PARAM


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write output: one copy by the table per rotation, on the elements' bits."""
    import torch

    # Integers of the same size: NaN payloads and −0 pass unchanged.
    bits = torch.int16 if inputs["input"].dtype == torch.float16 else torch.int32
    filters = inputs["input"].view(bits).flatten(2)
    table = inputs["indices"].to(torch.int64).flatten(0, 2) - 1
    rotated = outputs["output"].view(bits).view(len(filters), table.shape[1], *filters.shape[1:])
    for rotation, places in enumerate(table.T):
        rotated[:, rotation].index_copy_(2, places, filters)


# The recipe: filters whose entries all differ, or any bit patterns, with the table of the rotation rule.

Values = Literal["distinct", "full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf"]


def _distinct(draw: mg.Draw, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Finite numbers of both signs and every mantissa, 16 exponents around 1; no two entries of a filter are equal."""
    bits, bias = (10, 7) if dtype is DType.HALF else (23, 119)
    entries = np.arange(np.prod(shape[2:]))
    start = draw.stream("input").integers(0, 1 << 15, (shape[0], shape[1], 1))
    # An odd step meets every number once before it meets one again.
    step = 2 * draw.stream("step").integers(0, 1 << 14, (1, 1, 1)) + 1
    numbers = (start + step * entries) % (1 << 15)
    # 15 bits that differ: the sign, the exponent and the leading mantissa; below them any.
    lower = bits - 10
    tail = draw.stream("tail").integers(0, 1 << lower, numbers.shape)
    sign, rest = numbers >> 14, (numbers & 0x3FFF) + (bias << 10)
    patterns = (sign << (8 * dtype.itemsize - 1)) | (rest << lower) | tail
    return patterns.astype(dtype.bits).view(dtype.storage).reshape(shape)


def rotated(
    draw: mg.Draw,
    params: mg.Params,
    dtype: DType,
    *,
    filters: int,
    planes: int,
    orientations: int = 1,
    height: int = 3,
    rotations: int = 8,
    values: Values = "distinct",
) -> mg.RecipeOutput:
    """Filters [filters, planes, orientations, height, height] and the rule's table; no filter looks the same turned."""
    shape = (filters, planes, orientations, height, height)
    table = rotation_table(orientations, height, rotations)
    if values == "distinct":
        entries = _distinct(draw, dtype, shape)
    else:
        entries = BitPatterns("input", "sorts", KINDS).drawn(draw, dtype, shape, values)
        refuse_symmetric(entries.view(dtype.bits), table)
    dims = (filters * rotations, planes * orientations, height, height)
    return mg.RecipeOutput({"input": entries, "indices": table}, params, outputs={"output": dims})


def refuse_symmetric(bits: Array, table: Array) -> None:
    """ValueError where a filter is the same in two rotations although its entries move."""
    order = np.argsort(table.reshape(-1, table.shape[3]), axis=0)
    turned = bits.reshape(-1, len(order))[:, order]
    are_same = (turned == turned[..., :1]).all(axis=1).any(axis=0)
    if (are_same & (order != order[:, :1]).any(axis=0)).any():
        raise ValueError("a filter is the same when it is turned, which hides every rotation; draw other values")


# What fuzzing draws: every legal filter.
SPACE: Final = space.Space(
    axes={
        "dtype": space.Choice(("float", "half")),
        "filters": space.Sizes(1, 1025),
        "planes": space.Sizes(1, 1025),
        "orientations": space.Choice(ORIENTATIONS),
        "height": space.Choice(SIDES),
        "rotations": space.Choice(ROTATIONS),
        "values": space.Choice(get_args(Values)),
    },
    draw=lambda at: space.Drawn("rotated", {}, {name: at[name] for name in at if name != "dtype"}, at["dtype"]),
    elements=lambda at: (
        at["filters"] * at["planes"] * at["orientations"] * at["height"] ** 2 * (at["rotations"] + 1)
        + at["orientations"] * at["height"] ** 2 * at["rotations"]
    ),
)

OPERATOR = mg.Operator(
    name="active_rotated_filter_forward",
    op_type=("ACTIVE_ROTATED_FILTER_FORWARD", 257073),
    summary="Writes every filter in R rotations, with its orientations moved along.",
    inputs=(
        mg.TensorSpec("input", "[O, I, A, h, h]", FLOATS),
        mg.TensorSpec("indices", "[A, h, h, R]", (DType.INT32,)),
    ),
    # §1.5.1: a pure copy, so diff3 = 0. Rotations are minor to filters, orientations to input planes.
    outputs=(mg.OutputSpec("output", "[O·R, I·A, h, h]", dict.fromkeys(FLOATS, mg.exact())),),
    axes={"filters": mg.axis("O", of="input"), "planes": mg.axis("I", of="input")},
    checks=CHECKS,
    subsumed={"input_large": "output is at least twice as large, and asked first"},
    # As released: the query looks at the descriptor of input, and refuses nothing else.
    queries={
        "mluOpGetActiveRotatedFilterForwardWorkspaceSize": mg.QueryChecks(
            ("handle_null", "input_desc_null", mg.SIZE_NULL)
        )
    },
    definition=DEFINITION,
    precondition=precondition,
    left_open={"undefined": find_other_table},
    kernel=kernel,
    suspects=SUSPECTS,
    # As released; the document names no size.
    workspace_size=lambda call: call.tensor("input").desc.nbytes,
    c_api=c_api.c_function(
        "mluOpActiveRotatedFilterForward",
        query="mluOpGetActiveRotatedFilterForwardWorkspaceSize",
        query_arguments=(c_api.HANDLE, *c_api.descriptor("input"), c_api.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
    recipes={"rotated": rotated},
    space=SPACE,
)
