"""Implementations with one plausible mistake each; the committed cases must catch every one of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import flushed


@dataclass(frozen=True, slots=True)
class _Rules:
    """The right decisions; a mistake replaces one of them."""

    # The row that a map entry names, or None: (entry, voxel_num, rows) → row.
    row: Callable[[int, int, int], int | None] = lambda entry, voxel_num, _: entry if 0 <= entry < voxel_num else None
    matches: Callable[[Array, Array], Array] = np.equal
    # The gradients to hand out: (grad_voxel_feats, voxel_points_count) → same shape as the first.
    gradients: Callable[[Array, Array], Array] = lambda gradients, _: gradients
    last_first: bool = False
    once: bool = True
    # The point that receives what no point matches; None: nobody.
    unmatched_to: int | None = None
    clears: bool = True


def _apply(rules: _Rules, call: OpCall) -> Status:
    grad_feats, feats = call.array("grad_feats"), call.array("feats")
    if rules.clears:
        grad_feats[...] = 0
    rows = call.tensor("voxel_feats").dims[0]
    if rows == 0:
        return Status.SUCCESS
    voxel_feats = call.array("voxel_feats")
    gradients = rules.gradients(call.array("grad_voxel_feats"), call.array("voxel_points_count"))
    voxel_num = int(call.array("voxel_num")[0])
    claimed = np.zeros(voxel_feats.shape, bool)
    entries = list(enumerate(call.array("point2voxel_map").tolist()))
    for point, entry in reversed(entries) if rules.last_first else entries:
        row = rules.row(entry, voxel_num, rows)
        if row is None:
            continue
        hits = rules.matches(feats[point], voxel_feats[row])
        if rules.once:
            hits = hits & ~claimed[row]
        claimed[row] |= hits
        grad_feats[point, hits] = gradients[row, hits]
    if rules.unmatched_to is not None:
        for row, channel in np.argwhere(~claimed[:voxel_num]):
            grad_feats[rules.unmatched_to, channel] = gradients[row, channel]
    return Status.SUCCESS


def _mutant(name: str, message: str, rules: _Rules) -> Mutant:
    return Mutant(name, message, lambda call: _apply(rules, call))


def _as_bits(values: Array, others: Array) -> Array:
    equal: Array = values.view("<u4") == others.view("<u4")
    return equal


def _nearly(values: Array, others: Array) -> Array:
    return np.isclose(values, others, rtol=1e-6, atol=0)


def _flushed(values: Array, others: Array) -> Array:
    tiny = np.finfo(np.float32).tiny
    return np.equal(np.where(abs(values) < tiny, 0, values), np.where(abs(others) < tiny, 0, others))


def _averaged(gradients: Array, counts: Array) -> Array:
    return gradients / np.maximum(counts, 1)[:, None].astype(np.float32)


def _where_counted(gradients: Array, counts: Array) -> Array:
    return np.where(counts[:, None] > 0, gradients, np.float32(0))


def _truncated(gradients: Array, _: Array) -> Array:
    # 11 of 23 mantissa bits stay, about what a multiplication by a 0/1 mask in reduced precision leaves.
    return (gradients.view("<u4") & np.uint32(0xFFFFF000)).view("<f4")


MUTANTS = (
    _mutant("last_index_wins", "the largest matching point index gets the gradient", _Rules(last_first=True)),
    _mutant("every_tie_wins", "all points with the maximum get the gradient", _Rules(once=False)),
    _mutant(
        "drops_voxel_0",
        "§3.2's `offset > 0`: voxel 0 counts as no voxel",
        _Rules(row=lambda entry, voxel_num, _: entry if 0 < entry < voxel_num else None),
    ),
    _mutant(
        "minus_one_wraps",
        "a map entry of -1 names the last voxel",
        _Rules(row=lambda entry, voxel_num, _: entry % voxel_num if voxel_num and entry < voxel_num else None),
    ),
    _mutant(
        "uses_rows_behind_voxel_num",
        "all M rows count as voxels",
        _Rules(row=lambda entry, _, rows: entry if 0 <= entry < rows else None),
    ),
    _mutant("divides_by_count", "the gradient is averaged over the voxel's points", _Rules(gradients=_averaged)),
    _mutant("skips_count_0", "voxels whose point count is 0 are skipped", _Rules(gradients=_where_counted)),
    _mutant("compares_bits", "-0 does not match +0", _Rules(matches=_as_bits)),
    _mutant("compares_nearly", "values a few ulp apart count as equal", _Rules(matches=_nearly)),
    _mutant("flushes_subnormals", "subnormal features count as 0", _Rules(matches=_flushed)),
    _mutant("not_below", "a feature above the voxel's value matches it, too", _Rules(matches=np.greater_equal)),
    _mutant("not_above", "a feature below the voxel's value matches it, too", _Rules(matches=np.less_equal)),
    _mutant("flushes_gradients", "subnormal gradients become 0", _Rules(gradients=lambda given, _: flushed(given))),
    _mutant("unmatched_to_first_point", "an unmatched gradient goes to point 0", _Rules(unmatched_to=0)),
    _mutant("unmatched_to_last_point", "an unmatched gradient goes to the last point", _Rules(unmatched_to=-1)),
    _mutant("rounds_the_gradient", "gradients lose their low mantissa bits on the way", _Rules(gradients=_truncated)),
    _mutant("leaves_the_rest", "elements without a gradient are not set to 0", _Rules(clears=False)),
)
