"""Mistakes that kernels make about which cell a window element copies."""

from collections.abc import Mapping

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import as_read, with_inputs, with_params

from .reference import reference


def _masks_exchanged(call: OpCall) -> OpCall:
    return with_inputs(call, mask_h_idx=call.array("mask_w_idx"), mask_w_idx=call.array("mask_h_idx"))


def _kernel_major(call: OpCall) -> Mapping[str, Array]:
    columns = reference(call).outputs["data_col"]
    by_channel = columns.reshape(call.tensor("feature").dims[1], -1, columns.shape[1])
    return {"data_col": by_channel.swapaxes(0, 1).reshape(columns.shape)}


SUSPECTS = {
    "windows begin at the mask position, without the padding": as_read(
        reference, lambda call: with_params(call, pad_h=0, pad_w=0)
    ),
    "mask_h_idx and mask_w_idx are exchanged": as_read(reference, _masks_exchanged),
    # §1.1's order.
    "rows stand by kernel offset, then by channel": _kernel_major,
}
