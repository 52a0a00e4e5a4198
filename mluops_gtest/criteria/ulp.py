"""The distance of floating-point numbers in units in the last place."""

import numpy as np

from mluops_gtest.model.dtypes import Array


def max_ulp(evaluated: Array, baseline: Array, scratch: Array) -> int:
    """The largest number of steps between two finite numbers given as signed bit patterns; −0 is +0.

    `scratch` has the same type and length and is overwritten.
    """
    np.bitwise_xor(evaluated, baseline, out=scratch)
    across = 0
    mixed = None
    if scratch.min() < 0:
        # Opposite signs: the steps down to zero and those up again; unsigned, because the sum may pass the sign bit.
        mixed = scratch < 0
        magnitude = evaluated.dtype.type(np.iinfo(evaluated.dtype).max)
        unsigned = f"u{evaluated.itemsize}"
        down = (evaluated[mixed] & magnitude).view(unsigned)
        up = (baseline[mixed] & magnitude).view(unsigned)
        across = int((down + up).max())
    # Equal signs: patterns are ordered like magnitudes, and their difference cannot overflow.
    np.subtract(evaluated, baseline, out=scratch)
    if mixed is not None:
        scratch[mixed] = 0
    return max(across, int(scratch.max()), -int(scratch.min()))
