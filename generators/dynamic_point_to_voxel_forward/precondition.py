"""What the document takes for granted: there is a row for every class of points."""

from mluops_gtest.authoring import OpCall

from .voxels import voxels_of


def precondition(call: OpCall) -> str | None:
    """§3.1.1: kernel 2 writes a row for every voxel, and one for the invalid points that kernel 3 then removes."""
    rows = call.tensor("voxel_feats").dims[0]
    voxels = voxels_of(call.array("coors"))
    if voxels.rows_needed <= rows:
        return None
    invalid = "" if voxels.rows_needed == voxels.count else " and the class of invalid points"
    return f"{voxels.count} voxels{invalid} need {voxels.rows_needed} rows, there are {rows}"
