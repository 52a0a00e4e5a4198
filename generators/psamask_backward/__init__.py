"""psamask_backward: takes the gradients of every pixel's mask off the maps again."""

from .._shared.psamask import Psamask

# Forward's exact adjoint: a value of a map comes from one value of a mask at most, so nothing is summed.
# §3.1.1's tables put the centre of a mask at ⌊(mask − 1) / 2⌋; its listings lack plus signs, and one minus.
# §3.1.2: DISTRIBUTE is COLLECT with the two H·W of dy exchanged. Any other psa_type is unchecked and not defined.
# §1.1: dy decides what is empty; with an empty mask beside it all is checked, and nothing is written.
OPERATOR = Psamask(masks="dx", maps="dy", is_forward=False).operator(
    "Takes the gradient of every pixel's mask off the maps that forward laid it on; 0 where it left the image."
)
