"""What is found on one run of a case, and the result that follows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mluops_gtest.engine.failures import traceback_of
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.model import cause
from mluops_gtest.model.arbitration import Arbitration
from mluops_gtest.model.cause import Cause
from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.result import CaseResult, ElementReading, Outcome, Profile, Reading, Worst

if TYPE_CHECKING:
    from mluops_gtest.engine.arbitration import Arbiter

    # None where the operator does not say what its elements are.
    ArbiterMaker = Callable[[], Arbiter | None]

_NO_ELEMENTS: Final = "not arbitrated: the operator has no exact.py, which says what one element is"
# A wrong scalar may be any integer; what it is off by is told as a float.
_MAX_DIFFERENCE = 2**64


@dataclass(slots=True)
class Judgement:
    """What is found on one run of a case; the first of the failures is the main one."""

    readings: list[Reading] = field(default_factory=list)
    # Of the first output that fails, else of the first that differs at all.
    worst: Worst | None = None
    profile: Profile | None = None
    failures: list[Cause] = field(default_factory=list)
    suspicions: list[Cause] = field(default_factory=list)
    # Output → its baseline is constant; what counts rows and what the case declares so are not asked.
    constant: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    elements: list[ElementReading] = field(default_factory=list)
    explained: list[Explanation] = field(default_factory=list)
    arbitrated: list[Arbitration] = field(default_factory=list)
    compared: bool = False

    @property
    def outcome(self) -> Outcome:
        """Failed for a cause, suspect when the comparison proves nothing, else passed."""
        if self.failures:
            return Outcome.FAILED
        if self.suspicions or not self.compared:
            return Outcome.SUSPECT
        return Outcome.PASSED

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The failures, else the suspicions."""
        if self.failures or self.suspicions:
            return tuple(self.failures or self.suspicions)
        return () if self.compared else (cause.NothingCompared(),)

    def explain(self, ask: Callable[[], Explanation | None]) -> None:
        """Keep what is found out about an output that fails; the verdict stands without it."""
        try:
            found = ask()
        except Exception as error:
            self.notes.append(f"a bug of mluops-test: the failure is not explained: {traceback_of(error)}")
            return
        if found is not None:
            self.explained.append(found)

    def arbitrate(self, arbiter: "ArbiterMaker", ask: "Callable[[Arbiter], Arbitration | None]") -> None:
        """Keep who is right about an output; the verdict stands where that cannot be found out."""
        try:
            one = arbiter()
            found = None if one is None else ask(one)
        except Exception as error:
            self.notes.append(f"not arbitrated: {traceback_of(error)}")
            return
        if found is not None:
            self.arbitrated.append(found)
        elif one is None and _NO_ELEMENTS not in self.notes:
            self.notes.append(_NO_ELEMENTS)

    def doubt_constant(self) -> None:
        """Suspect where no output that was compared varies; beside one that does, a constant one is a remark."""
        names = [name for name, is_constant in self.constant.items() if is_constant]
        if len(names) == len(self.constant):
            self.suspicions.extend(cause.ConstantBaseline(name) for name in names)
        else:
            self.notes.extend(f"{reason_of((cause.ConstantBaseline(name),))}; other outputs vary" for name in names)

    def compare_scalars(
        self,
        expected: Mapping[str, int],
        scalars: Mapping[str, int],
        arbiter: "ArbiterMaker | None" = None,
    ) -> None:
        """Results that are not tensors must be reported and equal."""
        for name, value in expected.items():
            self.compared = True
            got = scalars.get(name)
            error = float("nan") if got is None else float(min(abs(got - value), _MAX_DIFFERENCE))
            self.readings.append(Reading(name, "exact", error, 0.0, error == 0.0))
            if got is None:
                self.failures.append(cause.ScalarMissing(name, value))
            elif error:
                self.failures.append(cause.ScalarWrong(name, str(got), value))
                self.explain(partial(_scalar_explained, name, got, value))
                if arbiter is not None:
                    self.arbitrate(arbiter, methodcaller("scalar", name, got, value))


def _scalar_explained(name: str, got: int, value: int) -> Explanation:
    # Late: what explains failures is loaded when there is one.
    from mluops_gtest.engine.explaining import scalar_explained

    return scalar_explained(name, got, value)


def judged(result: CaseResult, judgement: Judgement) -> CaseResult:
    """The result with what was found, and with its fingerprint."""
    return fingerprinted(replace(result, **found_by(judgement, result.notes)))


def found_by(judgement: Judgement, notes: tuple[str, ...]) -> dict[str, Any]:
    """What was found, as fields of a result; `notes` are those that it has already."""
    return {
        "outcome": judgement.outcome,
        "readings": tuple(judgement.readings),
        "worst": judgement.worst,
        "profile": judgement.profile,
        "elements": tuple(judgement.elements),
        "explained": tuple(judgement.explained),
        "causes": judgement.causes,
        "notes": (*notes, *judgement.notes),
        "compared": judgement.compared,
    }
