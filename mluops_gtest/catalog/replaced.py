"""`replaced.json` of an operator: the ids that cases had, each with the cases that show now what it showed.

A person writes it when a declared case goes; the gate, waivers, the history and commands that name an old id follow it.
"""

import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Final

from mluops_gtest.base.typed_files import Source, convert, decode_json, read_bytes

REPLACED_NAME: Final = "replaced.json"
# Ids of declared cases by an id that no case has any more.
Successors = Mapping[str, tuple[str, ...]]


def read_replaced(folder: Path, declared: Container[str]) -> Successors:
    """What stands for each old id among the declared cases of the operator; nothing where the folder has no file."""
    path = folder / REPLACED_NAME
    if not os.path.lexists(path):
        return {}
    source = Source(str(path), 'Write {"op/old": ["op/new"]}, with cases that are declared or replaced themselves.')
    listed = convert(decode_json(read_bytes(path), source), dict[str, tuple[str, ...]], source)

    def follow(old: str, before: tuple[str, ...]) -> Iterator[str]:
        if old in before:
            raise source.error(f"{' → '.join((*before, old))} ends nowhere")
        for one in listed[old] or [""]:
            if one in declared:
                yield one
            elif one in listed:
                yield from follow(one, (*before, old))
            else:
                raise source.error(f"{old} is replaced by {one or 'nothing'}, which is no declared case")

    if still := [old for old in listed if old in declared]:
        raise source.error(f"{still[0]} is replaced, but declared all the same")
    return {old: tuple(dict.fromkeys(follow(old, ()))) for old in listed}


def replaced_words(old: str, successors: tuple[str, ...]) -> str:
    """A note for whoever named the old id."""
    return f"{old} is now {', '.join(successors)}"
