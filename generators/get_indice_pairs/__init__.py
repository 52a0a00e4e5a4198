"""get_indice_pairs: which active input site meets which output site at every kernel offset of a sparse convolution."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Check,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorArg,
    TensorSpec,
    UndefinedDataError,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.exact_numbers import ExactElement
from mluops_gtest.authoring.suspects import Suspect

from .._shared.sparse import Geometry, find_pairs

_MAX_OFFSETS = 4096
_MAX_SITES = 1_000_000


def _cells(call: OpCall, space: str) -> Any:
    # An exact integer; the released code overflows int32.
    return call.param("batch") * math.prod(call.param(space))


def _for_sub_m(name: str, holds: Callable[[OpCall], bool], message: str) -> Check:
    return checks.require(f"sub_m_{name}", lambda call: not call.param("sub_m") or holds(call), message, "§1.2")


# The C order; case files list out_indices first.
_TENSORS = ("indices", "indice_pairs", "out_indices", "indice_num")

CHECKS = (
    checks.handle("released"),
    checks.descriptors("sparse_conv_desc", *_TENSORS, doc="released"),
    SIZE_NULL,
    # A query that looks for empty tensors first, as the released one does, keeps to the document, too: what it owes to
    # a call that is wrong otherwise is said nowhere.
    checks.empty(*_TENSORS, doc="§1.1", asked_by="query"),
    checks.arrays(doc="released"),
    # The setter of the descriptor refuses these, so they answer before the device is looked at.
    checks.params("dimnb", doc="§1.4 (1)", name="{}_value"),
    checks.params("batch", doc="released", name="{}_value"),
    checks.params("transpose", "inverse", doc="§1.4 (2)", name="{}_value"),
    checks.params("pad", "stride", "dilation", doc="released", name="{}_value"),
    checks.params("input_space", "filter_space", "output_space", doc="released", name="{}_value"),
    checks.arch("released"),
    checks.ranks(*_TENSORS, doc="§1.4"),
    checks.dims("indices.1", "out_indices.1", "indice_pairs.1", "indice_pairs.2", doc="§1.4"),
    checks.dims("indice_num.0", doc="§1.4 (5)"),
    checks.require(
        "indices_dim0",
        lambda call: call.tensor("indices").dims[0] <= _cells(call, "input_space"),
        "there cannot be more sites than cells of the input space",
        "released",
    ),
    checks.require(
        "dilated_stride",
        lambda call: all(1 in pair for pair in zip(call.param("stride"), call.param("dilation"), strict=True)),
        "an axis cannot have both a stride and a dilation",
        "released",
    ),
    checks.dims("indice_pairs.0", doc="§1.4"),
    checks.require(
        "offsets_limit",
        lambda call: math.prod(call.param("filter_space")) <= _MAX_OFFSETS,
        f"the kernel must have at most {_MAX_OFFSETS} offsets",
        "released",
    ),
    checks.require(
        "out_indices_dim0",
        lambda call: call.tensor("out_indices").dims[0] <= _cells(call, "output_space"),
        "out_indices cannot have more rows than the output space has cells",
        "released",
    ),
    checks.strided(*_TENSORS, doc="§1.4"),
    checks.require(
        "sites_limit",
        lambda call: call.tensor("indices").dims[0] <= _MAX_SITES,
        f"there must be at most {_MAX_SITES} sites",
        "released",
    ),
    checks.large(*_TENSORS, doc="released"),
    checks.dtypes(*_TENSORS, doc="§1.4 (3)"),
    _for_sub_m(
        "space",
        lambda call: call.param("input_space") == call.param("output_space"),
        "sub_m needs an output space equal to the input space",
    ),
    _for_sub_m("stride", lambda call: call.param("stride") == (1, 1, 1), "sub_m needs stride 1"),
    _for_sub_m("dilation", lambda call: call.param("dilation") == (1, 1, 1), "sub_m needs dilation 1"),
    # §1.1: a call without elements returns at once, with num_act_out 0.
    checks.empty(*_TENSORS, doc="§1.1", asked_by="call"),
    checks.pointers(*_TENSORS, doc="released"),
    checks.workspace("released"),
)


def precondition(call: OpCall) -> str | None:
    """sub_m's copies have room; of the default mode only the search can tell how many outputs there are."""
    rows, sites = call.tensor("out_indices").dims[0], call.tensor("indices").dims[0]
    if call.param("sub_m") == 1 and rows < sites:
        return f"out_indices has {rows} rows for the {sites} sites of sub_m"
    return None


