"""How a call becomes smaller: as every sparse convolution does."""

from mluops_gtest.authoring.fewer_pairs import fewer_pairs

REDUCTIONS = fewer_pairs("input_grad", "output_grad", "filters")
