"""How many examples a property is tried on: fewer while you work, and where each takes long, as under sanitizers."""

import os


def examples(most: int = 100) -> int:
    """So many as the environment asks for, at most as many as a property can use; sixty find what a mistake shows."""
    return min(most, int(os.environ.get("MLUOPS_TEST_EXAMPLES", "60")))
