"""psamask_backward: takes the gradients of every pixel's mask off the maps again."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.psamask import READINGS, Psamask

# Forward's exact adjoint: a value of a map comes from one value of a mask at most, so nothing is summed.
MASK: Final = Psamask("dy", "dx")
DEFINITION: Final = define_copies("dx", MASK.copies, row="image")

OPERATOR = Operator(
    name="psamask_backward",
    released_name="psamask_backward",
    op_type=("PSAMASK_BACKWARD", 134659),
    summary="Takes the gradient of every pixel's mask off the maps that forward laid it on; 0 where it left the image.",
    inputs=MASK.inputs,
    outputs=MASK.outputs,
    params=MASK.params,
    axes=MASK.axes,
    sizes=MASK.sizes,
    checks=MASK.checks,
    definition=DEFINITION,
    theory=MASK.theory,
    kernel=MASK.kernel,
    suspects=MASK.suspects(READINGS),
    precondition=MASK.precondition,
    reductions=MASK.reductions,
    c_api=MASK.c_api,
    exact=MASK.elements,
    torch_kernel=MASK.torch_kernel,
)
