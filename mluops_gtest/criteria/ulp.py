"""The distance of floating-point numbers in units in the last place."""

import numpy as np

from mluops_gtest.model.dtypes import Array


def max_ulp(evaluated: Array, baseline: Array, scratch: Array, *, one_sign: bool) -> int:
    """The largest number of steps between two finite numbers given as signed bit patterns; −0 is +0.

    `scratch` has the same type and length and is overwritten; `one_sign` promises that no pair differs in sign.
    """
    apart = None if one_sign else np.bitwise_xor(evaluated, baseline, out=scratch) < 0
    # Patterns of one sign are ordered like magnitudes, and their difference cannot overflow.
    np.subtract(evaluated, baseline, out=scratch)
    across = 0
    if apart is not None and apart.any():
        scratch[apart] = 0
        across = _across_zero(evaluated[apart], baseline[apart])
    return max(across, int(scratch[scratch.argmax()]), -int(scratch[scratch.argmin()]))


def _across_zero(evaluated: Array, baseline: Array) -> int:
    """The steps down to zero and up again; unsigned, because their sum may pass the sign bit."""
    magnitude = evaluated.dtype.type(np.iinfo(evaluated.dtype).max)
    unsigned = f"u{evaluated.itemsize}"
    return int(((evaluated & magnitude).view(unsigned) + (baseline & magnitude).view(unsigned)).max())
