"""What is wrong with an answer, and agreement that proves nothing."""

from mluops_gtest.core.cause.base import CauseBase, Excess, Places


class WrongStatus(CauseBase, frozen=True):
    """Another status than expected; `remarks` are the backend's, `says` is the check in the operator's words."""

    answered: str
    expected: str
    remarks: str = ""
    check: str = ""
    message: str = ""


class Refusals(CauseBase, frozen=True):
    """A function around the operator refused although the call should succeed."""

    texts: tuple[str, ...]


class QueryStatus(WrongStatus, frozen=True):
    """A workspace query answered another status than its own checks ask for."""

    function: str = ""


class WrittenAnyway(CauseBase, frozen=True):
    """An output was written although the call fails or returns early."""

    output: str
    places: Places
    status: str
    check: str


class ScalarMissing(CauseBase, frozen=True):
    """A result that is no tensor was not reported."""

    output: str
    expected: int


class ScalarWrong(CauseBase, frozen=True):
    """A result that is no tensor is wrong; `got` in digits, which may be more than a number in JSON holds."""

    output: str
    got: str
    expected: int


class Unwritten(CauseBase, frozen=True):
    """Elements still hold what was there before the call."""

    output: str
    places: Places
    index: tuple[int, ...]


class NonFinite(CauseBase, frozen=True):
    """Elements differ in being NaN or infinite; `differing` is what differs at all, `criteria` what it was held to."""

    output: str
    elements: int
    first: int
    criteria: tuple[str, ...]
    differing: Places


class Exceeded(CauseBase, frozen=True):
    """Criteria that an output does not keep, and how much of it differs; see judging/criteria.py for `beyond`."""

    output: str
    criteria: tuple[Excess, ...]
    differing: Places
    # They were measured on the finite elements; a NonFinite stands before it.
    finite_only: bool
    equality: bool
    beyond: int | None
    bits_unequal: int


class BitsUnequal(CauseBase, frozen=True):
    """Equal, but not bit for bit, where that was asked."""

    output: str
    elements: int


class BeyondBound(CauseBase, frozen=True):
    """Elements that no order of right operations explains, where each is asked to keep what arithmetic allows."""

    output: str
    places: Places
    precision: str


class NotReproducible(CauseBase, frozen=True):
    """A repeated call gave other bits."""

    run: int
    outputs: tuple[str, ...]


class StillWritten(CauseBase, frozen=True):
    """An output changed after the call had returned."""

    output: str


# Wrong answers.
WrongCall = WrongStatus | Refusals | QueryStatus | WrittenAnyway
WrongValue = (
    ScalarMissing
    | ScalarWrong
    | Unwritten
    | NonFinite
    | Exceeded
    | BitsUnequal
    | BeyondBound
    | NotReproducible
    | StillWritten
)


class NoCriterion(CauseBase, frozen=True):
    """Nobody says how near is near enough."""

    output: str
    dtype: str


class NotJudged(CauseBase, frozen=True):
    """No criterion could be judged on the output."""

    output: str


class ConstantBaseline(CauseBase, frozen=True):
    """Whoever writes a constant agrees with it."""

    output: str


class ComparedWithItself(CauseBase, frozen=True):
    """The reference was held to a baseline that it had just computed."""


class NothingCompared(CauseBase, frozen=True):
    """There was nothing to compare."""


# Agreement that proves nothing.
Doubt = NoCriterion | NotJudged | ConstantBaseline | ComparedWithItself | NothingCompared


class Told(CauseBase, frozen=True):
    """Words as a backend gave them, or as a results file of an earlier version has them."""

    text: str
