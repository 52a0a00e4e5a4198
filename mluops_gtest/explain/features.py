"""Cases as rows of features: parameters, types, layouts and dims, each named once."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from mluops_gtest.model.headline import Feature
from mluops_gtest.model.result import CaseInfo, CaseResult, TensorInfo

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
    rows = [dict(_row(result.info, shapes)) for result in results]
    common = [feature for feature in rows[0] if all(feature in row for row in rows)]
    common.sort(key=lambda feature: (_BEST_FIRST.index(feature.kind), feature.axis is not None))
    columns: dict[Feature, list[Scalar]] = {}
    seen: set[tuple[Scalar, ...]] = set()
    for feature in common:
        column = [row[feature] for row in rows]
        key = tuple(column)
        if len({*map(repr, column)}) > 1 and key not in seen:
            seen.add(key)
            columns[feature] = column
    return columns


def _row(info: CaseInfo, shapes: Mapping[str, str]) -> Iterable[tuple[Feature, Scalar]]:
    for name, value in info.params.items():
        yield from _param(name, value)
    for tensor in (*info.outputs, *info.inputs):
        yield Feature("dtype", tensor.id), tensor.dtype
        yield Feature("layout", tensor.id), tensor.layout
        yield from _dims(tensor, symbols_of(shapes.get(tensor.id, "")))
        yield Feature("elements", tensor.id), math.prod(tensor.dims)


def _param(name: str, value: Any) -> Iterable[tuple[Feature, Scalar]]:
    if isinstance(value, int | float | str):
        yield Feature("param", name), value
    if isinstance(value, list | tuple) and 0 < len(value) <= _MAX_COMPONENTS:
        numbers = [one for one in value if isinstance(one, int | float)]
        if len(numbers) == len(value):
            for index, one in enumerate(numbers):
                yield Feature("param", f"{name}[{index}]"), one
            yield Feature("param", f"max({name})"), max(numbers)
            yield Feature("param", f"min({name})"), min(numbers)


def _dims(tensor: TensorInfo, symbols: Sequence[str]) -> Iterable[tuple[Feature, Scalar]]:
    for axis, length in enumerate(tensor.dims):
        symbol = symbols[axis] if len(symbols) == len(tensor.dims) else ""
        yield (Feature("dim", symbol) if symbol else Feature("dim", tensor.id, axis)), length


@cache
def symbols_of(shape: str) -> tuple[str, ...]:
    """The symbol of every axis; empty for an axis that has none of its own, such as C·kernel_h or 3."""
    found = _SYMBOLS.search(shape)
    words = found[1].split(",") if found else ()
    return tuple(word.strip() if _SYMBOL.fullmatch(word.strip()) else "" for word in words)
