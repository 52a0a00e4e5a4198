"""The words that the declared cases of one operator may use."""

from functools import cached_property
from typing import Final

from mluops_gtest.model.criterion import CriterionKind
from mluops_gtest.model.dtypes import DType, Layout
from mluops_gtest.model.operator import Operator

DTYPES: Final = tuple(dtype.value for dtype in DType)
LAYOUTS: Final = tuple(layout.value for layout in Layout)
CRITERIA: Final = {kind.value: kind for kind in CriterionKind if kind.has_formula}


class Vocabulary:
    """Names of the operator's tensors, parameters, checks, …: gathered once, asked for by every case."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.tensors = tuple(spec.id for spec in operator.tensors)
        self.dtypes = frozenset(dtype.value for spec in operator.tensors for dtype in spec.dtypes)
        self.params = {field.name: field for field in operator.param_fields if not field.result}
        self.checks = tuple(check.name for check in operator.checks)
        # Outputs whose criteria a case may set.
        self.judged = tuple(spec.id for spec in operator.outputs if any(dtype.is_float for dtype in spec.dtypes))
        self.descriptors = (*self.tensors, *filter(None, [operator.params_descriptor]))
        arrays = (field.name for field in operator.param_fields if field.label == "repeated")
        self.pointers = (*self.tensors, "workspace", *arrays)

    @cached_property
    def default_dtype(self) -> str:
        """The type of a case that declares none: the first of the first output that has a choice."""
        outputs = self.operator.outputs
        first = next((spec.dtypes[0] for spec in outputs if len(spec.dtypes) > 1), outputs[0].dtypes[0])
        return str(first.value)
