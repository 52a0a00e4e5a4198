"""The C function: §2.2 of the document; there is no workspace."""

from mluops_gtest.authoring.c_api import HANDLE, CFunction, CSignature, tensor

from .checks import TENSORS

C_API = (CSignature(CFunction("mluOpThreeInterpolateBackward", (HANDLE, *tensor(*TENSORS)))),)
