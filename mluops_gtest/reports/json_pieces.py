"""Long JSON documents piece by piece, as json.dumps would lay them out with one space per level."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mluops_gtest.model.plain_text import plain_values


def indented(value: Any, *, plain: bool = False) -> str:
    """The value with a line per item; `plain`: every text in it fit to be shown."""
    text = json.dumps(value, allow_nan=False)
    # What is unfit is written as an escape, or is the one character of ASCII that is not.
    if plain and any(sign in text for sign in ("\\u", "\\r", "\x7f")):
        text = json.dumps(plain_values(value), allow_nan=False)
    # json.dumps itself does this ten times slower.
    return msgspec.json.format(text, indent=1)


def with_items(document: Any, place: tuple[str, ...], items: Iterable[Any], *, plain: bool = False) -> Iterator[str]:
    """The document with these items in the empty list at `place`; only one of them is there at a time."""
    level = len(place)
    margin = "\n" + " " * level
    head, empty, rest = indented(document, plain=plain).partition(f'{margin}"{place[-1]}": []')
    assert empty, "the document has the list"
    yield head + empty[:-1]
    end = "]"
    for number, item in enumerate(items):
        yield ("," if number else "") + f"{margin} " + indented(item, plain=plain).replace("\n", f"{margin} ")
        end = f"{margin}]"
    yield f"{end}{rest}\n"
