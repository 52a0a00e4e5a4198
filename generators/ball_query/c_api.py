"""The C function: §2.2 of the document; there is no workspace."""

from mluops_gtest.authoring.c_api import HANDLE, CFunction, CSignature, CType, scalar, tensor

C_API = (
    CSignature(
        CFunction(
            "mluOpBallQuery",
            (
                HANDLE,
                *tensor("new_xyz", "xyz"),
                *scalar("min_radius", "max_radius", type=CType.FLOAT),
                *scalar("nsample"),
                *tensor("idx"),
            ),
        )
    ),
)