# So far outside that no window reaches it: the site is in no pair, and makes no output.
_NOWHERE = -(2**30)


def _lost(is_lost: Callable[[Array, int], Any]) -> Callable[[OpCall, int], Mapping[str, Array]]:
    """The sites as a kernel sees them that loses those of an index."""

    def without(call: OpCall, index: int) -> Mapping[str, Array]:
        sites = call.array("indices").copy()
        sites[is_lost(sites, index), 1:] = _NOWHERE
        return {"indices": sites}

    return without


def _along(column: int) -> SizedAxis:
    """The samples, or the cells along an axis of the input space: d, h, w are columns 1, 2, 3 of a site."""
    return SizedAxis(
        "indices",
        count=lambda call: int((call.param("batch"), *call.param("input_space"))[column]),
        without=_lost(lambda sites, index: sites[:, column] == index),
    )


# The right answer, by the pair search that recipes of other operators use, too.


def geometry_of(params: Mapping[str, Any] | None) -> Geometry:
    """The convolution that the parameters of a valid call describe."""
    names = ("batch", "input_space", "filter_space", "stride", "pad", "dilation", "output_space", "sub_m")
    return Geometry(*((params or {})[name] for name in names))


def reference(call: OpCall) -> Baseline:
    """Pairs, output sites and their number; −1 in the rows of out_indices that nobody owns."""
    pairs = find_pairs(call.array("indices"), geometry_of(call.params))
    found = pairs.out_indices
    outputs = {
        "out_indices": _with_spare_rows(found, call),
        "indice_pairs": pairs.indice_pairs,
        "indice_num": pairs.indice_num,
    }
    return Baseline(outputs, {"num_act_out": len(found)})


def _with_spare_rows(found: Array, call: OpCall) -> Array:
    given = call.outputs.get("out_indices")
    rows = len(found) if given is None else given.dims[0]
    if rows < len(found):
        raise UndefinedDataError(f"out_indices has {rows} rows for {len(found)} output sites")
    return np.concatenate([found, np.full((rows - len(found), 4), -1, "<i4")])


# Mistakes that kernels make about which sites meet, and about the order of what they find.


