"""spconv's CPU kernels behind `mluops-test`: pip install spconv, then --backend spconv_kernels.py.

spconv finds pairs of sites and gathers and adds rows; the products between are numpy's, as they are torch's in spconv's
own Python layer. What it does not offer is declined. It has no parameter checks: run it with -k 'not negative'.
"""

import math

import numpy as np
import spconv
from cumm import tensorview as tv
from spconv.core_cc.csrc.sparse.all import SpconvOps

from mluops_gtest import Declined, OpCall, Status

# Axes of filters; N are the output channels, C the input channels.
AXES = {"ARRAY": "DHWCN", "NDHWC": "NDHWC", "NCDHW": "NCDHW", "NHWC": "NHWC", "NCHW": "NCHW", "HWCN": "HWCN"}


class SpconvKernels:
    """The sparse convolutions that spconv has."""

    name = f"spconv-{spconv.__version__}"

    def __init__(self):
        self._kernels = {
            "get_indice_pairs": get_indice_pairs,
            "indice_convolution_forward": forward,
            "indice_convolution_backward_data": backward_data,
            "indice_convolution_backward_filter": backward_filter,
        }

    def supports(self, operator: str) -> bool:
        return operator in self._kernels

    def run(self, call: OpCall) -> Status:
        self._kernels[call.operator](call)
        return Status.SUCCESS


def get_indice_pairs(call: OpCall) -> None:
    """spconv lists outputs as it meets them; the operator wants them ascending, and pairs by input row."""
    indices = np.ascontiguousarray(call.array("indices"))
    spaces = [list(call.param(name)) for name in ("input_space", "filter_space", "stride", "pad", "dilation")]
    input_space, kernel, stride, pad, dilation = spaces
    sub_m, volume = bool(call.param("sub_m")), math.prod(kernel)
    if sub_m and (any(k % 2 == 0 for k in kernel) or pad != [k // 2 for k in kernel]):
        raise Declined("spconv's submanifold convolution has odd kernels and a pad of k // 2")
    pairs = np.full((2, volume, len(indices)), -1, np.int32)
    counts = np.zeros(volume, np.int32)
    found = np.empty((volume * len(indices), 4), np.int32)
    tensors = [tv.from_numpy(array) for array in (indices, pairs, indices if sub_m else found, counts)]
    if sub_m:
        active = SpconvOps.generate_subm_conv_inds_cpu(*tensors, call.param("batch"), input_space, kernel, dilation)
        found = indices
        # It counts the offsets before the centre; the others are their mirror images, the centre is everything.
        counts[volume // 2 + 1 :] = counts[: volume // 2][::-1]
        counts[volume // 2] = len(indices)
    else:
        output_space = list(call.param("output_space"))
        active = SpconvOps.generate_conv_inds_cpu(
            *tensors, call.param("batch"), output_space, input_space, kernel, stride, pad, dilation
        )
    order = np.arange(active) if sub_m else np.lexsort(found[:active].T[::-1])
    place = np.empty(active, np.int32)
    place[order] = np.arange(active, dtype=np.int32)
    table = call.array("indice_pairs")
    table[...] = -1
    for offset, count in enumerate(counts.tolist()):
        rows, outputs = pairs[:, offset, :count]
        by_input = np.argsort(rows, kind="stable")
        table[offset, 0, :count] = rows[by_input]
        table[offset, 1, :count] = place[outputs[by_input]]
    call.array("indice_num")[...] = counts
    call.array("out_indices")[:active] = found[order]
    call.scalars["num_act_out"] = int(active)


def forward(call: OpCall) -> None:
    """Gather, multiply, add: offset by offset."""
    features, weights, out = call.array("features"), weights_of(call), call.array("features_out")
    out[...] = 0
    for offset, (inputs, outputs) in pairs_of(call):
        products = gathered(features, inputs) @ weights[offset]
        SpconvOps.scatter_add_cpu(tv.from_numpy(out), tv.from_numpy(products), tv.from_numpy(outputs))


def backward_data(call: OpCall) -> None:
    """The same, the other way round."""
    gradients, weights, out = call.array("output_grad"), weights_of(call), call.array("input_grad")
    out[...] = 0
    for offset, (inputs, outputs) in pairs_of(call):
        products = gathered(gradients, outputs) @ weights[offset].T
        SpconvOps.scatter_add_cpu(tv.from_numpy(out), tv.from_numpy(products), tv.from_numpy(inputs))


def backward_filter(call: OpCall) -> None:
    """Gathered rows of both sides, multiplied."""
    features, gradients, out = (call.array(name) for name in ("features", "output_grad", "filters_grad"))
    out[...] = 0
    by_offset = out.reshape(-1, *out.shape[-2:])
    for offset, (inputs, outputs) in pairs_of(call):
        by_offset[offset] = gathered(features, inputs).T @ gathered(gradients, outputs)


def pairs_of(call: OpCall):
    """(offset, (input rows, output rows)) of every offset that has pairs."""
    table = call.array("indice_pairs")
    for offset, count in enumerate(call.param("indice_num")):
        if count:
            yield offset, tuple(np.ascontiguousarray(row[:count]) for row in table[offset])


def gathered(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The named rows, by spconv."""
    out = np.empty((len(places), rows.shape[1]), rows.dtype)
    SpconvOps.gather_cpu(tv.from_numpy(out), tv.from_numpy(np.ascontiguousarray(rows)), tv.from_numpy(places))
    return out


def weights_of(call: OpCall) -> np.ndarray:
    """[K, Ci, Co], whatever the layout."""
    filters = call.array("filters")
    axes = AXES[call.tensor("filters").layout.value][-filters.ndim :]
    ordered = filters.transpose([axes.index(axis) for axis in "DHWCN" if axis in axes])
    return ordered.reshape(-1, *ordered.shape[-2:])


backend = SpconvKernels()
