"""Who is right where a backend and a baseline disagree, by the exact values of the disputed elements."""

from typing import Final, Literal

from mluops_gtest.files.typed import Count
from mluops_gtest.value import Value

# Of one output, the worst first.
MAX_EXAMINED: Final = 1000
MAX_EXAMPLES: Final = 5

Side = Literal["baseline", "backend", "both", "neither"]


class DisputedElement(Value):
    """One element; values as text, errors as |value − exact| and in units in the last place of the exact value."""

    index: tuple[Count, ...]
    right: Side
    exact: str
    backend: str
    baseline: str
    # Infinite where a NaN or an infinity does not meet its like.
    backend_error: float
    backend_ulp: float
    baseline_error: float
    baseline_ulp: float


class Arbitration(Value):
    """The disputed elements of one output: how many there are, how many were recomputed, and who is right at these."""

    output: str
    disputed: Count
    # How many elements each is right at.
    baseline: Count
    backend: Count
    both: Count
    neither: Count
    # Units in the last place mean something; integers have none.
    has_ulp: bool
    # Those at which the baseline is wrong first, then the worst.
    examples: tuple[DisputedElement, ...]
    # The largest errors of the examined elements.
    backend_error: float
    backend_ulp: float
    baseline_error: float
    baseline_ulp: float

    @property
    def examined(self) -> int:
        """The elements that were recomputed."""
        return self.baseline + self.backend + self.both + self.neither

    @property
    def baseline_wrong(self) -> int:
        """The elements at which the baseline is not what the document defines."""
        return self.backend + self.neither
