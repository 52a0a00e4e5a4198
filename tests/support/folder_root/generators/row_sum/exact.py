"""One element of the output as §1 defines it, without rounding: who is right where a backend and a baseline differ."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, total


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The sum of the rows of a segment."""
    values, segments = call.array("values"), call.array("segments")

    def output(segment: int, channel: int) -> Fraction | float:
        return total(values[np.flatnonzero(segments == segment), channel].astype(np.float64))

    return {"output": output}
