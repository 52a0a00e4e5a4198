"""Voxel pooling as a user writes it, on nothing but numpy; every class makes one mistake, where the data invite it."""

import ctypes
import time

import numpy as np

from mluops_gtest import Status


class Right:
    def __init__(self):
        self.name = type(self).__name__

    def run(self, call):
        if call.handle is None or any(arg is None or arg.array is None for arg in self.tensors(call)):
            return Status.BAD_PARAM
        if call.outputs["pos_memo"].dims != call.inputs["geom_xyz"].dims:
            return Status.BAD_PARAM
        geometry, features = call.inputs["geom_xyz"].array, call.inputs["input_features"].array
        memo, pooled = call.outputs["pos_memo"].array, call.outputs["output_features"].array
        limits = [call.params[f"num_voxel_{axis}"] for axis in "xyz"]
        pooled[...] = 0
        memo[...] = -1
        for batch, point in np.ndindex(geometry.shape[:2]):
            x, y, z = (int(place) for place in geometry[batch, point])
            if self.counts((x, y, z), limits):
                pooled[batch, y, x] += features[batch, point]
                memo[batch, point] = batch, y, x
        self.mistake(call)
        return Status.SUCCESS

    def tensors(self, call):
        return (*call.inputs.values(), *call.outputs.values())

    def counts(self, place, limits):
        return all(0 <= one < limit for one, limit in zip(place, limits, strict=True))

    def mistake(self, call):
        """What else goes wrong."""

    def has_outside(self, call):
        return bool((call.inputs["geom_xyz"].array < 0).any())


class LosesZero(Right):
    """A point at x = 0 does not count."""

    def counts(self, place, limits):
        return place[0] > 0 and super().counts(place, limits)


class Crashes(Right):
    def mistake(self, call):
        if self.has_outside(call):
            ctypes.string_at(0)


class Hangs(Right):
    def mistake(self, call):
        while self.has_outside(call):
            time.sleep(1)


class Overruns(Right):
    def mistake(self, call):
        memo = call.outputs["pos_memo"].array
        if self.has_outside(call):
            ctypes.memset(memo.ctypes.data + memo.nbytes, 7, 4)


class Raises(Right):
    def mistake(self, call):
        if self.has_outside(call):
            raise ZeroDivisionError("in my kernel")


class Refuses(Right):
    """More than one channel is refused."""

    def run(self, call):
        features = call.inputs["input_features"]
        if features is not None and features.dims[-1] > 1:
            return Status.NOT_SUPPORTED
        return super().run(call)


class Accepts(Right):
    """Nothing is refused."""

    def run(self, call):
        return Status.SUCCESS
