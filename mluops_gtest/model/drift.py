"""When a reading that still passes has grown enough to be told: one rule for the gate and for the history."""

# A growth by more than this factor is drift.
DRIFT_FACTOR = 4.0
# A share of one-sided errors: its size is no measure of how large the errors are.
SIZELESS = "diff4"
# One or two roundings of the type; what is smaller is chance, and growing from there is no drift.
FLOOR = 2.0**-22
_FLOORS = {"half": 2.0**-9, "bfloat16": 2.0**-9, "complex_half": 2.0**-9}


def reading_floor(dtype: str) -> float:
    """The reading below which differences of that type mean nothing."""
    return _FLOORS.get(dtype, FLOOR)
