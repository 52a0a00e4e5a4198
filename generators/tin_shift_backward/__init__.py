"""tin_shift_backward: moves the gradients of every group of channels in time, as forward moves the frames."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.tin_shift import TinShift

SHIFT: Final = TinShift("grad_output", "grad_input")
# The gradient of forward would move by −shifts. The header describes a shift by shifts, the library launches one kernel
# for both, mmcv's two kernels are alike and get the same shifts: backward is forward's shift of the gradients.
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
