"""Writes the description of a call as lines, one per fact, for programs without a JSON reader."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def call_lines(description: Mapping[str, Any]) -> Iterator[str]:
    """The lines of call.txt: words and numbers with one space between them, the operator among the first."""
    yield f"format {description['format']}"
    yield f"operator {description['operator']}"
    handle = description["handle"]
    yield "handle null" if handle is None else f"handle {handle['arch']} {handle['nram_bytes']}"
    yield f"device {'none' if description['device'] is None else description['device']}"
    workspace = description["workspace"]
    yield f"workspace {workspace['size']} {'null' if workspace['null'] else 'given'}"
    yield from _params(description["params"])
    for tensor in description["tensors"]:
        yield from _tensor(tensor)


def _params(params: Mapping[str, Any] | None) -> Iterator[str]:
    if params is None:
        yield "params null"
        return
    for name, value in params.items():
        values = value if isinstance(value, list) else [value]
        yield _line("param", name, *map(_word, values))


def _tensor(tensor: Mapping[str, Any]) -> Iterator[str]:
    role, name, desc = tensor["role"], tensor["id"], tensor["descriptor"]
    if desc is None:
        yield _line(role, name, "absent")
        return
    dims = desc["dims"]
    yield _line(role, name, desc["dtype"], desc["layout"], tensor["data"], tensor.get("bytes", 0), len(dims), *dims)
    if desc["strides"] is not None:
        yield _line("strides", name, *desc["strides"])
    if "fill" in tensor:
        yield _line("fill", name, tensor["fill"])


def _line(*words: object) -> str:
    return " ".join(map(str, words))


def _word(value: Any) -> str:
    """Numbers as they are, a truth value as 0 or 1, a null array as null, a string in quotes."""
    return str(int(value)) if isinstance(value, bool) else json.dumps(value)
