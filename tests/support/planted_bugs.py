"""Kernels that are wrong in one way each, and the headline that each must get."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from generators._shared.connections import weights_by_offset


@dataclass(frozen=True)
class Bug:
    """`cause` is where and what; `when` has {} for a number within `limits`, since it moves with the cases."""

    operator: str
    name: str
    spoil: Callable
    cause: str
    when: str = ""
    limits: tuple[int, int] | None = None
    # It shows as it should only where there are cases that are too large for a file, too.
    large: bool = False


BUGS: list[Bug] = []


def bug(operator, *told):
    """Registers the decorated function: it changes the outputs of a call; `before` is what they held."""

    def note(spoil):
        BUGS.append(Bug(operator, spoil.__name__, spoil, *told))
        return spoil

    return note


# --- voxel_pooling_forward
@bug("voxel_pooling_forward", "output_features[:, -1] is zero")
def last_row_zero(call, outputs, before):
    outputs["output_features"][:, -1] = 0


@bug("voxel_pooling_forward", "output_features[:, :, :, 64:] is zero", "when num_channels ≥ {}", (65, 66))
def channels_from_64_zero(call, outputs, before):
    outputs["output_features"][..., 64:] = 0


@bug("voxel_pooling_forward", "output_features[1:] is never written", "when batch_size ≥ {}", (2, 2))
def later_batches_unwritten(call, outputs, before):
    outputs["output_features"][1:] = before["output_features"][1:]


@bug("voxel_pooling_forward", "elements of pos_memo[:, :, 1] are 1 too large")
def memo_off_by_one(call, outputs, before):
    memo = outputs["pos_memo"]
    memo[..., 1][memo[..., 0] >= 0] += 1


@bug("voxel_pooling_forward", "all of output_features is as if the last point of every cell wins")
def last_point_wins(call, outputs, before):
    memo, features, pooled = outputs["pos_memo"], call.array("input_features"), outputs["output_features"]
    batch, point = np.nonzero(memo[..., 0] >= 0)
    _, y, x = memo[batch, point].T
    last = last_of_each(np.ravel_multi_index((batch, y, x), pooled.shape[:-1]))
    pooled[batch[last], y[last], x[last]] = features[batch[last], point[last]]


# --- masked_im2col_forward
@bug(
    "masked_im2col_forward",
    "data_col[:, :-1] is the value that belongs 1 further along axis 1",
    "only when m ≥ {}",
    (2, 2),
)
def next_column(call, outputs, before):
    col = outputs["data_col"]
    col[:, :-1] = col[:, 1:].copy()


@bug("masked_im2col_forward", "elements of data_col[:, 32:40] are zero", "only when m ≥ {}", (33, 64), True)
def columns_32_to_40_zero(call, outputs, before):
    outputs["data_col"][:, 32:40] = 0


@bug("masked_im2col_forward", "all of data_col is of the wrong sign", "only when data_col is half")
def half_negated(call, outputs, before):
    col = outputs["data_col"]
    if col.dtype == np.float16:
        col *= -1


# --- masked_col2im_forward
@bug("masked_col2im_forward", "all of im is laid out with the axes 2 and 3 swapped")
def height_and_width_swapped(call, outputs, before):
    im = outputs["im"]
    im[...] = im.transpose(0, 1, 3, 2).reshape(im.shape).copy()


@bug("masked_col2im_forward", "im[:, -1] is never written")
def last_channel_unwritten(call, outputs, before):
    outputs["im"][:, -1] = before["im"][:, -1]


@bug("masked_col2im_forward", "im[:, :, :, 0] is zero")
def first_column_zero(call, outputs, before):
    outputs["im"][..., 0] = 0


# --- three_nn_forward
@bug("three_nn_forward", "all of idx is wrong: indices 1 and 2 of axis 2 are swapped; dist2 is wrong, too")
def two_neighbours_swapped(call, outputs, before):
    for array in outputs.values():
        array[..., 1:] = array[..., :0:-1].copy()


@bug("three_nn_forward", "all of dist2 is rounded to bfloat16", "only when dist2 is float")
def distances_in_bfloat16(call, outputs, before):
    dist = outputs["dist2"]
    if dist.dtype == np.float32:
        dist[...] = to_bfloat16(dist)


@bug("three_nn_forward", "all of idx is 1 too large")
def index_off_by_one(call, outputs, before):
    outputs["idx"][...] += 1


# --- three_interpolate_forward
@bug("three_interpolate_forward", "all of output is scaled by 1.25")
def scaled(call, outputs, before):
    outputs["output"][...] *= np.float16(1.25)


@bug("three_interpolate_forward", "all of output is rounded to half", "when output is float")
def rounded_to_half(call, outputs, before):
    out = outputs["output"]
    out[...] = out.astype(np.float16)


@bug("three_interpolate_forward", "all of output is what belongs at index 0 of axis 0", "when B ≥ {}", (2, 2))
def first_batch_everywhere(call, outputs, before):
    out = outputs["output"]
    out[...] = out[:1].copy()


@bug(
    "three_interpolate_forward",
    "the last 64 elements of output are scaled by 1.125",
    "when output has at least {} elements",
    (4001, 4096),
    True,
)
def tail_scaled(call, outputs, before):
    flat = outputs["output"].reshape(-1)
    if flat.size > 4000:
        flat[-64:] *= flat.dtype.type(1.125)


# --- three_interpolate_backward
@bug("three_interpolate_backward", "all of grad_features is as if the last contribution of every cell wins")
def last_writer_wins(call, outputs, before):
    gradient, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    result = outputs["grad_features"]
    result[...] = 0
    for batch, cells in enumerate(indices.reshape(len(indices), -1)):
        last = last_of_each(cells)
        result[batch][:, cells[last]] = gradient[batch][:, last // 3] * weights[batch].reshape(-1)[last]


@bug("three_interpolate_backward", "grad_features[:, 1::2] is zero", "when C ≥ {}", (2, 2))
def odd_channels_zero(call, outputs, before):
    outputs["grad_features"][:, 1::2] = 0


@bug("three_interpolate_backward", "grad_features[:, :, -1] is NaN")
def nan_in_the_last_cell(call, outputs, before):
    outputs["grad_features"][..., -1] = np.nan


# --- ball_query
@bug("ball_query", "idx[:, :, -1] is never written", "only when nsample ≥ {}", (2, 2))
def keeps_last_sample(call, outputs, before):
    idx = outputs["idx"]
    if idx.shape[-1] > 1:
        idx[..., -1] = before["idx"][..., -1]


@bug("ball_query", "idx[:, 64:] is zero", "when M ≥ {}", (65, 66))
def centres_from_64_wrong(call, outputs, before):
    outputs["idx"][:, 64:] = 0


@bug("ball_query", "all of idx is wrapped to 8 bits without a sign", "when N ≥ {}", (257, 258))
def indices_in_8_bits(call, outputs, before):
    outputs["idx"][...] &= 0xFF


# --- dynamic_point_to_voxel_forward
@bug("dynamic_point_to_voxel_forward", "all of voxel_points_count is saturated at 3")
def count_saturates(call, outputs, before):
    count = outputs["voxel_points_count"]
    count[...] = np.minimum(count, 3)


@bug("dynamic_point_to_voxel_forward", "voxel_feats where negative values belong is of the wrong sign")
def sign_lost(call, outputs, before):
    feats = outputs["voxel_feats"]
    rows = int(outputs["voxel_num"][0])
    feats[:rows] = np.abs(feats[:rows])


@bug("dynamic_point_to_voxel_forward", "voxel_num is 1 too small")
def one_voxel_too_few(call, outputs, before):
    outputs["voxel_num"][...] -= 1


@bug("dynamic_point_to_voxel_forward", "all of voxel_feats is scaled by 0.5", "when reduce_type = 1")
def mean_halved(call, outputs, before):
    if call.params["reduce_type"] == 1:
        outputs["voxel_feats"][: int(outputs["voxel_num"][0])] /= 2


# --- dynamic_scatter_backward
@bug("dynamic_scatter_backward", "grad_feats[-1] is never written")
def last_point_unwritten(call, outputs, before):
    outputs["grad_feats"][-1] = before["grad_feats"][-1]


@bug("dynamic_scatter_backward", "all of grad_feats is reversed along axis 0")
def rows_reversed(call, outputs, before):
    outputs["grad_feats"][...] = outputs["grad_feats"][::-1].copy()


# --- get_indice_pairs
@bug("get_indice_pairs", "all of indice_num is 1 too large")
def one_pair_too_many(call, outputs, before):
    outputs["indice_num"][...] += 1


@bug("get_indice_pairs", "all of out_indices is wrong: indices 2 and 3 of axis 1 are swapped")
def height_and_width_of_sites_swapped(call, outputs, before):
    sites = outputs["out_indices"]
    sites[:, 2:] = sites[:, :1:-1].copy()


# --- indice convolutions
@bug("indice_convolution_backward_data", "input_grad[:, 32:] is zero", "when Ci ≥ {}", (33, 64))
def channels_from_32_zero(call, outputs, before):
    outputs["input_grad"][:, 32:] = 0


@bug("indice_convolution_backward_data", "input_grad[-1] is never written")
def last_site_unwritten(call, outputs, before):
    outputs["input_grad"][-1] = before["input_grad"][-1]


@bug("indice_convolution_backward_filter", "all of filters_grad is scaled by 2")
def doubled(call, outputs, before):
    outputs["filters_grad"][...] *= 2


@bug("indice_convolution_forward", "features_out[:, 0] is infinite", "when features_out is half")
def half_infinite(call, outputs, before):
    out = outputs["features_out"]
    if out.dtype == np.float16:
        out[:, 0] = np.inf


@bug("indice_convolution_forward", "all of features_out is rounded to bfloat16", "only when features_out is float")
def sums_in_bfloat16(call, outputs, before):
    out = outputs["features_out"]
    if out.dtype == np.float32:
        out[...] = to_bfloat16(out)


@bug("indice_convolution_forward", "all of features_out is as if the last pair of every row wins")
def last_pair_wins(call, outputs, before):
    features, pairs, out = call.array("features"), call.array("indice_pairs"), outputs["features_out"]
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout).astype(np.float64)
    for offset, number in enumerate(call.param("indice_num")):
        sources, targets = pairs[offset, :, :number]
        last = last_of_each(targets)
        out[targets[last]] = features[sources[last]].astype(np.float64) @ weights[offset]


@bug(
    "indice_convolution_backward_data",
    "all of input_grad is as if the last pair of every row wins",
    "only when K ≥ {}",
    (2, 2),
)
def last_gradient_wins(call, outputs, before):
    gradient, pairs, out = call.array("output_grad"), call.array("indice_pairs"), outputs["input_grad"]
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout).astype(np.float64)
    for offset, number in enumerate(call.param("indice_num")):
        targets, sources = pairs[offset, :, :number]
        last = last_of_each(targets)
        out[targets[last]] = gradient[sources[last]].astype(np.float64) @ weights[offset].T


def to_bfloat16(values):
    bits = values.astype(np.float32).view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = (((bits + 0x7FFF + odd) >> 16) << 16).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def last_of_each(numbers):
    """Where each number stands for the last time."""
    return len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
