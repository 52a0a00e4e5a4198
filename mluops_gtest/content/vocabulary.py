"""The words that the declared cases of one operator may use."""

import functools
import inspect
from typing import Any, Final, get_type_hints

from mluops_gtest.model.criterion import CriterionKind
from mluops_gtest.model.dtypes import DType, Layout
from mluops_gtest.model.operator import Operator, Recipe

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
        self.pointers = operator.pointers

    @functools.cached_property
    def default_dtype(self) -> str:
        """The type of a case that declares none: the first of the first output that has a choice."""
        outputs = self.operator.outputs
        first = next((spec.dtypes[0] for spec in outputs if len(spec.dtypes) > 1), outputs[0].dtypes[0])
        return str(first.value)


@functools.cache
def signature_of(recipe: Recipe) -> tuple[dict[str, bool], dict[str, Any]]:
    """The keyword arguments of a recipe: required or not, and their types; asked once per recipe, not per case."""
    parameters = inspect.signature(recipe).parameters.values()
    keywords = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    return keywords, get_type_hints(recipe)
