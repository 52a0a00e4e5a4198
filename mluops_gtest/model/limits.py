"""What no operator takes."""

from typing import Final

# A tensor of this many elements or more is "large": every operator answers NOT_SUPPORTED.
LARGE_ELEMENTS: Final = 2**31
