"""How the names of case files end: the name alone decides the format."""

from typing import Final

TEXT: Final = ".prototxt"
BINARY: Final = ".pb"
CASE_SUFFIXES: Final = (TEXT, BINARY)
