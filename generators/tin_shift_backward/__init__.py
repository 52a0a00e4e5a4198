"""tin_shift_backward: moves the gradients of every group of channels in time, as forward moves the frames."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.tin_shift import TinShift

# §1.2: G divides C, and group g is the contiguous channels from g·C/G on; §1.1 calls T what mmcv calls G.
# §1.4: any int32 is a shift; one by T and more leaves zeros, which are the operator's work.
SHIFT: Final = TinShift("grad_output", "grad_input")
# The gradient of forward would move by −shifts. The header describes a shift by shifts, the library launches one kernel
# for both, mmcv's two kernels are alike and get the same shifts: backward is forward's shift of the gradients (§1.2).
DEFINITION: Final = define_copies("grad_input", SHIFT.copies, row="clip")

OPERATOR = Operator(
    name="tin_shift_backward",
    released_name="tin_shift_backward",
    op_type=("TIN_SHIFT_BACKWARD", 150003),
    summary="Moves gradients in time, every group of channels by a shift of its own; zeros follow.",
    inputs=SHIFT.inputs,
    outputs=SHIFT.outputs,
    params=None,
    axes=SHIFT.axes,
    # §1.1: T alone may be 0.
    checks=SHIFT.checks,
    subsumed=SHIFT.subsumed,
    definition=DEFINITION,
    kernel=SHIFT.kernel,
    suspects=SHIFT.suspects("gradients move by −shifts, as forward's adjoint does"),
    reductions=SHIFT.reductions,
    c_api=c_function("mluOpTinShiftBackward"),
    exact=SHIFT.elements,
    torch_kernel=SHIFT.torch_kernel,
)
