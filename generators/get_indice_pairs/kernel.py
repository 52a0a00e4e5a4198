"""The kernel that the numpy backend runs: outputs first, then every output looks its inputs up."""

import itertools
import math

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall, Status, TensorArg

_OLDEST_ARCH = 370
_MAX_OFFSETS = 4096
_MAX_SITES = 1_000_000


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
    lookup = _Lookup(inputs, call.param("input_space"))
    for k, offset in enumerate(_offsets(call)):
        # The rule read backwards: the input under this offset of an output's window is the only candidate.
        source = outputs[1:] * _column(call.param("stride")) - _column(call.param("pad")) + offset
        in_rows = lookup.rows(outputs[0], source)
        out_rows = np.flatnonzero(in_rows >= 0)
        out_rows = out_rows[np.argsort(in_rows[out_rows])]
        num[k] = len(out_rows)
        pairs[k, 0, : len(out_rows)] = in_rows[out_rows]
        pairs[k, 1, : len(out_rows)] = out_rows
    call.scalars["num_act_out"] = found


def _column(values: tuple[int, ...]) -> Array:
    return np.array(values, np.int64)[:, None]


def _offsets(call: OpCall) -> list[Array]:
    """The dilated kernel offsets, a column each, in the order of (kd·KH + kh)·KW + kw."""
    ranges = (range(length) for length in call.param("filter_space"))
    return [_column(position) * _column(call.param("dilation")) for position in itertools.product(*ranges)]


def _output_sites(call: OpCall, inputs: Array) -> Array:
    """Every distinct output site, ascending by its linear index."""
    space, stride = call.param("output_space"), _column(call.param("stride"))
    padded = inputs[1:] + _column(call.param("pad"))
    found = []
    for offset in _offsets(call):
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


class _Lookup:
    """From a coordinate to the row of `indices` that holds it."""

    def __init__(self, inputs: Array, space: tuple[int, ...]) -> None:
        keys = _linear(inputs[0], inputs[1:], space)
        self._space = space
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def rows(self, batch: Array, site: Array) -> Array:
        """The row of each site, −1 where it is outside or not active."""
        wanted = _linear(batch, site, self._space)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        active = np.all((site >= 0) & (site < _column(self._space)), axis=0) & (self._keys[place] == wanted)
        return np.where(active, self._order[place], -1)


def _answer_of_checks(call: OpCall) -> Status | None:
    """The status of a call that computes nothing; None for one that does."""
    indices, pairs = call.inputs["indices"], call.outputs["indice_pairs"]
    out, num = call.outputs["out_indices"], call.outputs["indice_num"]
    if call.handle is None or indices is None or pairs is None or out is None or num is None:
        return Status.BAD_PARAM
    if not _describes_a_convolution(call):
        return Status.BAD_PARAM
    if call.handle.arch < _OLDEST_ARCH:
        return Status.ARCH_MISMATCH
    tensors = (indices, pairs, out, num)
    if not _shapes_agree(call, *tensors):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors):
        return Status.NOT_SUPPORTED
    if indices.dims[0] > _MAX_SITES:
        return Status.BAD_PARAM
    if any(arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not DType.INT32 for arg in tensors) or not _sub_m_agrees(call):
        return Status.BAD_PARAM
    if any(arg.desc.is_empty for arg in tensors):
        return Status.SUCCESS
    lacks_memory = any(arg.null for arg in tensors) or (call.workspace is None and call.workspace_size != 0)
    return Status.BAD_PARAM if lacks_memory else None


def _describes_a_convolution(call: OpCall) -> bool:
    """What the setter of the sparse-convolution descriptor refuses otherwise."""
    if call.params is None:
        return False
    least = {"pad": 0, "stride": 1, "dilation": 1, "input_space": 1, "filter_space": 1, "output_space": 1}
    for name, lowest in least.items():
        values = call.param(name)
        if values is None or len(values) != 3 or any(value < lowest for value in values):
            return False
    scalars = (call.param("dimnb"), call.param("transpose"), call.param("inverse"))
    return scalars == (5, 0, 0) and bool(call.param("batch") > 0)


def _shapes_agree(call: OpCall, indices: TensorArg, pairs: TensorArg, out: TensorArg, num: TensorArg) -> bool:
    if (len(indices.dims), len(pairs.dims), len(out.dims), len(num.dims)) != (2, 3, 2, 1):
        return False
    offsets, batch = math.prod(call.param("filter_space")), call.param("batch")
    sites = indices.dims[0]
    mixed = any(s != 1 and d != 1 for s, d in zip(call.param("stride"), call.param("dilation"), strict=True))
    return (
        indices.dims[1] == out.dims[1] == 4
        and pairs.dims == (offsets, 2, sites)
        and num.dims == (offsets,)
        and offsets <= _MAX_OFFSETS
        and sites <= batch * math.prod(call.param("input_space"))
        and out.dims[0] <= batch * math.prod(call.param("output_space"))
        and not mixed
    )


def _sub_m_agrees(call: OpCall) -> bool:
    if not call.param("sub_m"):
        return True
    same_space: bool = call.param("input_space") == call.param("output_space")
    return same_space and set(call.param("stride")) == set(call.param("dilation")) == {1}
