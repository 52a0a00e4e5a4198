"""Implementations with one plausible mistake each; the committed cases must catch every one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.roundings import flushed, through_half

from . import OPERATOR


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
    voxel_num: Callable[[int, int], int] = lambda voxel_num, _: voxel_num
    entries: Callable[[Array], Array] = lambda entries: entries
    # The first point that is looked at, and the first one that is not.
    points: tuple[int, int | None] = (0, None)
    # Nobody has claimed anything yet, as far as a point knows: (it and its entry, those of the one before) → bool.
    forgets: Callable[[tuple[int, int], tuple[int, int]], bool] = lambda _now, _before: False
    # What a point claims, of what matches: (hits, what was claimed before, one per channel) → hits.
    claims: Callable[[Array, Array], Array] = lambda hits, claimed: hits & ~claimed


def _apply(rules: _Rules, call: OpCall) -> Status:
    grad_feats, feats = call.array("grad_feats"), call.array("feats")
    if rules.clears:
        grad_feats[...] = 0
    rows = call.tensor("voxel_feats").dims[0]
    if rows == 0:
        return Status.SUCCESS
    voxel_feats = call.array("voxel_feats")
    gradients = rules.gradients(call.array("grad_voxel_feats"), call.array("voxel_points_count"))
    voxel_num = rules.voxel_num(int(call.array("voxel_num")[0]), rows)
    claimed = np.zeros(voxel_feats.shape, bool)
    entries = list(enumerate(rules.entries(call.array("point2voxel_map")).tolist()))[slice(*rules.points)]
    before = (-1, -1)
    for point, entry in reversed(entries) if rules.last_first else entries:
        row = rules.row(entry, voxel_num, rows)
        if row is None:
            continue
        if rules.forgets((point, entry), before):
            claimed[...] = False
        before = point, entry
        hits = rules.matches(feats[point], voxel_feats[row])
        if rules.once:
            hits = rules.claims(hits, claimed[row])
        claimed[row] |= hits
        grad_feats[point, hits] = gradients[row, hits]
    if rules.unmatched_to is not None:
        for row, channel in np.argwhere(~claimed[:voxel_num]):
            grad_feats[rules.unmatched_to, channel] = gradients[row, channel]
    return Status.SUCCESS


_right = partial(_apply, _Rules())


def _mutant(name: str, message: str, **rules: Any) -> Mutant:
    return Mutant(name, message, partial(_apply, _Rules(**rules)))


# Which row a map entry names, by (entry, voxel_num, rows).


def _clamped(entry: int, voxel_num: int, _: int) -> int | None:
    return min(entry, voxel_num - 1) if entry >= 0 and voxel_num else None


def _wrapped(entry: int, voxel_num: int, _: int) -> int | None:
    return entry % voxel_num if voxel_num and entry < voxel_num else None


def _first_for_none(entry: int, voxel_num: int, _: int) -> int | None:
    return max(entry, 0) if max(entry, 0) < voxel_num else None


def _until_outside(entries: Array) -> Array:
    outside = np.flatnonzero(entries < 0)
    return entries[: outside[0] if outside.size else None]


def _in_bytes(entries: Array) -> Array:
    return np.where(entries < 0, entries, entries & 0xFF)


# What matches, by the point's features and the voxel's.


def _as_bits(values: Array, others: Array) -> Array:
    equal: Array = values.view("<u4") == others.view("<u4")
    return equal


def _after(narrow: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda values, others: np.equal(narrow(values), narrow(others))


def _of_any_channel(values: Array, others: Array) -> Array:
    return np.full(values.shape, np.equal(values, others).any())


def _of_all_channels(values: Array, others: Array) -> Array:
    return np.full(values.shape, np.equal(values, others).all())


# What a point claims.


def _first_channel_alone(hits: Array, claimed: Array) -> Array:
    free = hits & ~claimed
    first: Array = free & (np.cumsum(free) == 1)
    return first


def _block_begins(size: int) -> Callable[[tuple[int, int], tuple[int, int]], bool]:
    """Blocks of points are handled by threads that do not know of each other's claims."""
    return lambda now, before: now[0] // size != before[0] // size


# What is handed out.


def _averaged(gradients: Array, counts: Array) -> Array:
    return gradients / np.maximum(counts, 1)[:, None].astype(np.float32)


def _where_counted(gradients: Array, counts: Array) -> Array:
    return np.where(counts[:, None] > 0, gradients, np.float32(0))


def _truncated(gradients: Array, _: Array) -> Array:
    # 11 of 23 mantissa bits stay, about what a multiplication by a 0/1 mask in reduced precision leaves.
    return (gradients.view("<u4") & np.uint32(0xFFFFF000)).view("<f4")


def _shares_ties(call: OpCall) -> Status:
    """All points with the maximum get their share of the gradient."""
    status = _apply(_Rules(once=False), call)
    if call.tensor("voxel_feats").dims[0] == 0:
        return status
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    entries, ties = call.array("point2voxel_map"), np.zeros(voxel_feats.shape, np.float32)
    inside = np.flatnonzero((entries >= 0) & (entries < int(call.array("voxel_num")[0])))
    np.add.at(ties, entries[inside], (feats[inside] == voxel_feats[entries[inside]]).astype(np.float32))
    call.array("grad_feats")[inside] /= np.maximum(ties, 1)[entries[inside]]
    return status


