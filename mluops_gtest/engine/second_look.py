"""Every element of an output held to what arithmetic allows, beside the criteria of the document."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.criteria.blocks import value_text
from mluops_gtest.criteria.elementwise import (
    ElementErrors,
    Limits,
    allowances,
    beyond_bound,
    can_be_bounded,
    furthest_beyond,
)
from mluops_gtest.model.bound import Bound
from mluops_gtest.model.bounds import BoundSource, computed_bounds
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import BeyondBound, Places
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.precision import Precision, WorkingPrecision
from mluops_gtest.model.result import ElementReading
from mluops_gtest.model.tensor import Tensor


class SecondLook:
    """The bound of one case, computed from its inputs when an output first differs from its baseline."""

    def __init__(
        self,
        case: Case,
        operator: Operator,
        precision: WorkingPrecision,
        *,
        decides: bool,
        alone: bool = False,
        bounds: BoundSource = computed_bounds,
    ) -> None:
        """`decides`: an element beyond the bound fails the case; `alone`: nothing else about its values does."""
        self._case, self._operator, self._source, self._declared = case, operator, bounds, precision
        self.decides, self.alone = decides, alone
        self._bounds: Mapping[str, Bound] | None = None

    def limits(self, tensor: Tensor, evaluated: Array) -> Limits | None:
        """What the rows that the operator owns are held to; None where nothing is declared for that output."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else Limits(owned[1], self._precision(owned[0]), self._excused(owned[0]))

    def told(
        self, tensor: Tensor, found: ElementErrors, evaluated: Array, baseline: Array
    ) -> tuple[ElementReading, BeyondBound]:
        """What the rows that the operator owns come to, held to their limits."""
        dtype = tensor.desc.dtype
        precision = (self._excused(dtype) if found.as_half else self._precision(dtype)).value
        index = tuple(int(i) for i in np.unravel_index(found.worst or 0, evaluated.shape))
        reading = ElementReading(
            tensor.id,
            precision,
            found.beyond,
            found.compared,
            found.ratio,
            index,
            value_text(evaluated[index], dtype),
            value_text(baseline[index], dtype),
            found.allowed,
            found.as_half,
        )
        return reading, BeyondBound(tensor.id, _places(found), precision)

    def covers(self, tensor: Tensor) -> bool:
        """The operator declares what arithmetic allows this output."""
        return can_be_bounded(tensor.desc.dtype) and self._bound(tensor.id) is not None

    def beyond(self, tensor: Tensor, evaluated: Array, baseline: Array) -> Array | None:
        """The flat indices that neither the bound nor half excuses; None where nothing is declared."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else beyond_bound(evaluated, baseline, *owned, self._excused(owned[0]))

    def furthest_beyond(self, tensor: Tensor, evaluated: Array, baseline: Array, most: int) -> tuple[int, Array]:
        """How many elements neither the bound nor half excuses, and the flat indices of the `most` furthest."""
        owned = self._owned(tensor, evaluated)
        if owned is None:
            return 0, np.zeros(0, np.int64)
        return furthest_beyond(evaluated, baseline, *owned, self._excused(owned[0]), most)

    def beyond_at(
        self,
        tensor: Tensor,
        places: tuple[Array, ...],
        values: Array,
        baseline: Array,
        precision: Precision | None = None,
    ) -> Array | None:
        """Which of the values at these places no arithmetic explains: that of `precision`, else what is excused."""
        dtype = tensor.desc.dtype
        bound = self._bound(tensor.id) if can_be_bounded(dtype) else None
        if bound is None:
            return None
        here = bound.part(places, tensor.desc.dims)
        beyond = np.zeros(values.size, bool)
        beyond[beyond_bound(values, baseline, dtype, here, precision or self._excused(dtype))] = True
        return beyond

    def allowed(self, tensor: Tensor, evaluated: Array, baseline: Array) -> Array | None:
        """What each element may be off by, half included; None where nothing is declared."""
        owned = self._owned(tensor, evaluated)
        return None if owned is None else allowances(evaluated, baseline, *owned, self._excused(owned[0]))

    def _precision(self, dtype: DType) -> Precision:
        return self._declared.of(self._operator.name, dtype)

    def _excused(self, dtype: DType) -> Precision:
        return self._declared.excused(self._operator.name, dtype)

    def _owned(self, tensor: Tensor, evaluated: Array) -> tuple[DType, Bound] | None:
        """The bound of the rows that the operator owns, and their type."""
        dtype = tensor.desc.dtype
        bound = self._bound(tensor.id) if can_be_bounded(dtype) else None
        return None if bound is None else (dtype, bound.part(slice(0, evaluated.shape[0]), tensor.desc.dims))

    def _bound(self, output: str) -> Bound | None:
        if self._bounds is None:
            self._bounds = self._source(self._case, self._operator)
        return self._bounds.get(output)


def _places(found: ElementErrors) -> Places:
    return Places(found.beyond, found.compared, found.first, found.last)
