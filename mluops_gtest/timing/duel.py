"""Times two backends side by side and says for each case which is faster."""

import math
from collections.abc import Sequence

from mluops_gtest.model.result import CaseResult, Outcome, Perf
from mluops_gtest.timing.statistics import MIN_SAMPLES, TimeVerdict, run_time, student
from mluops_gtest.timing.stats import MIN_EFFECT, short_words, too_short
from mluops_gtest.value import Value

# The share of benches that may wrongly call a case faster or slower although nothing differs.
_ALARMS = 0.05
# No bench takes more samples than this.
_MAX_NEEDED = 100_000


class Duel(Value):
    """The second backend's time over the first's, with the interval that holds for all cases together."""

    answer: TimeVerdict
    ratio: float
    low: float
    high: float
    remark: str = ""


class Benched(Value):
    """One case on both backends."""

    results: tuple[CaseResult, ...]

    @property
    def problem(self) -> str:
        """Why the times are not compared; empty where they are."""
        for number, result in enumerate(self.results, 1):
            if result.outcome is not Outcome.PASSED:
                return f"{result.outcome.value} on {number}: {result.reason}"
        return "" if all(result.perf for result in self.results) else "not timed: the call computes nothing"

    @property
    def overhead_ns(self) -> int | None:
        """What an empty call takes, the longer of both; None where device times are compared, or it is not known."""
        perfs = [result.perf for result in self.results if result.perf is not None]
        known = [perf.overhead_ns for perf in perfs if perf.overhead_ns is not None]
        return None if all(perf.device_samples_ns for perf in perfs) else max(known, default=None)

    @property
    def samples(self) -> tuple[Sequence[int], Sequence[int]]:
        """The times that are compared: the devices' own where both tell them."""
        first, second = (result.perf or Perf(()) for result in self.results)
        if first.device_samples_ns and second.device_samples_ns:
            return first.device_samples_ns, second.device_samples_ns
        return first.samples_ns, second.samples_ns


def duel(first_ns: Sequence[int], second_ns: Sequence[int], family: int = 1, overhead_ns: float | None = None) -> Duel:
    """Whether the second is faster or slower, of `family` cases that are asked together.

    Both ran in turn on the same machine, so there is no shift between runs to allow for; only the bootstrap's error of
    both medians remains. A difference below the minimum effect does not count, however certain it is.
    """
    first, second = run_time(first_ns, seed=1), run_time(second_ns, seed=2)
    change = math.log(second.median_ns / first.median_ns)
    freedom = max(1, first.samples + second.samples - 2)
    width = student(_ALARMS / 2 / family, freedom) * math.hypot(first.error, second.error)
    bounds = math.exp(change), math.exp(change - width), math.exp(change + width)
    effect = math.log1p(MIN_EFFECT)
    count = min(first.samples, second.samples)
    if too_short(first.median_ns, second.median_ns, overhead_ns, MIN_EFFECT):
        why = short_words(max(first.median_ns, second.median_ns), overhead_ns, MIN_EFFECT)
        return Duel(TimeVerdict.TOO_SHORT, *bounds, f"{why}: use a larger case, or device_seconds()")
    if count < MIN_SAMPLES:
        return Duel(TimeVerdict.INCONCLUSIVE, *bounds, f"at least {MIN_SAMPLES} samples are needed")
    if abs(change) >= effect and abs(change) > width:
        return Duel(TimeVerdict.SLOWER if change > 0 else TimeVerdict.FASTER, *bounds)
    if abs(change) + width <= effect:
        return Duel(TimeVerdict.INCONCLUSIVE, *bounds, f"they differ by less than {MIN_EFFECT:.0%}")
    room = abs(change) if abs(change) >= effect else effect - abs(change)
    needed = max(count + 1, math.ceil(min(count * (width / room) ** 2, _MAX_NEEDED))) if room > 0 else _MAX_NEEDED
    if needed >= _MAX_NEEDED:
        return Duel(TimeVerdict.INCONCLUSIVE, *bounds, f"too close to {MIN_EFFECT:.0%} to tell")
    return Duel(TimeVerdict.INCONCLUSIVE, *bounds, f"about {needed} samples would tell")