def _of_geometry(misread: Callable[[Geometry], Geometry]) -> Suspect:
    """All that fits into the buffers of what another convolution would find."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        found = find_pairs(call.array("indices"), misread(geometry_of(call.params)))
        fits = len(found.out_indices) == call.tensor("out_indices").dims[0]
        sites = {"out_indices": found.out_indices} if fits else {}
        return {"indice_pairs": found.indice_pairs, "indice_num": found.indice_num, **sites}

    return outputs


def _centred(geometry: Geometry) -> Geometry:
    depth, height, width = (length // 2 for length in geometry.kernel)
    return replace(geometry, pad=(depth, height, width)) if geometry.sub_m else geometry


def _in_order_met(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    pairs = outputs["indice_pairs"]
    if call.param("sub_m"):
        return outputs
    targets = pairs[:, 1]
    # Every output is met, so these are all of them.
    order = np.argsort(np.unique(targets[targets >= 0], return_index=True)[1])
    sites, renamed = outputs["out_indices"].copy(), pairs.copy()
    sites[: len(order)] = sites[order]
    renamed[:, 1] = np.append(np.argsort(order), -1)[targets]
    return {**outputs, "out_indices": sites, "indice_pairs": renamed}


def _by_output_row(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    pairs = outputs["indice_pairs"]
    # −1 behind the pairs stays behind them.
    order = np.argsort(np.where(pairs[:, 1] < 0, np.iinfo(np.int32).max, pairs[:, 1]), axis=1, kind="stable")
    return {**outputs, "indice_pairs": np.take_along_axis(pairs, order[:, None], axis=2)}


def _depth_fastest(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    order = np.arange(len(outputs["indice_num"])).reshape(call.param("filter_space")).transpose(2, 1, 0).ravel()
    return {**outputs, "indice_pairs": outputs["indice_pairs"][order], "indice_num": outputs["indice_num"][order]}


SUSPECTS = {
    "dilation is ignored": _of_geometry(lambda geometry: replace(geometry, dilation=(1, 1, 1))),
    "pad is ignored": _of_geometry(lambda geometry: replace(geometry, pad=(0, 0, 0))),
    "sub_m pads by half the kernel, whatever pad says": _of_geometry(_centred),
    "output sites stand in the order in which they are met": _in_order_met,
    "the pairs of an offset ascend by output row": _by_output_row,
    "kernel offsets are numbered from the depth on": _depth_fastest,
}


# One element of each output: an input site meets an output site where §3.2's formula has an integer solution.

Site = tuple[int, ...]


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Pairs by offset in the order of input rows; output sites ascending, or the input sites of a sub_m one."""
    sites: list[Site] = [tuple(row) for row in call.array("indices").tolist()]
    names = ("filter_space", "stride", "pad", "dilation", "output_space")
    kernel, stride, pad, dilation, space = (call.param(name) for name in names)
    sub_m, active = bool(call.param("sub_m")), frozenset(sites)
    # k = (kd·KH + kh)·KW + kw.
    offsets = list(itertools.product(*map(range, kernel)))

    def met(site: Site, offset: Site) -> Site | None:
        """The output site that an input site meets at that place of the kernel."""
        found = [site[0]]
        axes = zip(site[1:], pad, offset, dilation, stride, space, strict=True)
        for coordinate, before, step, dilated, strided, length in axes:
            place, rest = divmod(coordinate + before - step * dilated, strided)
            if rest or not 0 <= place < length:
                return None
            found.append(place)
        return tuple(found)

    @cache
    def meetings(k: int) -> list[tuple[int, Site]]:
        """Input rows, ascending, with the output sites they meet at offset k."""
        found = ((row, met(site, offsets[k])) for row, site in enumerate(sites))
        return [(row, out) for row, out in found if out is not None and (not sub_m or out in active)]

    @cache
    def outputs() -> list[Site]:
        return sites if sub_m else sorted({out for k in range(len(offsets)) for _, out in meetings(k)})

    @cache
    def rows() -> dict[Site, int]:
        return {site: row for row, site in enumerate(outputs())}

    def indice_pairs(k: int, side: int, place: int) -> int:
        found = meetings(k)
        if place >= len(found):
            return -1
        row, out = found[place]
        return row if side == 0 else rows()[out]

    return {
        "indice_pairs": indice_pairs,
        "out_indices": lambda row, axis: outputs()[row][axis],
        "indice_num": lambda k: len(meetings(k)),
        "num_act_out": lambda: len(outputs()),
    }


# The kernel that the numpy backend runs: outputs first, then every output looks its inputs up.


def kernel(call: OpCall) -> Status:
    """Check the call, then write all pairs and the sites that the convolution puts out."""
    status = _answer_of_checks(call)
    if status is None:
        _compute(call)
    elif status is Status.SUCCESS:
        call.scalars["num_act_out"] = 0
    return status or Status.SUCCESS


def _compute(call: OpCall) -> None:
    # Coordinates are kept as four long rows n, d, h, w.
    inputs = np.ascontiguousarray(call.array("indices").T, np.int64)
    outputs = inputs if call.param("sub_m") else _output_sites(call, inputs)
    found = outputs.shape[1]
    call.array("out_indices")[:found] = outputs.T
    pairs, num = call.array("indice_pairs"), call.array("indice_num")
    pairs[...] = -1
    rows_of = _rows_in(inputs, call.param("input_space"))
    for k, offset in enumerate(_dilated_offsets(call)):
        # The rule read backwards: the input under this offset of an output's window is the only candidate.
        source = outputs[1:] * _column(call.param("stride")) - _column(call.param("pad")) + offset
        in_rows = rows_of(outputs[0], source)
        out_rows = np.flatnonzero(in_rows >= 0)
        out_rows = out_rows[np.argsort(in_rows[out_rows])]
        num[k] = len(out_rows)
        pairs[k, 0, : len(out_rows)] = in_rows[out_rows]
        pairs[k, 1, : len(out_rows)] = out_rows
    call.scalars["num_act_out"] = found


def _column(values: tuple[int, ...]) -> Array:
    return np.array(values, np.int64)[:, None]


