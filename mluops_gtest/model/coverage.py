"""How much of what was selected a run must have compared."""

import re
from typing import Annotated, Final

from msgspec import Meta

from mluops_gtest.errors import UsageError, shown

_PERCENTAGE: Final = r"^(?:100|[0-9]{1,2}(?:\.[0-9]{1,4})?)%\Z"
# As files keep it.
Percentage = Annotated[str, Meta(pattern=_PERCENTAGE)]


def required_millionths(text: str) -> int:
    """`95%` → 950000; whole numbers, since 0.95 · 20 must be 19."""
    if not re.search(_PERCENTAGE, text):
        raise UsageError(f"--require-coverage {shown(text)}: write a percentage, e.g. --require-coverage 95%.")
    return round(float(text[:-1]) * 10_000)
