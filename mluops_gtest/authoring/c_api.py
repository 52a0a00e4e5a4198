"""The words in which an operator's c_api.py declares its C functions."""

from mluops_gtest.core.operator_parts import (
    ASKED_SIZE,
    HANDLE,
    PARAMS,
    WORKSPACE,
    WORKSPACE_SIZE,
    CApi,
    CEnum,
    CFunction,
    CParams,
    CSignature,
    CType,
    data,
    descriptor,
    host_array,
    scalar,
    tensor,
)

__all__ = [
    "ASKED_SIZE",
    "HANDLE",
    "PARAMS",
    "WORKSPACE",
    "WORKSPACE_SIZE",
    "CApi",
    "CEnum",
    "CFunction",
    "CParams",
    "CSignature",
    "CType",
    "data",
    "descriptor",
    "host_array",
    "scalar",
    "tensor",
]
