"""tin_shift_backward: moves the gradients of every group of channels in time, as forward moves the frames."""

from .._shared.tin_shift import TinShift

# §1.2: G divides C, and group g is the contiguous channels from g·C/G on; §1.1 calls T what mmcv calls G.
# §1.4: any int32 is a shift; one by T and more leaves zeros, which are the operator's work.

# The gradient of forward would move by −shifts. The header describes a shift by shifts, the library launches one kernel
# for both, mmcv's two kernels are alike and get the same shifts: backward is forward's shift of the gradients (§1.2).

# §1.1: T alone may be 0.
OPERATOR = TinShift("grad_output", "grad_input").operator(
    "backward",
    150003,
    summary="Moves gradients in time, every group of channels by a shift of its own; zeros follow.",
    reversed_words="gradients move by −shifts, as forward's adjoint does",
)
