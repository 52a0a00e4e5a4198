"""Everything that a generators/<operator>.py file imports, and the only package it may import."""

from mluops_gtest.authoring.calls import argument, call_of, dtype_of
from mluops_gtest.authoring.random import Draw, Stream
from mluops_gtest.model.call import Handle, OpCall, Params, TensorArg
from mluops_gtest.model.criterion import Criterion, CriterionKind, both, exact
from mluops_gtest.model.dtypes import Array, DType, Layout
from mluops_gtest.model.operator import (
    Answer,
    Baseline,
    Check,
    EnumSpec,
    Made,
    Mutant,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    TensorSpec,
    Theory,
)
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import TensorDesc

__all__ = [
    "Answer",
    "Array",
    "Baseline",
    "Check",
    "Criterion",
    "CriterionKind",
    "DType",
    "Draw",
    "EnumSpec",
    "Handle",
    "Layout",
    "Made",
    "Mutant",
    "OpCall",
    "Operator",
    "OutputSpec",
    "ParamField",
    "ParamMessage",
    "Params",
    "Status",
    "Stream",
    "TensorArg",
    "TensorDesc",
    "TensorSpec",
    "Theory",
    "argument",
    "both",
    "call_of",
    "dtype_of",
    "exact",
]
