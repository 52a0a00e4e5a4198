"""How a call becomes smaller: fewer batches, points, channels and cells."""

from mluops_gtest.authoring.reductions import along

from . import OPERATOR

REDUCTIONS = {
    "points": along(OPERATOR, "N"),
    "cells": along(OPERATOR, "M", named_by={"indices": None}),
    "channels": along(OPERATOR, "C"),
    "batches": along(OPERATOR, "B"),
}