def _adds_to_what_was_there(call: OpCall) -> Status:
    before = call.array("grad_feats").copy()
    status = _right(call)
    call.array("grad_feats")[...] += before
    return status


MUTANTS = (
    *mistakes.suspected(
        OPERATOR,
        {
            "last_index_wins": "the last point with the maximum gets the gradient",
            "every_tie_wins": "every point with the maximum gets the gradient",
            "drops_voxel_0": "voxel 0 counts as no voxel",
            "uses_rows_behind_voxel_num": "rows at and behind voxel_num count as voxels",
            "channel_0_decides": "what channel 0 says holds for all",
            "gradients_of_next": "the gradient of the next voxel is taken",
            "gradients_reversed": "channels of the gradient are counted from the last one",
        },
    ),
    # Which points and voxels there are.
    _mutant("minus_one_wraps", "a map entry of -1 names the last voxel", row=_wrapped),
    _mutant("minus_one_is_0", "a map entry of -1 names voxel 0", row=_first_for_none),
    _mutant("behind_voxel_num_clamped", "a map entry behind the last voxel names the last voxel", row=_clamped),
    _mutant("last_voxel_lost", "the last voxel counts as none", voxel_num=lambda number, _: number - 1),
    _mutant(
        "one_voxel_more",
        "a map entry equal to voxel_num names a voxel",
        voxel_num=lambda number, rows: min(number + 1, rows),
    ),
    _mutant("no_voxels_are_all", "voxel_num 0 means all M rows", voxel_num=lambda number, rows: number or rows),
    _mutant("byte_voxel_num", "voxel_num is kept in 8 bits", voxel_num=lambda number, _: number & 0xFF),
    _mutant("byte_map", "map entries are kept in 8 bits", entries=_in_bytes),
    _mutant("until_outside", "points behind the first one outside are not looked at", entries=_until_outside),
    _mutant("map_of_next", "a point is looked up by the map entry of the next one", entries=lambda e: np.roll(e, -1)),
    _mutant("first_point_lost", "the first point is not looked at", points=(1, None)),
    _mutant("last_point_lost", "the last point is not looked at", points=(0, -1)),
    # Who matches.
    _mutant("compares_bits", "-0 does not match +0", matches=_as_bits),
    _mutant("compares_nearly", "values a few ulp apart match", matches=partial(np.isclose, rtol=1e-6, atol=0)),
    _mutant("compares_halves", "values that are equal in half match", matches=_after(through_half)),
    _mutant("compares_magnitudes", "signs do not matter", matches=_after(np.abs)),
    _mutant("flushes_subnormals", "subnormal features count as 0", matches=_after(flushed)),
    _mutant("not_below", "a feature above the voxel's value matches it, too", matches=np.greater_equal),
    _mutant("not_above", "a feature below the voxel's value matches it, too", matches=np.less_equal),
    _mutant("any_channel_decides", "one channel that matches is enough for all", matches=_of_any_channel),
    _mutant("all_channels_decide", "a point must match in every channel", matches=_of_all_channels),
    # Who wins.
    _mutant(
        "once_per_voxel",
        "a voxel hands out the gradients of one point alone",
        claims=lambda hits, claimed: hits & ~claimed.any(),
    ),
    _mutant("one_channel_per_point", "a point gets the gradient of one channel", claims=_first_channel_alone),
    _mutant(
        "ties_of_neighbours",
        "ties are seen among neighbouring points alone",
        forgets=lambda now, before: now[1] != before[1],
    ),
    *(
        _mutant(f"ties_of_{n}_points", f"every block of {n} points has a winner of its own", forgets=_block_begins(n))
        for n in (16, 64)
    ),
    Mutant("ties_share", "points with the maximum share the gradient", _shares_ties),
    _mutant("unmatched_to_first_point", "an unmatched gradient goes to point 0", unmatched_to=0),
    _mutant("unmatched_to_last_point", "an unmatched gradient goes to the last point", unmatched_to=-1),
    # What is written.
    _mutant("divides_by_count", "the gradient is averaged over the voxel's points", gradients=_averaged),
    _mutant("skips_count_0", "voxels whose point count is 0 are skipped", gradients=_where_counted),
    _mutant("flushes_gradients", "subnormal gradients become 0", gradients=lambda given, _: flushed(given)),
    _mutant("half_gradients", "gradients pass through half", gradients=lambda given, _: through_half(given)),
    _mutant("rounds_the_gradient", "gradients lose their low mantissa bits on the way", gradients=_truncated),
    _mutant("leaves_the_rest", "elements without a gradient are not set to 0", clears=False),
    Mutant("not_cleared", "gradients are added to what the output held", _adds_to_what_was_there),
    *mistakes.tails_left(_right, "grad_feats", 0, "points", tiles=(16, 32, 64, 128)),
    *mistakes.tails_left(_right, "grad_feats", 1, "channels", tiles=(16, 32, 64)),
    mistakes.part_left(_right, "grad_feats", 0, "points"),
    mistakes.input_cleared(_right, "grad_voxel_feats"),
    mistakes.input_cleared(_right, "point2voxel_map"),
    mistakes.cached_by_shape(_right),
    mistakes.sum_goes_on(_right, "grad_feats"),
)
