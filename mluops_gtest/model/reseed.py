"""Other random values for the declared cases: which ones, and what became of a case under them."""

import hashlib

from mluops_gtest.value import Value

# A seed that a person can type and every report format holds.
LARGEST_RESEED = 2**32 - 1


class Reseed(Value):
    """The values of `run --reseed number`; where they do not meet a case's conditions, those of the next attempt."""

    number: int
    attempt: int = 0

    def seed(self, declared: int) -> int:
        """The seed in the place of a declared one: the first 8 bytes of a SHA-256, little-endian."""
        text = f"mluops-test/reseed/1/{self.number}/{self.attempt}/{declared}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


class Reseeded(Value):
    """What `--reseed number` made of a case."""

    number: int
    # Attempts before this one whose values did not meet the case's conditions.
    redraws: int = 0
    # Inputs and parameters are those that the case has without --reseed.
    fixed: bool = False
