"""psamask_backward: takes the gradients of every pixel's mask off the maps again."""

from typing import Final

from mluops_gtest.authoring import Operator
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.copy_of import define_copies

from .._shared.psamask import Psamask
from .._shared.wrong_psamask import mask_suspects

# Forward's exact adjoint: a value of a map comes from one value of a mask at most, so nothing is summed.
# §3.1.1's tables put the centre of a mask at ⌊(mask − 1) / 2⌋; its listings lack plus signs, and one minus.
# §3.1.2: DISTRIBUTE is COLLECT with the two H·W of dy exchanged. Any other psa_type is unchecked and not defined.
MASK: Final = Psamask("dy", "dx")
DEFINITION: Final = define_copies("dx", MASK.copies, row="image")

OPERATOR = Operator(
    name="psamask_backward",
    released_name="psamask_backward",
    op_type=("PSAMASK_BACKWARD", 134659),
    summary="Takes the gradient of every pixel's mask off the maps that forward laid it on; 0 where it left the image.",
    inputs=MASK.inputs,
    # §3.2.1: the operator clears dx itself, which mmcv leaves to its caller.
    outputs=MASK.outputs,
    params=MASK.params,
    axes=MASK.axes,
    sizes=MASK.sizes,
    # §1.4 has no strides. The library makes BAD_PARAM of strides and large sizes, where the header has NOT_SUPPORTED.
    # §1.1: dy decides what is empty; with an empty mask beside it all is checked, and nothing is written.
    checks=MASK.checks,
    definition=DEFINITION,
    theory=MASK.theory,
    kernel=MASK.kernel,
    suspects=mask_suspects(MASK),
    precondition=MASK.precondition,
    reductions=MASK.reductions,
    # psa_type comes before the tensors, though it is the last field of files.
    c_api=c_function(
        "mluOpPsamaskBackward",
        arguments=(HANDLE, *scalar("psa_type"), *tensor("dy"), *scalar("h_mask", "w_mask"), *tensor("dx")),
    ),
    exact=MASK.elements,
    torch_kernel=MASK.torch_kernel,
)
