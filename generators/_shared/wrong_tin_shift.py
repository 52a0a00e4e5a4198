"""Mistakes of kernels that move frames in time; for mutants of both directions."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.suspects import with_inputs

from .tin_shift import TinShift

# In the order of the suspects, behind the one of the definition. Shifts that pass through float32 are no mistake that
# shows: what it rounds is larger than any T.
_SUSPECTED: Final = (
    "reversed",
    "cyclic",
    "edge_repeated",
    "not_shifted",
    "negative_ignored",
    "all_frames_kept",
    "modulo_frames",
    "first_batch_for_all",
    "interleaved_groups",
    "groups_of_g_channels",
    "shifts_transposed",
    "frames_and_channels_exchanged",
    "along_channels",
    "along_batches",
)
_SMALLEST: Final = -(1 << 31)


def shift_mutants(operator: Operator, shift: TinShift) -> tuple[Mutant, ...]:
    """Each is right but for its name."""
    output, right = shift.output, shift.kernel

    def with_shifts(name: str, message: str, change: Callable[[Array], Array]) -> Mutant:
        def run(call: OpCall) -> Status:
            return right(with_inputs(call, shifts=change(call.array("shifts").astype(np.int64)).astype("<i4")))

        return Mutant(name, message, run)

    def masked(call: OpCall) -> None:
        """What comes from no frame is 0 times the nearest one."""
        edge = operator.suspects["vacated frames repeat the edge"](call)[output]
        with np.errstate(all="ignore"):
            call.array(output)[...] = np.where(shift.copies(call).is_copied, edge, edge * edge.dtype.type(0))

    def odd_pixel(call: OpCall) -> Any:
        """The last pixel of a frame that has an odd number of halves."""
        values = call.array(output)
        return (..., slice(-1, None)) if values.itemsize == 2 and values.shape[3] % 2 else slice(0)

    return (
        *mistakes.suspected(operator, dict(zip(_SUSPECTED, list(operator.suspects)[1:], strict=True))),
        *(
            with_shifts(f"shifts_in_{name}", f"keeps shifts in {words}", narrow)
            for name, words, narrow in NARROW
            if name.startswith("int")
        ),
        with_shifts(
            "smallest_is_none",
            "takes −2^31, whose magnitude no int32 holds, for no shift",
            lambda shifts: np.where(shifts == _SMALLEST, 0, shifts),
        ),
        with_shifts("shifts_up_to_7", "moves by 7 frames at most", lambda shifts: shifts.clip(-7, 7)),
        *wrong_copies(output, shift.copies, row="clip"),
        mistakes.spoilt("masked", "multiplies what leaves the frames with 0", right, masked),
        mistakes.left("odd_half_left", "copies halves in pairs", right, output, odd_pixel),
        mistakes.left(
            "last_channel_left", "does not write the last channel", right, output, lambda _: np.s_[:, :, -1:]
        ),
        mistakes.left("last_frame_left", "does not write the last frame", right, output, lambda _: np.s_[:, -1:]),
        *mistakes.tails_left(right, output, 1, "frames", (4, 64)),
        *mistakes.tails_left(right, output, 2, "channels", (4, 64)),
        *mistakes.tails_left(right, output, 3, "pixels", (16, 64)),
        mistakes.part_left(right, output, 2, "channels"),
        mistakes.part_left(right, output, 3, "pixels"),
        mistakes.first_length_kept(right, output, 1, "frames"),
        mistakes.first_length_kept(right, output, 2, "channels"),
        mistakes.input_cleared(right, shift.fed),
    )
