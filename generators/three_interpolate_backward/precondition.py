"""What the document takes for granted about the indices: no kernel can be held to a case that breaks it."""

from mluops_gtest.authoring import OpCall


def precondition(call: OpCall) -> str | None:
    """Every index names one of the M cells."""
    # §1.4 demands 0 … M − 1; beyond, mmcv writes into foreign memory. §1.4's limit of 2^23 − 1 is that of a series that
    # is no longer supported.
    cells = call.tensor("grad_features").dims[2]
    indices = call.array("indices")
    if indices.min() < 0 or indices.max() >= cells:
        return f"indices names a cell outside of 0 … {cells - 1}"
    return None