def _dilated_offsets(call: OpCall) -> list[Array]:
    """The dilated kernel offsets, a column each, in the order of (kd·KH + kh)·KW + kw."""
    offsets, dilation = itertools.product(*map(range, call.param("filter_space"))), _column(call.param("dilation"))
    return [_column(offset) * dilation for offset in offsets]


def _output_sites(call: OpCall, inputs: Array) -> Array:
    """Every distinct output site, ascending by its linear index."""
    space, stride = call.param("output_space"), _column(call.param("stride"))
    padded = inputs[1:] + _column(call.param("pad"))
    found = []
    for offset in _dilated_offsets(call):
        # §3.2: only whole strides are outputs; the division alone would round the others to a neighbour.
        site, rest = np.divmod(padded - offset, stride)
        whole = np.all((rest == 0) & (site >= 0) & (site < _column(space)), axis=0)
        found.append(_linear(inputs[0, whole], site[:, whole], space))
    keys = np.unique(np.concatenate(found))
    return np.stack(np.unravel_index(keys, (call.param("batch"), *space)))


def _linear(batch: Array, site: Array, space: tuple[int, ...]) -> Array:
    """((n·D + d)·H + h)·W + w in 64 bits: a space may pass 2^31 cells."""
    key: Array = batch
    for length, coordinate in zip(space, site, strict=True):
        key = key * length + coordinate
    return key


def _rows_in(inputs: Array, space: tuple[int, ...]) -> Callable[[Array, Array], Array]:
    """Finds the row of `indices` of each site, −1 where it is outside or not active."""
    unsorted = _linear(inputs[0], inputs[1:], space)
    order = np.argsort(unsorted)
    keys = unsorted[order]

    def rows(batch: Array, site: Array) -> Array:
        wanted = _linear(batch, site, space)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        is_active = np.all((site >= 0) & (site < _column(space)), axis=0) & (keys[place] == wanted)
        return np.where(is_active, order[place], -1)

    return rows


def _answer_of_checks(call: OpCall) -> Status | None:
    """The status of a call that computes nothing; None for one that does."""
    indices, pairs = call.inputs["indices"], call.outputs["indice_pairs"]
    out, num = call.outputs["out_indices"], call.outputs["indice_num"]
    if call.handle is None or indices is None or pairs is None or out is None or num is None:
        return Status.BAD_PARAM
    if not _describes_a_convolution(call):
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    tensors = (indices, pairs, out, num)
    if not _shapes_agree(call, *tensors):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors):
        return Status.NOT_SUPPORTED
    if indices.dims[0] > 1_000_000:
        return Status.BAD_PARAM
    if any(arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not DType.INT32 for arg in tensors) or not _sub_m_agrees(call):
        return Status.BAD_PARAM
    if any(arg.desc.is_empty for arg in tensors):
        return Status.SUCCESS
    has_memory = call.workspace is not None or call.workspace_size == 0
    return None if has_memory and not any(arg.null for arg in tensors) else Status.BAD_PARAM


def _describes_a_convolution(call: OpCall) -> bool:
    """What the setter of the sparse-convolution descriptor refuses otherwise."""
    if call.params is None:
        return False
    for name in ("pad", "stride", "dilation", "input_space", "filter_space", "output_space"):
        values = call.param(name)
        if values is None or len(values) != 3 or min(values) < (0 if name == "pad" else 1):
            return False
    return [call.param(name) for name in ("dimnb", "transpose", "inverse")] == [5, 0, 0] and call.param("batch") > 0


def _shapes_agree(call: OpCall, indices: TensorArg, pairs: TensorArg, out: TensorArg, num: TensorArg) -> bool:
    if (len(indices.dims), len(pairs.dims), len(out.dims), len(num.dims)) != (2, 3, 2, 1):
        return False
    sites, offsets, batch = indices.dims[0], math.prod(call.param("filter_space")), call.param("batch")
    return (
        indices.dims[1] == out.dims[1] == 4
        and pairs.dims == (offsets, 2, sites)
        and num.dims == (offsets,)
        and offsets <= 4096
        and sites <= batch * math.prod(call.param("input_space"))
        and out.dims[0] <= batch * math.prod(call.param("output_space"))
        and not any(s > 1 and d > 1 for s, d in zip(call.param("stride"), call.param("dilation"), strict=True))
    )


