"""The words in which an operator's c_api.py declares its C functions."""

from mluops_gtest.model.c_api import (
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
