"""Backends for scale_by of the toy root: right, and wrong by some law, by none, or in what they refuse."""

import numpy as np

from mluops_gtest import Declined, Status


class Scaled:
    name = "scaled"

    def __init__(self, spoil):
        self.spoil = spoil

    def run(self, call):
        x, y = call.inputs["x"], call.outputs["y"]
        if call.handle is None or x is None or y is None or len(x.dims) != 1 or x.dims != y.dims:
            return Status.BAD_PARAM
        if x.desc.is_empty:
            return Status.SUCCESS
        call.array("y")[...] = call.array("x") * np.float32(call.param("factor"))
        return self.spoil(call.array("y")) or Status.SUCCESS


def _tail(y):
    y[6:] *= np.float32(0.5)


def _end(y):
    if y.size >= 7:
        y[-1] = 0


def _noise(y):
    y *= np.random.default_rng(y.size).uniform(0.2, 3, y.size).astype(np.float32)


def _mixed(y):
    if y.size < 12:
        _tail(y)
    elif y.size < 16:
        _noise(y)
    else:
        raise RuntimeError("no")


def _round(y):
    y[::2] = np.nextafter(np.nextafter(y[::2], np.float32(0)), np.float32(0))


def _refuses(y):
    if y.size > 3:
        raise Declined("too long")


right = Scaled(lambda y: None)
tail, end, noise, mixed = map(Scaled, (_tail, _end, _noise, _mixed))
rounding, refuses = Scaled(_round), Scaled(_refuses)
