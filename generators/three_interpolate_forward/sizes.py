"""What cases are declared for in size."""

from collections.abc import Mapping

from mluops_gtest.authoring import SizedAxis

SIZES: Mapping[str, SizedAxis] = {
    "batches": SizedAxis("features", 0),
    "channels": SizedAxis("features", 1),
    "cells": SizedAxis("features", 2),
    "points": SizedAxis("output", 2),
}
