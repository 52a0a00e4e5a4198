"""tin_shift_forward: moves the frames of every group of channels in time, by a shift of its own."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.tin_shift import TinShift

# §1.2: G divides C, and group g is the contiguous channels from g·C/G on; §1.1 calls T what mmcv calls G.
# §1.4: any int32 is a shift; one by T and more leaves zeros, which are the operator's work.
SHIFT: Final = TinShift("input", "output")
DEFINITION: Final = define_copies("output", SHIFT.copies, row="clip")

OPERATOR = Operator(
    name="tin_shift_forward",
    released_name="tin_shift_forward",
    op_type=("TIN_SHIFT_FORWARD", 150002),
    summary="Moves frames in time, every group of channels by a shift of its own; zeros follow.",
    inputs=SHIFT.inputs,
    outputs=SHIFT.outputs,
    params=None,
    axes=SHIFT.axes,
    # §1.1: T alone may be 0.
    checks=SHIFT.checks,
    subsumed=SHIFT.subsumed,
    definition=DEFINITION,
    kernel=SHIFT.kernel,
    suspects=SHIFT.suspects("frames move the other way"),
    reductions=SHIFT.reductions,
    c_api=c_function("mluOpTinShiftForward"),
    exact=SHIFT.elements,
    torch_kernel=SHIFT.torch_kernel,
)
