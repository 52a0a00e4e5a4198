"""A backend that is installed as a package: an entry point gives it a name of its own."""

import numpy as np

from mluops_gtest import Declined, OpCall, Status


class MyAccelerator:
    """Offers the part of voxel_pooling_forward that computes; a real one would call its device here."""

    name = "my-accelerator"

    def supports(self, operator: str) -> bool:
        """Asked once per operator; its cases are skipped where the answer is no."""
        return operator == "voxel_pooling_forward"

    def run(self, call: OpCall) -> Status:
        """Sum the features of all points in the same cell."""
        geometry, features = call.inputs["geom_xyz"], call.inputs["input_features"]
        output, memo = call.outputs["output_features"], call.outputs["pos_memo"]
        arguments = (geometry, features, output, memo)
        if any(argument is None or argument.array is None for argument in arguments):
            raise Declined("the parameter checks are not written yet")
        points = geometry.array.astype(np.int64)
        space = [call.params[f"num_voxel_{axis}"] for axis in "xyz"]
        inside = ((points >= 0) & (points < space)).all(axis=2)
        batch, point = np.nonzero(inside)
        x, y = points[batch, point, 0], points[batch, point, 1]
        output.array[...] = 0
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(output.array, (batch, y, x), features.array[batch, point])
        memo.array[batch, point] = np.stack([batch, y, x], axis=1)
        return Status.SUCCESS
