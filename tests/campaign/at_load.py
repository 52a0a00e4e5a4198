"""Backends of the chapter on one's own process: loading them changes how the thread computes with floats."""

import os

import numpy as np

from mluops_gtest import Status
from tests.campaign.floats import change_floats

change_floats(os.environ["CAMPAIGN_FLOATS"])


class Right:
    """Doubles a vector."""

    name = "right"

    def run(self, call):
        call.array("y")[...] = call.array("x") * np.float32(2)
        return Status.SUCCESS


class Zeros:
    """Whoever takes subnormal baselines for 0 finds its answers right."""

    name = "zeros"

    def run(self, call):
        call.array("y")[...] = 0
        return Status.SUCCESS
