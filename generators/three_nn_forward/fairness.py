"""Every right kernel must find the same neighbours: data on which it does."""

import numpy as np

from mluops_gtest.authoring import Array, Params, RecipeOutput

from .._shared.points import assert_lattice, nearest_stand_apart


def on_lattice(params: Params, unknown: Array, known: Array) -> RecipeOutput:
    """Any evaluation of any distance is exact; such a case declares `criteria: {dist2: {diff3: 0}}`."""
    assert_lattice(unknown, known)
    return RecipeOutput({"unknown": unknown, "known": known}, params, outputs=_dims(unknown))


def with_margin(params: Params, unknown: Array, known: Array, count: int) -> RecipeOutput:
    """The first `count` unknown points of each batch whose nearest four stand further apart than rounding errs."""
    apart = nearest_stand_apart(unknown, known)
    if (apart.sum(axis=1) < count).any():
        raise ValueError(f"fewer than {count} of {apart.shape[1]} drawn points have nearest ones that stand apart")
    kept = np.stack([points[rows][:count] for points, rows in zip(unknown, apart, strict=True)])
    return RecipeOutput({"unknown": kept, "known": known}, params, outputs=_dims(kept))


def _dims(unknown: Array) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys(("dist2", "idx"), tuple(unknown.shape))
