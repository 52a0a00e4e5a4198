"""Cases as rows of features: parameters, types, layouts and dims, each named once."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from mluops_gtest.model.headline import Feature
from mluops_gtest.model.result import CaseInfo, CaseResult

# [batch_size, num_points, 3]: words between brackets; what follows the brackets is for people.
_SYMBOLS: Final = re.compile(r"\[([^\]]*)\]")
_SYMBOL: Final = re.compile(r"[A-Za-z_]\w*")
# Components of a list that are looked at one by one.
_MAX_COMPONENTS: Final = 4
# In which order names are taken for what is the same in all cases.
_BEST_FIRST: Final = ("param", "dtype", "layout", "dim", "elements")

Scalar = int | float | str | bool
# Operator → tensor → shape in symbols.
Shapes = Mapping[str, Mapping[str, str]]


def features_of(results: Sequence[CaseResult], shapes: Mapping[str, str]) -> dict[Feature, list[Scalar]]:
    """Feature → its value in every case; only what all cases have, what varies, and of equal columns the first."""
    rows = [_row(result.info) for result in results]
    # Cases are declared in few ways: what their values are called is found out once for each.
    places = {kind: _places(kind, shapes) for kind in {kind for kind, _ in rows}}
    common = [feature for feature in places[rows[0][0]] if all(feature in known for known in places.values())]
    common.sort(key=lambda feature: (_BEST_FIRST.index(feature.kind), feature.axis is not None))
    columns: dict[Feature, list[Scalar]] = {}
    seen: set[tuple[Scalar, ...]] = set()
    for feature in common:
        place = {kind: known[feature] for kind, known in places.items()}
        column = [values[place[kind]] for kind, values in rows]
        key = tuple(column)
        if len({*map(repr, column)}) > 1 and key not in seen:
            seen.add(key)
            columns[feature] = column
    return columns


# What a case declares: its parameters, each with the length of a list or None, and its tensors with their ranks.
_Kind = tuple[tuple[tuple[str, int | None], ...], tuple[tuple[str, int], ...]]


def _row(info: CaseInfo) -> tuple[_Kind, list[Scalar]]:
    """What the case declares, and all values of that."""
    params: list[tuple[str, int | None]] = []
    values: list[Scalar] = []
    for name, value in info.params.items():
        if isinstance(value, int | float | str):
            params.append((name, None))
            values.append(value)
        elif _is_short_list(value):
            params.append((name, len(value)))
            values += (*value, max(value), min(value))
    tensors = (*info.outputs, *info.inputs)
    for tensor in tensors:
        values += (tensor.dtype, tensor.layout, *tensor.dims, math.prod(tensor.dims))
    return (tuple(params), tuple((tensor.id, len(tensor.dims)) for tensor in tensors)), values


def _is_short_list(value: Any) -> bool:
    """A few numbers."""
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= _MAX_COMPONENTS
        and all(isinstance(one, int | float) for one in value)
    )


def _places(kind: _Kind, shapes: Mapping[str, str]) -> dict[Feature, int]:
    """Feature → the place of its value; of one that occurs several times, the last."""
    params, tensors = kind
    return {feature: place for place, feature in enumerate(_features(params, tensors, shapes))}


def _features(
    params: Iterable[tuple[str, int | None]], tensors: Iterable[tuple[str, int]], shapes: Mapping[str, str]
) -> Iterator[Feature]:
    for name, length in params:
        if length is None:
            yield Feature("param", name)
        else:
            yield from (Feature("param", f"{name}[{index}]") for index in range(length))
            yield from (Feature("param", f"max({name})"), Feature("param", f"min({name})"))
    for tensor, rank in tensors:
        symbols = symbols_of(shapes.get(tensor, ""))
        yield Feature("dtype", tensor)
        yield Feature("layout", tensor)
        for axis in range(rank):
            symbol = symbols[axis] if len(symbols) == rank else ""
            yield Feature("dim", symbol) if symbol else Feature("dim", tensor, axis)
        yield Feature("elements", tensor)


@cache
def symbols_of(shape: str) -> tuple[str, ...]:
    """The symbol of every axis; empty for an axis that has none of its own, such as C·kernel_h or 3."""
    found = _SYMBOLS.search(shape)
    words = found[1].split(",") if found else ()
    return tuple(word.strip() if _SYMBOL.fullmatch(word.strip()) else "" for word in words)
