"""The C function; `mluops-test ops row_sum --c` prints its prototype."""

from mluops_gtest.authoring.c_api import HANDLE, CFunction, CSignature, scalar, tensor

C_API = (
    CSignature(
        CFunction("mluOpRowSum", (HANDLE, *tensor("values", "segments"), *scalar("num_segments"), *tensor("output"))),
    ),
)
