"""How a call becomes smaller: as every sparse convolution does."""

from .._shared.convolution_space import fewer_pairs

REDUCTIONS = fewer_pairs("input_grad", "output_grad", "filters")
