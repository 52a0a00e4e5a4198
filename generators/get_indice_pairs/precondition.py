"""What the document takes for granted about the sites."""

from mluops_gtest.authoring import OpCall


def precondition(call: OpCall) -> str | None:
    """Every site lies in the batch and in the input space (§1.2)."""
    sites = call.array("indices")
    for axis, limit in enumerate((call.param("batch"), *call.param("input_space"))):
        if sites[:, axis].min() < 0 or sites[:, axis].max() >= limit:
            return f"indices[:, {axis}] leaves 0 … {limit - 1}"
    return None
