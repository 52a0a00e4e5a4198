"""The oracle: sums in float64, rounded once; and the figures for efficiency."""

import numpy as np

from mluops_gtest.authoring import Baseline, OpCall, Theory


def reference(call: OpCall) -> Baseline:
    """The output of a valid call."""
    values = call.array("values")
    sums = np.zeros((call.param("num_segments"), values.shape[1]), np.float64)
    np.add.at(sums, call.array("segments"), values.astype(np.float64))
    return Baseline({"output": sums.astype(values.dtype)})


def theory(call: OpCall) -> Theory:
    """Every tensor is touched once; one addition per value."""
    touched = sum(call.tensor(name).desc.nbytes for name in ("values", "segments", "output"))
    return Theory(io_bytes=touched, ops=call.tensor("values").desc.count)
