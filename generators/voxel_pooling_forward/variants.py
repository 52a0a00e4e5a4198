"""Right implementations that the document allows; the cases of each tag alone tell them apart."""

from functools import partial
from typing import Final

from mluops_gtest.authoring import Array, Mutant
from mluops_gtest.authoring.roundings import flushed

from .point_by_point import Steps, add, apply


def _flush_sums(output: Array, cells: Array, features: Array) -> None:
    add(output, cells, features)
    output[...] = flushed(output)


VARIANTS: Final = {
    "subnormal": (
        Mutant(
            "subnormal_features_flushed",
            "subnormal features count as 0",
            partial(apply, Steps(features=lambda features, _: flushed(features))),
        ),
        Mutant("subnormal_sums_flushed", "subnormal sums become 0", partial(apply, Steps(add=_flush_sums))),
    ),
}
