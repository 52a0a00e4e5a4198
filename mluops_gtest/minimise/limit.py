"""How often a search may call the backend."""

LIMIT = 300
