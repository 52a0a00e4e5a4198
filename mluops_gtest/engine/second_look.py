"""Every element of an output held to what arithmetic allows, beside the criteria of the document."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.criteria.elements import value_text
from mluops_gtest.criteria.elementwise import ElementErrors, can_be_bounded, element_errors
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.bound import Bound, Precision
from mluops_gtest.model.bounds import bounds_of
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import BeyondBound, Places
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import ElementReading
from mluops_gtest.model.tensor import Tensor


class SecondLook:
    """The bound of one case, computed from its inputs when an output first differs from its baseline."""

    def __init__(self, case: Case, operator: Operator, precision: Precision, *, decides: bool) -> None:
        """`decides`: an element beyond the bound fails the case."""
        self._case, self._operator = case, operator
        self.precision, self.decides = precision, decides
        self._bounds: Mapping[str, Bound] | None = None

    def at(self, tensor: Tensor, evaluated: Array, baseline: Array) -> tuple[ElementReading, BeyondBound] | None:
        """What the rows that the operator owns come to; None where nothing is declared for that output."""
        if self._operator.bound is None or not can_be_bounded(tensor.desc.dtype):
            return None
        bound = self._bound(tensor.id)
        if bound is None:
            return None
        dtype = tensor.desc.dtype
        owned = bound.part(slice(0, evaluated.shape[0]), tensor.desc.dims)
        found = element_errors(evaluated, baseline, dtype, owned, self.precision)
        index = tuple(int(i) for i in np.unravel_index(found.worst or 0, evaluated.shape))
        reading = ElementReading(
            tensor.id,
            self.precision.value,
            found.beyond,
            found.compared,
            found.ratio,
            index,
            value_text(evaluated[index], dtype),
            value_text(baseline[index], dtype),
            found.allowed,
        )
        return reading, BeyondBound(tensor.id, _places(found), self.precision.value)

    def _bound(self, output: str) -> Bound | None:
        if self._bounds is None:
            self._bounds = bounds_of(self._operator, bind_values(self._case, self._operator))
        return self._bounds.get(output)


def _places(found: ElementErrors) -> Places:
    return Places(found.beyond, found.compared, found.first, found.last)
