"""tin_shift_forward: moves the frames of every group of channels in time, by a shift of its own."""

from .._shared.tin_shift import TinShift

# §1.2: G divides C, and group g is the contiguous channels from g·C/G on; §1.1 calls T what mmcv calls G.
# §1.4: any int32 is a shift; one by T and more leaves zeros, which are the operator's work.

# §1.1: T alone may be 0.
OPERATOR = TinShift("input", "output").operator(
    "forward",
    150002,
    summary="Moves frames in time, every group of channels by a shift of its own; zeros follow.",
    reversed_words="frames move the other way",
)
