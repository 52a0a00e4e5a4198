"""The bytes around every buffer, on the host and on a device, that no backend may write."""

from typing import Final

# On either side of a buffer; the pattern differs from every poison.
GUARD_BYTES: Final = 1024
GUARD_PATTERN: Final = 0x5C
