"""Everything that a generators/<operator>.py file imports, and the only package it may import."""

from mluops_gtest.authoring.calls import argument, call_of, dtype_of
from mluops_gtest.authoring.random import Draw, Stream
from mluops_gtest.model.bound import Bound
from mluops_gtest.model.call import Handle, OpCall, Params, TensorArg, UndefinedDataError
from mluops_gtest.model.criterion import Criterion, CriterionKind, diff1_and_diff2, exact
from mluops_gtest.model.dtypes import Array, DType, Layout
from mluops_gtest.model.operator import (
    SIZE_NULL,
    Baseline,
    Check,
    CheckVerdict,
    EnumSpec,
    Mutant,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    RecipeOutput,
    TensorSpec,
    Theory,
)
from mluops_gtest.model.sized_axis import SizedAxis
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import TensorDesc

__all__ = [
    "SIZE_NULL",
    "Array",
    "Baseline",
    "Bound",
    "Check",
    "CheckVerdict",
    "Criterion",
    "CriterionKind",
    "DType",
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
    "call_of",
    "diff1_and_diff2",
    "dtype_of",
    "exact",
]
