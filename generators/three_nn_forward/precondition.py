"""What must hold of the data of a valid call, so that there is one right answer."""

import numpy as np

from mluops_gtest.authoring import OpCall

from .._shared.points import lattice_fault, nearest_stand_apart


def precondition(call: OpCall) -> str | None:
    """Every evaluation in the tensors' type finds the same neighbours in the same order.

    §1.1 asks for distances in half or float and leaves open how they are rounded; where that decides who is nearest, or
    whether a half distance overflows, two right kernels differ.
    """
    unknown, known = call.array("unknown"), call.array("known")
    if lattice_fault(unknown, known) is None:
        return None
    apart = nearest_stand_apart(unknown, known)
    if apart.all():
        return None
    batch, point = np.argwhere(~apart)[0]
    return f"how distances are rounded decides which points are nearest to unknown[{batch}, {point}], or in which order"