def _sub_m_agrees(call: OpCall) -> bool:
    has_unit_steps = set(call.param("stride")) == set(call.param("dilation")) == {1}
    return not call.param("sub_m") or (has_unit_steps and call.param("input_space") == call.param("output_space"))


# With torch: inputs propose outputs, axis after axis; a sort of the keys gives every proposal its row.

# Of one kernel offset: the rows of `indices` that propose an output, ascending, and what they propose.
Proposal = tuple[Any, Any]


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write the pairs of every kernel offset, their counts and the output sites; report num_act_out."""
    import torch

    # Coordinates n, d, h, w as four long rows; a space may pass 2^31 cells, so keys take 64 bits.
    sites = inputs["indices"].t().to(torch.int64, memory_format=torch.contiguous_format)
    if call.param("sub_m"):
        found = inputs["indices"]
        pairs = _submanifold(call, sites)
    else:
        proposals = _proposals(call, sites, axes=3)
        # §3.2: the distinct keys, ascending, are all the output sites; the inverse is the row of each proposal.
        keys, rows = torch.unique(torch.cat([key for _, key in proposals]), return_inverse=True)
        # How many cells lie behind each other on n, d, h and w.
        cells = [math.prod(call.param("output_space")[number:]) for number in range(4)]
        lengths = (call.param("batch"), *call.param("output_space"))
        found = torch.stack([keys // cell % n for cell, n in zip(cells, lengths, strict=True)], dim=1)
        counts = [len(key) for _, key in proposals]
        pairs = ((k, proposals[k][0], own) for k, own in enumerate(rows.split(counts)))
    outputs["out_indices"][: len(found)] = found
    outputs["indice_pairs"].fill_(-1)
    for k, in_rows, out_rows in pairs:
        outputs["indice_num"][k] = len(in_rows)
        outputs["indice_pairs"][k, 0, : len(in_rows)] = in_rows
        outputs["indice_pairs"][k, 1, : len(in_rows)] = out_rows
    call.scalars["num_act_out"] = len(found)


def _proposals(call: OpCall, sites: Any, axes: int) -> list[Proposal]:
    """Per offset of the first `axes` kernel axes, in their order: input rows and linear keys of their outputs."""
    import torch

    proposals = [(torch.arange(sites.shape[1], device=sites.device), sites[0])]
    names = ("pad", "stride", "dilation", "filter_space", "output_space")
    parts = zip(sites[1 : 1 + axes], *map(call.param, names), strict=False)
    for coordinates, pad, stride, dilation, length, space in parts:
        narrowed = []
        for rows, keys in proposals:
            padded = coordinates[rows] + pad
            for k in range(length):
                reached = padded - k * dilation
                site = torch.div(reached, stride, rounding_mode="floor") if stride > 1 else reached
                # §3.2: only whole strides are outputs; the division alone would round the others to a neighbour.
                kept = ((site * stride == reached) & (site >= 0) & (site < space)).nonzero().squeeze(1)
                narrowed.append((rows[kept], keys[kept] * space + site[kept]))
        proposals = narrowed
    return proposals


def _submanifold(call: OpCall, sites: Any) -> Iterator[tuple[int, Any, Any]]:
    """(k, input rows, output rows) where only active sites are outputs."""
    import torch

    _, height, width = call.param("output_space")
    pad, length = call.param("pad")[2], call.param("filter_space")[2]
    # Lines as long as proposals reach: one beyond an edge cannot meet a site of the next line.
    reach = width + pad + length - 1
    lines = (sites[0] * call.param("output_space")[0] + sites[1]) * height + sites[2]
    keys, order = (lines * reach + sites[3]).sort()
    keys = torch.cat([keys, keys.new_full((1,), torch.iinfo(torch.int64).max)])
    for window, (rows, line) in enumerate(_proposals(call, sites, axes=2)):
        # The offsets of one window line are neighbours: one search finds the first, the others follow it.
        wanted = line * reach + sites[3][rows] + (pad - length + 1)
        place = torch.searchsorted(keys, wanted)
        for k in reversed(range(length)):
            hit = keys[place] == wanted
            met = hit.nonzero().squeeze(1)
            yield window * length + k, rows[met], order[place[met]]
            place += hit
            wanted += 1


# §2.2: the parameters travel in the sparse-convolution descriptor.
_SPARSE_CONVOLUTION = c_api.CParams(
    type="mluOpSparseConvolutionDescriptor_t",
    create="mluOpCreateSparseConvolutionDescriptor",
    destroy="mluOpDestroySparseConvolutionDescriptor",
    set="mluOpSetSparseConvolutionDescriptor",
    arguments=(
        *c_api.scalar("dimnb", "batch"),
        *c_api.host_array("pad", "stride", "dilation", "input_space", "filter_space", "output_space"),
        *c_api.scalar("sub_m", "transpose", "inverse"),
    ),
    getters={"num_act_out": "mluOpGetSparseConvolutionNumActOut"},
)
_MEMORY = (c_api.WORKSPACE, c_api.WORKSPACE_SIZE)
_QUERY = "mluOpGetIndicePairsWorkspaceSize"

# §1.5.1: indices are exact, so diff3 = 0.
_INDICES = {DType.INT32: exact()}

OPERATOR = Operator(
    name="get_indice_pairs",
    released_name="get_indice_pairs",
    op_type=("GET_INDICE_PAIRS", 702),
    summary="Finds, per kernel offset, which active input site meets which output site of a 3-D sparse convolution.",
    inputs=(
        # §1.2: every site lies in the batch and in the input space, and none is there twice.
        TensorSpec(
            "indices",
            "[L, 4]: n, d, h, w",
            (DType.INT32,),
            names={0: "batch", 1: "input_space.0", 2: "input_space.1", 3: "input_space.2"},
            distinct=True,
        ),
    ),
    outputs=(
        OutputSpec("out_indices", "[≥ num_act_out, 4]: n, d, h, w", _INDICES, rows_owned="num_act_out"),
        OutputSpec("indice_pairs", "[K, 2, L]: input row, output row", _INDICES),
        OutputSpec("indice_num", "[K]: pairs of each offset", _INDICES),
    ),
    params=ParamMessage(
        field="get_indice_pairs_param",
        number=202302031,
        message="GetIndicePairsParam",
        fields=(
            # Only 3-D convolutions exist.
            ParamField("dimnb", 1, label="required", allowed=(5,)),
            ParamField("batch", 2, label="required", least=1),
            ParamField("pad", 3, label="repeated", length=3, least=0),
            ParamField("stride", 4, label="repeated", length=3, least=1),
            ParamField("dilation", 5, label="repeated", length=3, least=1),
            ParamField("input_space", 6, label="repeated", length=3, least=1),
            ParamField("filter_space", 7, label="repeated", length=3, least=1),
            ParamField("output_space", 8, label="repeated", length=3, least=1),
            ParamField("sub_m", 9, default=0),
            ParamField("transpose", 10, default=0, allowed=(0,)),
            ParamField("inverse", 11, default=0, allowed=(0,)),
            ParamField("num_act_out", 12, result=True),
        ),
        descriptor="sparse_conv_desc",
    ),
    axes={
        "sites": axis("L", of="indices", lost=_lost(lambda _, index: index)),
        "offsets": axis("K", of="indice_pairs", equals="filter_space"),
    },
    checks=CHECKS,
    subsumed={
        "indices_large": "sites_limit keeps indices at 4 million elements",
        "indice_num_large": "offsets_limit keeps indice_num at 4096 elements",
        "indice_pairs_empty": "its axes are K ≥ 1, 2 and the number of sites",
        "indice_num_empty": "its length is K, a product of values of at least 1",
    },
    queries={_QUERY: QueryChecks(silent=tuple(f"{tensor}_empty" for tensor in _TENSORS))},
    reference=reference,
    precondition=precondition,
    kernel=kernel,
    suspects=SUSPECTS,
    sizes={
        "outputs": SizedAxis("out_indices"),
        **{name: _along(column) for column, name in enumerate(("batches", "depth", "height", "width"))},
    },
    c_api=c_api.c_function(
        "mluOpGetIndicePairs",
        query=_QUERY,
        params=_SPARSE_CONVOLUTION,
        arguments=(c_api.HANDLE, c_api.PARAMS, *c_api.tensor("indices"), *_MEMORY, *c_api.tensor(*_TENSORS[1:])),
        query_arguments=(c_api.HANDLE, c_api.PARAMS, *c_api.descriptor(*_TENSORS), c_api.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
