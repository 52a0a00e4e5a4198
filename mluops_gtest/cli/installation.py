"""What this installation runs on, and whether it computes as it promises."""

import platform
from typing import TYPE_CHECKING

from mluops_gtest.native.library import native_core

if TYPE_CHECKING:
    from mluops_gtest.model.dtypes import Array, DType

# Parts compared both ways: two cells and a rest.
_COMPARED = 70_000


def described() -> list[tuple[str, str]]:
    """Names and values: Python, numpy, the native core."""
    import numpy

    return [
        ("python", f"{platform.python_version()} ({platform.machine()})"),
        ("numpy", numpy.__version__),
        ("native core", native_core().words),
    ]


def _pair(dtype: "DType") -> "tuple[Array, Array]":
    """Random bits, NaN and infinities among them; every other part is equal on both sides."""
    import numpy as np

    bits = np.random.Philox(key=1).random_raw(2 * _COMPARED).view(f"u{dtype.itemsize}")
    evaluated, baseline = bits[:_COMPARED].copy(), bits[_COMPARED : 2 * _COMPARED]
    evaluated[::2] = baseline[::2]
    return evaluated.view(dtype.storage), baseline.view(dtype.storage)


def disagreements() -> list[str]:
    """The data types in which the native core finds other figures than numpy; none is what is promised."""
    from mluops_gtest.criteria import compare
    from mluops_gtest.model.criterion import CriterionKind
    from mluops_gtest.model.dtypes import DType
    from mluops_gtest.native.library import numpy_alone

    kinds = (CriterionKind.DIFF1, CriterionKind.DIFF2, CriterionKind.DIFF3, CriterionKind.DIFF3_2)

    def figures(pair: "tuple[Array, Array]", dtype: DType) -> str:
        # As text: a NaN is equal to itself there.
        return repr(compare(*pair, dtype, kinds))

    found = []
    for dtype in (DType.HALF, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.INT8, DType.INT32, DType.INT64):
        pair = _pair(dtype)
        with numpy_alone():
            expected = figures(pair, dtype)
        if figures(pair, dtype) != expected:
            found.append(dtype.value)
    return found
