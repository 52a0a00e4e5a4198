"""psamask_forward: lays the mask of every pixel over the image around it."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.psamask import Psamask
from .._shared.wrong_psamask import mask_suspects

# §3.1.1's tables put the centre of a mask at ⌊(mask − 1) / 2⌋; its listings lack plus signs, and one minus.
# §3.1.2: DISTRIBUTE is COLLECT with the two H·W of y exchanged. Any other psa_type is unchecked and not defined.
MASK: Final = Psamask("x", "y")
DEFINITION: Final = define_copies("y", MASK.copies, row="image")

OPERATOR = Operator(
    name="psamask_forward",
    released_name="psamask_forward",
    op_type=("PSAMASK_FORWARD", 134658),
    summary="Lays every pixel's mask over the image around it, in its own map or spread over all; elsewhere 0.",
    inputs=MASK.inputs,
    # §3.2.1: the operator clears y itself, which mmcv leaves to its caller.
    outputs=MASK.outputs,
    params=MASK.params,
    axes=MASK.axes,
    sizes=MASK.sizes,
    # §1.4 has no strides. The library makes BAD_PARAM of strides and large sizes, where the header has NOT_SUPPORTED.
    # §1.1: an empty mask is a success, and y stays as it was though it has elements.
    checks=MASK.checks,
    definition=DEFINITION,
    theory=MASK.theory,
    kernel=MASK.kernel,
    suspects=mask_suspects(MASK),
    precondition=MASK.precondition,
    reductions=MASK.reductions,
    # psa_type comes before the tensors, though it is the last field of files.
    c_api=c_function(
        "mluOpPsamaskForward",
        arguments=(HANDLE, *scalar("psa_type"), *tensor("x"), *scalar("h_mask", "w_mask"), *tensor("y")),
    ),
    exact=MASK.elements,
    torch_kernel=MASK.torch_kernel,
)
