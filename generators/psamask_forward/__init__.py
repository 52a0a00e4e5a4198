"""psamask_forward: lays the mask of every pixel over the image around it."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.psamask import READINGS, Psamask

MASK: Final = Psamask("x", "y")
DEFINITION: Final = define_copies("y", MASK.copies, row="image")

OPERATOR = Operator(
    name="psamask_forward",
    released_name="psamask_forward",
    op_type=("PSAMASK_FORWARD", 134658),
    summary="Lays every pixel's mask over the image around it, in the pixel's own map or spread over the maps; elsewhere 0.",
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
