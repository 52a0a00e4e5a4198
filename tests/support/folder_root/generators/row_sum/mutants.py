"""Implementations with one plausible mistake each; the small cases must catch every one."""

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status


def _add(call: OpCall, segments: Array, values: Array) -> Status:
    sums = np.zeros(call.tensor("output").dims, np.float64)
    np.add.at(sums, segments, values.astype(np.float64))
    call.array("output")[...] = sums
    return Status.SUCCESS


def drops_segment_0(call: OpCall) -> Status:
    """Rows of segment 0 count as padding."""
    segments = call.array("segments")
    return _add(call, segments[segments > 0], call.array("values")[segments > 0])


def last_row_wins(call: OpCall) -> Status:
    """Rows are assigned, not added."""
    output = call.array("output")
    output[...] = 0
    for segment, row in zip(call.array("segments").tolist(), call.array("values"), strict=True):
        output[segment] = row
    return Status.SUCCESS


def only_neighbours(call: OpCall) -> Status:
    """Segments are taken for sorted: a segment that comes again starts anew."""
    segments, output = call.array("segments"), call.array("output")
    output[...] = 0
    before = None
    for segment, row in zip(segments.tolist(), call.array("values"), strict=True):
        output[segment] = row if segment != before else output[segment] + row
        before = segment
    return Status.SUCCESS


def not_cleared(call: OpCall) -> Status:
    """Adds to whatever the output holds."""
    np.add.at(call.array("output"), call.array("segments"), call.array("values"))
    return Status.SUCCESS


def half_accumulator(call: OpCall) -> Status:
    """Sums in half precision."""
    sums = np.zeros(call.tensor("output").dims, np.float16)
    np.add.at(sums, call.array("segments"), call.array("values").astype(np.float16))
    call.array("output")[...] = sums
    return Status.SUCCESS


MUTANTS = tuple(
    Mutant(run.__name__, run.__doc__ or "", run)
    for run in (drops_segment_0, last_row_wins, only_neighbours, not_cleared, half_accumulator)
)
