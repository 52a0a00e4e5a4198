"""Numbers that many documents leave open: which tensor of a call or of its answer holds one, in words."""

from collections.abc import Iterator

import numpy as np

from mluops_gtest.core.call import OpCall
from mluops_gtest.core.declaration import Baseline
from mluops_gtest.core.tensor import Array, widened


def find_nonfinite(call: OpCall, baseline: Baseline) -> str | None:
    """The first tensor with NaN or an infinity; None if there is none."""
    named = (name for name, values in _floats(call, baseline) if not np.isfinite(values).all())
    return next((f"{name} has NaN or an infinity" for name in named), None)


def find_subnormal(call: OpCall, baseline: Baseline) -> str | None:
    """The first float tensor with a subnormal number, which a device may take for 0; None if there is none.

    A bfloat16 has the exponents of float, a complex number two floats.
    """
    floats = ((name, np.abs(values)) for name, values in _floats(call, baseline) if values.dtype == np.float32)
    named = (name for name, sizes in floats if ((sizes > 0) & (sizes < np.finfo(np.float32).smallest_normal)).any())
    return next((f"{name} has a subnormal float" for name in named), None)


def _floats(call: OpCall, baseline: Baseline) -> Iterator[tuple[str, Array]]:
    given = {name: tensor.array for name, tensor in call.inputs.items() if tensor is not None}
    for name, array in {**given, **baseline.outputs}.items():
        tensor = call.inputs.get(name) or call.outputs.get(name)
        values = array if array is None or tensor is None else widened(array, tensor.dtype)
        if values is not None and values.dtype.kind in "fc":
            yield name, np.ascontiguousarray(values).view(values.real.dtype)
