"""Everything that a generators/<operator>.py file imports, and the only package it may import."""

from mluops_gtest.authoring.calls import argument, call_of, dtype_of
from mluops_gtest.authoring.random import Draw, Stream
from mluops_gtest.base.errors import ContentError
from mluops_gtest.core.call import Handle, OpCall, Params, SizedAxis, Status, TensorArg, UndefinedDataError
from mluops_gtest.core.declaration import (
    SIZE_NULL,
    Baseline,
    Bound,
    Check,
    CheckVerdict,
    Definition,
    EnumSpec,
    Mutant,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    Recipe,
    RecipeOutput,
    TensorSpec,
    Theory,
    axis,
)
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, Layout, TensorDesc, diff1_and_diff2, exact

__all__ = [
    "SIZE_NULL",
    "Array",
    "Baseline",
    "Bound",
    "Check",
    "CheckVerdict",
    "ContentError",
    "Criterion",
    "CriterionKind",
    "DType",
    "Definition",
    "Draw",
    "EnumSpec",
    "Handle",
    "Layout",
    "Mutant",
    "OpCall",
    "Operator",
    "OutputSpec",
    "ParamField",
    "ParamMessage",
    "Params",
    "QueryChecks",
    "Recipe",
    "RecipeOutput",
    "SizedAxis",
    "Status",
    "Stream",
    "TensorArg",
    "TensorDesc",
    "TensorSpec",
    "Theory",
    "UndefinedDataError",
    "argument",
    "axis",
    "call_of",
    "diff1_and_diff2",
    "dtype_of",
    "exact",
]
