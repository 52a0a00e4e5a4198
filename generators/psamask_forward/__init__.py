"""psamask_forward: lays the mask of every pixel over the image around it."""

from .._shared.psamask import Psamask

# §3.1.1's tables put the centre of a mask at ⌊(mask − 1) / 2⌋; its listings lack plus signs, and one minus.
# §3.1.2: DISTRIBUTE is COLLECT with the two H·W of y exchanged. Any other psa_type is unchecked and not defined.
# §1.1: an empty mask is a success, and y stays as it was though it has elements.
OPERATOR = Psamask(masks="x", maps="y", is_forward=True).operator(
    "Lays every pixel's mask over the image around it, in its own map or spread over all; elsewhere 0."
)
