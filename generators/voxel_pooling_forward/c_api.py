"""The C function: §2.2 of the document; there is no workspace."""

from mluops_gtest.authoring.c_api import HANDLE, CFunction, CSignature, scalar, tensor

from .checks import SCALARS

C_API = (
    CSignature(
        CFunction(
            "mluOpVoxelPoolingForward",
            (HANDLE, *scalar(*SCALARS), *tensor("geom_xyz", "input_features", "output_features", "pos_memo")),
        )
    ),
)
