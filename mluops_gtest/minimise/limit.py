"""How often a search may call the backend."""

from typing import Final

LIMIT: Final = 300
