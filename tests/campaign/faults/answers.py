"""Answers that no operator gives: wrong types, absurd numbers, wrong values."""

import numpy as np

from mluops_gtest import Status
from tests.campaign.faults import fault, faults

WRONG = ("failed", "error", "wrong_status", "crashed")


@fault("answers", "error", "wrong_status", "passed")
def answers_a_number(call):
    """0 is what C calls SUCCESS."""
    return 0


@fault("answers", "error", "wrong_status")
def answers_a_word(call):
    return "SUCCESS"


@fault("answers", "error", "wrong_status", "crashed")
def answers_an_object(call):
    return type("Status", (), {"name": "SUCCESS", "value": 0})()


@fault("answers", "error", "wrong_status", "crashed")
def answers_an_object_that_raises(call):
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __eq__(self, other):
            raise RuntimeError("equal?")

        __hash__ = None

    return Odd()


@fault("answers", "wrong_status")
def answers_another_status(call):
    return Status.NOT_SUPPORTED


faults(
    "answers",
    *WRONG,
    answers_nan=lambda call: call.array("y").fill(np.nan),
    answers_infinities=lambda call: call.array("y").fill(np.inf),
    answers_zeros=lambda call: call.array("y").fill(0),
    answers_signalling_nans=lambda call: call.array("y").view("<u4").fill(0x7F800001),
)


@fault("answers", *WRONG)
def answers_nothing(call):
    """The poison of the harness comes back."""
    call.array("y").view("<u4")[...] = 0x7FA5A5A5


faults(
    "answers",
    *WRONG,
    "passed",
    adds_scalars=lambda call: call.scalars.update(not_asked_for=2**200),
    adds_many_scalars=lambda call: call.scalars.update({f"s{i}": i for i in range(200_000)}),
    adds_refusals=lambda call: call.refusals.extend([object(), "no" * 10_000]),
)


@fault("answers", *WRONG, "passed")
def adds_scalars_that_are_no_numbers(call):
    call.scalars["x"] = float("nan")
    call.scalars[b"y"] = object()


@fault("answers", *WRONG, "passed", "memory")
def changes_its_descriptors(call):
    for arg in (*call.inputs.values(), *call.outputs.values()):
        object.__setattr__(arg.desc, "dims", (1 << 40,))
        object.__setattr__(arg, "array", None)


@fault("answers", *WRONG, "passed", "memory")
def makes_its_arrays_read_only(call):
    call.array("y").flags.writeable = False
    call.array("y").resize(0, refcheck=False)


# The methods beside run(): what `workspace_size` and `device_seconds` answer for a case of this name.
SIZES = {
    "asks_for_a_negative_workspace": -1,
    "asks_for_a_nan_workspace": float("nan"),
    "asks_for_an_infinite_workspace": float("inf"),
    "asks_for_a_workspace_in_words": "much",
    "asks_for_half_a_byte": 0.5,
    "asks_for_an_absurd_workspace": 1 << 62,
    "asks_for_a_workspace_beyond_64_bits": 1 << 80,
    "asks_for_more_than_the_machine_has": 1 << 45,
    "asks_for_nothing_at_all": None,
}
SECONDS = {
    "tells_nan_seconds": float("nan"),
    "tells_infinite_seconds": float("inf"),
    "tells_negative_seconds": -1.0,
    "tells_absurd_seconds": 1e300,
    "tells_seconds_in_words": "long",
    "tells_an_object_for_seconds": object(),
}
for _name in SIZES:
    fault("numbers", "error", "crashed", name=_name)(lambda call: None)
for _name in SECONDS:
    fault("numbers", "error", "crashed", name=_name)(lambda call: None)


@fault("numbers", "crashed")
def crashes_in_workspace_size(call):
    """See `workspace_size` of the backend."""


@fault("numbers", "timed_out", "crashed")
def hangs_in_workspace_size(call):
    """See `workspace_size` of the backend."""
