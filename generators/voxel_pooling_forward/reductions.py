"""How a call becomes smaller: fewer batches, points and channels, and a smaller grid."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "points": along(OPERATOR, "num_points"),
    "batches": along(OPERATOR, "batch_size"),
    "channels": along(OPERATOR, "num_channels"),
    "columns": along(OPERATOR, "num_voxel_x", named_by={"geom_xyz": 0}),
    "rows": along(OPERATOR, "num_voxel_y", named_by={"geom_xyz": 1}),
    "layers": along(OPERATOR, "num_voxel_z", named_by={"geom_xyz": 2}),
}
