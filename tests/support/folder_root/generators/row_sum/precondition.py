"""What the document takes for granted about the data of a call."""

from mluops_gtest.authoring import OpCall


def precondition(call: OpCall) -> str | None:
    """Every row belongs to a segment that exists (§2); why it does not hold, or None."""
    segments = call.array("segments")
    last = call.param("num_segments") - 1
    if segments.size and (segments.min() < 0 or segments.max() > last):
        return f"segments leaves 0 … {last}"
    return None
