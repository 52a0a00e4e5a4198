"""Typed values in words: a pattern or a function for every type."""

from collections.abc import Callable, Mapping
from typing import Any

# Type → what is said of its values: a pattern of their fields, or a function.
Words = Mapping[type, str | Callable[[Any], str]]


def worded(words: Words, told: object) -> str:
    """What is said of this value."""
    made = words[type(told)]
    return made.format(told) if isinstance(made, str) else made(told)
