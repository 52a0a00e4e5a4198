"""What cases are declared for in size."""

from collections.abc import Mapping

from mluops_gtest.authoring import SizedAxis

SIZES: Mapping[str, SizedAxis] = {
    "batches": SizedAxis("grad_output", 0),
    "channels": SizedAxis("grad_output", 1),
    "cells": SizedAxis("grad_features", 2),
    "points": SizedAxis("grad_output", 2),
}
