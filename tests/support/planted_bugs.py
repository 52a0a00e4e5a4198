"""Kernels that are wrong in one way each, and the headline that each must get."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from generators._shared.connections import weights_by_offset
from tests.support.planted_run import half_of


@dataclass(frozen=True)
class Bug:
    """`cause` is where and what; `when` has {} for a number within `limits`, since it moves with the cases.

    `spoil` takes a call, its outputs, which it changes, and what they held before.
    """

    operator: str
    cause: str
    spoil: Callable
    when: str = ""
    limits: tuple[int, int] | None = None
    # It shows as it should only where there are cases that are too large for a file, too.
    large: bool = False

    @property
    def choose(self):
        """Of the ids of cases those that show the bug: all where it has a condition, which they decide together."""
        return tuple if self.when else half_of


def zero(output, index):
    """Part of an output is zero."""
    return replace(output, lambda _: 0, index)


def leave_unwritten(output, index):
    """Part of an output stays what it was."""

    def spoil(call, outputs, before):
        outputs[output][index] = before[output][index]

    return spoil


def replace(output, compute, index=..., dtype=None):
    """Part of an output is computed from it; with a type, only where the output has it."""

    def spoil(call, outputs, before):
        array = outputs[output]
        if dtype in (None, array.dtype):
            array[index] = compute(array[index].copy())

    return spoil


def to_bfloat16(values):
    bits = values.astype(np.float32).view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = (((bits + 0x7FFF + odd) >> 16) << 16).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def half_more(output):
    """All of it is one and a half times too large."""
    return replace(output, lambda values: values * values.dtype.type(1.5))


def counted_from_one(call, outputs, before):
    """Positions, and −1 where there is none."""
    outputs["points_indices"][outputs["points_indices"] >= 0] += 1


def last_columns_zero(call, outputs, before):
    """Of the rows that samples are routed to."""
    experts, places = call.array("indices").astype(np.int64), call.array("locations")
    capacity = call.param("capacity")
    routed = (experts >= 0) & (experts < call.param("num_experts")) & (places >= 0) & (places < capacity)
    outputs["dispatch"][(experts * capacity + places)[routed], -1] = 0


def last_of_each(numbers):
    """Where each number stands for the last time."""
    return len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]


def memo_off_by_one(call, outputs, before):
    memo = outputs["pos_memo"]
    memo[..., 1][memo[..., 0] >= 0] += 1


def last_point_wins(call, outputs, before):
    memo, features, pooled = outputs["pos_memo"], call.array("input_features"), outputs["output_features"]
    batch, point = np.nonzero(memo[..., 0] >= 0)
    _, y, x = memo[batch, point].T
    last = last_of_each(np.ravel_multi_index((batch, y, x), pooled.shape[:-1]))
    pooled[batch[last], y[last], x[last]] = features[batch[last], point[last]]


def two_neighbours_swapped(call, outputs, before):
    for array in outputs.values():
        array[..., 1:] = array[..., :0:-1].copy()


def tail_scaled(call, outputs, before):
    flat = outputs["output"].reshape(-1)
    if flat.size > 4000:
        flat[-64:] *= flat.dtype.type(1.125)


def last_writer_wins(call, outputs, before):
    gradient, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    result = outputs["grad_features"]
    result[...] = 0
    for batch, cells in enumerate(indices.reshape(len(indices), -1)):
        last = last_of_each(cells)
        result[batch][:, cells[last]] = gradient[batch][:, last // 3] * weights[batch].reshape(-1)[last]


def last_sample_unwritten(call, outputs, before):
    idx = outputs["idx"]
    if idx.shape[-1] > 1:
        idx[..., -1] = before["idx"][..., -1]


def sign_lost(call, outputs, before):
    feats = outputs["voxel_feats"][: int(outputs["voxel_num"][0])]
    feats[...] = np.abs(feats)


def mean_halved(call, outputs, before):
    if call.params["reduce_type"] == 1:
        outputs["voxel_feats"][: int(outputs["voxel_num"][0])] /= 2


def last_pair_wins(source, target, *, backward):
    """Of the pairs of every row the last one alone counts."""

    def spoil(call, outputs, before):
        values, pairs, out = call.array(source), call.array("indice_pairs"), outputs[target]
        weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout).astype(np.float64)
        for offset, number in enumerate(call.param("indice_num")):
            sources, targets = pairs[offset, :, :number][:: -1 if backward else 1]
            last = last_of_each(targets)
            weight = weights[offset].T if backward else weights[offset]
            out[targets[last]] = values[sources[last]].astype(np.float64) @ weight

    return spoil


_POOLED, _SINGLE = "output_features", np.dtype(np.float32)
BUGS = [
    Bug("voxel_pooling_forward", "output_features[:, -1] is zero", zero(_POOLED, np.s_[:, -1])),
    Bug(
        "voxel_pooling_forward", "output_features[:, :, :, 64:] is zero",
        zero(_POOLED, np.s_[..., 64:]), "when num_channels ≥ {}", (65, 66),
    ),
    Bug(
        "voxel_pooling_forward", "output_features[1:] is never written",
        leave_unwritten(_POOLED, np.s_[1:]), "when batch_size ≥ {}", (2, 2),
    ),
    Bug("voxel_pooling_forward", "elements of pos_memo[:, :, 1] are 1 too large", memo_off_by_one),
    Bug("voxel_pooling_forward", "all of output_features is as if the last point of every cell wins", last_point_wins),
    Bug(
        "masked_im2col_forward", "data_col[:, :-1] is the value that belongs 1 further along axis 1",
        replace("data_col", lambda col: np.hstack([col[:, 1:], col[:, -1:]])), "only when m ≥ {}", (2, 2),
    ),
    Bug(
        "masked_im2col_forward", "elements of data_col[:, 32:40] are zero",
        zero("data_col", np.s_[:, 32:40]), "only when m ≥ {}", (33, 64), large=True,
    ),
    Bug(
        "masked_im2col_forward", "all of data_col is of the wrong sign",
        replace("data_col", np.negative, dtype=np.dtype(np.float16)), "only when data_col is half",
    ),
    Bug(
        "masked_col2im_forward", "all of im is laid out with the axes 2 and 3 swapped",
        replace("im", lambda im: im.transpose(0, 1, 3, 2).reshape(im.shape)),
    ),
    Bug("masked_col2im_forward", "im[:, -1] is never written", leave_unwritten("im", np.s_[:, -1])),
    Bug("masked_col2im_forward", "im[:, :, :, 0] is zero", zero("im", np.s_[..., 0])),
    Bug(
        "three_nn_forward", "all of idx is wrong: indices 1 and 2 of axis 2 are swapped; dist2 is wrong, too",
        two_neighbours_swapped,
    ),
    Bug(
        "three_nn_forward", "all of dist2 is rounded to bfloat16",
        replace("dist2", to_bfloat16, dtype=_SINGLE), "only when dist2 is float",
    ),
    Bug("three_nn_forward", "all of idx is 1 too large", replace("idx", lambda idx: idx + 1)),
    Bug(
        "three_interpolate_forward", "all of output is scaled by 1.25",
        replace("output", lambda output: output * np.float16(1.25)),
    ),
    Bug(
        "three_interpolate_forward", "all of output is rounded to half",
        replace("output", lambda output: output.astype(np.float16)), "when output is float",
    ),
    Bug(
        "three_interpolate_forward", "all of output is what belongs at index 0 of axis 0",
        replace("output", lambda output: output[:1]), "when B ≥ {}", (2, 2),
    ),
    Bug(
        "three_interpolate_forward", "the last 64 elements of output are scaled by 1.125",
        tail_scaled, "when output has at least {} elements", (4001, 4096), large=True,
    ),
    Bug(
        "three_interpolate_backward", "all of grad_features is as if the last contribution of every cell wins",
        last_writer_wins,
    ),
    Bug(
        "three_interpolate_backward", "grad_features[:, 1::2] is zero",
        zero("grad_features", np.s_[:, 1::2]), "when C ≥ {}", (2, 2),
    ),
    Bug(
        "three_interpolate_backward", "grad_features[:, :, -1] is NaN",
        replace("grad_features", lambda _: np.nan, np.s_[..., -1]),
    ),
    Bug("ball_query", "idx[:, :, -1] is never written", last_sample_unwritten, "only when nsample ≥ {}", (2, 2)),
    Bug("ball_query", "idx[:, 64:] is zero", zero("idx", np.s_[:, 64:]), "when M ≥ {}", (65, 66)),
    Bug(
        "ball_query", "all of idx is wrapped to 8 bits without a sign",
        replace("idx", lambda idx: idx & 0xFF), "when N ≥ {}", (257, 258),
    ),
    Bug(
        "dynamic_point_to_voxel_forward", "all of voxel_points_count is saturated at 3",
        replace("voxel_points_count", lambda count: np.minimum(count, 3)),
    ),
    Bug(
        "dynamic_point_to_voxel_forward", "voxel_feats where negative values belong is of the wrong sign", sign_lost
    ),
    Bug("dynamic_point_to_voxel_forward", "voxel_num is 1 too small", replace("voxel_num", lambda number: number - 1)),
    Bug(
        "dynamic_point_to_voxel_forward", "all of voxel_feats is scaled by 0.5", mean_halved, "when reduce_type = 1"
    ),
    Bug("dynamic_scatter_backward", "grad_feats[-1] is never written", leave_unwritten("grad_feats", -1)),
    Bug(
        "dynamic_scatter_backward", "all of grad_feats is reversed along axis 0",
        replace("grad_feats", lambda rows: rows[::-1]),
    ),
    Bug("get_indice_pairs", "all of indice_num is 1 too large", replace("indice_num", lambda number: number + 1)),
    Bug(
        "get_indice_pairs", "all of out_indices is wrong: indices 2 and 3 of axis 1 are swapped",
        replace("out_indices", lambda sites: sites[:, ::-1], np.s_[:, 2:]),
    ),
    Bug(
        "indice_convolution_backward_data", "input_grad[:, 32:] is zero",
        zero("input_grad", np.s_[:, 32:]), "when Ci ≥ {}", (33, 64),
    ),
    Bug("indice_convolution_backward_data", "input_grad[-1] is never written", leave_unwritten("input_grad", -1)),
    Bug(
        "indice_convolution_backward_data", "all of input_grad is as if the last pair of every row wins",
        last_pair_wins("output_grad", "input_grad", backward=True), "only when indice_pairs.shape[0] ≥ {}", (2, 2),
    ),
    Bug(
        "indice_convolution_backward_filter", "all of filters_grad is scaled by 2",
        replace("filters_grad", lambda gradient: gradient * 2),
    ),
    Bug(
        "indice_convolution_forward", "features_out[:, 0] is infinite",
        replace("features_out", lambda _: np.inf, np.s_[:, 0], np.dtype(np.float16)), "when features_out is half",
    ),
    Bug(
        "indice_convolution_forward", "all of features_out is rounded to bfloat16",
        replace("features_out", to_bfloat16, dtype=_SINGLE), "only when features_out is float",
    ),
    Bug(
        "indice_convolution_forward", "all of features_out is as if the last pair of every row wins",
        last_pair_wins("features", "features_out", backward=False),
    ),
    Bug("abs", "all of y is zero", zero("y", ...)),
    Bug("active_rotated_filter_forward", "all of output is zero", zero("output", ...)),
    Bug("bbox_overlaps", "all of ious is as if the distance 1 − IoU is written", replace("ious", lambda iou: 1 - iou)),
    Bug("div", "all of z is scaled by 1.5", half_more("z")),
    Bug("focal_loss_sigmoid_backward", "grad_input[:, -1] is zero", zero("grad_input", np.s_[:, -1])),
    Bug("focal_loss_sigmoid_forward", "all of output is of the wrong sign", replace("output", np.negative)),
    # Without slots every gradient is 0.
    Bug(
        "moe_dispatch_backward_data", "all of grad_input is scaled by 1.5",
        half_more("grad_input"), "only when dispatch.shape[0] ≥ {}", (1, 1),
    ),
    Bug("moe_dispatch_backward_gate", "all of grad_gates is scaled by 1.5", half_more("grad_gates")),
    Bug("moe_dispatch_forward", "the ends of lines of dispatch along axis 1 are zero", last_columns_zero),
    Bug("ms_deform_attn_forward", "all of data_col is scaled by 1.5", half_more("data_col")),
    Bug("points_in_boxes", "elements of points_indices are 1 too large", counted_from_one),
    Bug("psamask_backward", "all of dx is scaled by 1.5", half_more("dx")),
    Bug("psamask_forward", "all of y is zero", zero("y", ...)),
    Bug("roiaware_pool3d_backward", "grad_in[0] is zero", zero("grad_in", 0)),
    Bug(
        "roiaware_pool3d_forward", "pooled_features[:, :, :, :, -1] is never written",
        leave_unwritten("pooled_features", np.s_[..., -1]),
    ),
    Bug("roipoint_pool3d", "all of pooled_empty_flag is zero", zero("pooled_empty_flag", ...)),
    Bug("sqrt", "all of y is zero", zero("y", ...)),
    Bug("tin_shift_backward", "all of grad_input is of the wrong sign", replace("grad_input", np.negative)),
    Bug("tin_shift_forward", "output[:, :, :, -1] is never written", leave_unwritten("output", np.s_[..., -1])),
    Bug(
        "voxelization", "all of num_points_per_voxel is 1 too large",
        replace("num_points_per_voxel", lambda counts: counts + 1),
    ),
]  # fmt: skip
