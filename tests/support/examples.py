"""How many examples a property is tried on: fewer while you work, and where each takes long, as under sanitizers."""

import os


def examples(most: int = 100) -> int:
    return min(most, int(os.environ.get("MLUOPS_TEST_EXAMPLES", most)))
