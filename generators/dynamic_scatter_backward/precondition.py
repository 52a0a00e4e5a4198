"""What the document takes for granted about the map of points to voxels."""

from mluops_gtest.authoring import OpCall


def precondition(call: OpCall) -> str | None:
    """voxel_num counts voxels that exist, and the map names such or −1 (§1.2)."""
    voxels = call.tensor("voxel_feats").dims[0]
    count = int(call.array("voxel_num")[0])
    if not 0 <= count <= voxels:
        return f"voxel_num is {count}, there are {voxels} voxels"
    names = call.array("point2voxel_map")
    if names.size and (names.min() < -1 or names.max() >= voxels):
        return f"point2voxel_map leaves −1 … {voxels - 1}"
    return None
