"""How a call of a sparse convolution becomes smaller: fewer pairs, rows, channels and kernel offsets."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring.connections import pairs_in_use
from mluops_gtest.authoring.filters import axis_letters
from mluops_gtest.authoring.reductions import Reduction, changed
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.operator import RecipeOutput
from mluops_gtest.core.tensor import Array

_KERNEL: Final = "DHW"
_PAIRS, _COUNTS, _OUTPUT_ROWS = "indice_pairs", "indice_num", "num_active_out"


def fewer_pairs(rows_in: str, rows_out: str, filters: str) -> Mapping[str, Reduction]:
    """The reductions of an operator over `indice_pairs` and `indice_num`.

    `rows_in` [L, Ci] and `rows_out` [Y, Co] are the tensors whose rows the pairs name, `filters` the one with the
    kernel's axes; each may be an input or the output.
    """
    parts = _Tensors(rows_in, rows_out, filters)
    return {
        "pairs": Reduction(lambda call: int(sum(call.param(_COUNTS))), parts.without_pairs),
        "rows_in": Reduction(lambda call: call.tensor(rows_in).dims[0], partial(parts.without_rows, side=0)),
        "rows_out": Reduction(lambda call: call.tensor(rows_out).dims[0], partial(parts.without_rows, side=1)),
        "channels_in": Reduction(lambda call: call.tensor(rows_in).dims[1], partial(parts.without_channels, side=0)),
        "channels_out": Reduction(lambda call: call.tensor(rows_out).dims[1], partial(parts.without_channels, side=1)),
        **{
            f"kernel_{axis.lower()}": Reduction(
                partial(parts.planes, axis=axis), partial(parts.without_planes, axis=axis)
            )
            for axis in _KERNEL
        },
    }


class _Tensors(Value):
    rows_in: str
    rows_out: str
    filters: str

    def without_pairs(self, call: OpCall, start: int, stop: int) -> RecipeOutput:
        """Counted through the offsets."""
        first, kept = 0, []
        for pairs in _used(call):
            places = np.arange(first, first + pairs.shape[1])
            kept.append(pairs[:, (places < start) | (places >= stop)])
            first += pairs.shape[1]
        return _reduced(call, _table(kept, call.tensor(_PAIRS).dims[2]), kept)

    def without_rows(self, call: OpCall, start: int, stop: int, *, side: int) -> RecipeOutput | None:
        """The pairs of a lost row are lost; with sub_m the rows of both sides are the same."""
        sides = (0, 1) if call.param("sub_m") else (side,)
        if side not in sides[:1]:
            return None
        kept = _used(call)
        for one in sides:
            kept = [pairs[:, (pairs[one] < start) | (pairs[one] >= stop)] for pairs in kept]
            kept = [_moved(pairs, one, start, stop) for pairs in kept]
        columns = call.tensor(_PAIRS).dims[2] - (stop - start if 0 in sides else 0)
        shrunk = {(self.rows_in, self.rows_out)[one]: 0 for one in sides}
        params = {_OUTPUT_ROWS: call.param(_OUTPUT_ROWS) - (stop - start)} if 1 in sides and _says_rows(call) else {}
        return _reduced(call, _table(kept, columns), kept, shrunk, start, stop, params)

    def without_channels(self, call: OpCall, start: int, stop: int, *, side: int) -> RecipeOutput:
        """Of the rows of one side and of the filter."""
        axes = {(self.rows_in, self.rows_out)[side]: 1, self.filters: self._letters(call).index("CN"[side])}
        return _shrunk(call, axes, start, stop)

    def planes(self, call: OpCall, axis: str) -> int:
        """The kernel's length on that axis; with sub_m, whose middle must stay the middle, what lies on either side."""
        letters = self._letters(call)
        length = call.tensor(self.filters).dims[letters.index(axis)] if axis in letters else 1
        return (length - 1) // 2 if call.param("sub_m") else length

    def without_planes(self, call: OpCall, start: int, stop: int, *, axis: str) -> RecipeOutput | None:
        """With sub_m as many planes from either end."""
        letters = self._letters(call)
        if axis not in letters:
            return None
        dims = call.tensor(self.filters).dims
        length = dims[letters.index(axis)]
        ends = [*range(start, stop)] if not call.param("sub_m") else _ends(length, stop - start)
        kernel = [dims[letters.index(one)] for one in _KERNEL if one in letters]
        number = [one for one in _KERNEL if one in letters].index(axis)
        left = np.delete(np.arange(math.prod(kernel)).reshape(kernel), ends, number).reshape(-1)
        used = _used(call)
        kept = [used[offset] for offset in left]
        arrays, outputs = _cut(call, {self.filters: letters.index(axis)}, ends)
        table = {_PAIRS: _table(kept, call.tensor(_PAIRS).dims[2])}
        return changed(call, {**arrays, **table}, _counts(kept), outputs)

    def _letters(self, call: OpCall) -> str:
        filters = call.tensor(self.filters)
        return axis_letters(filters.layout, len(filters.dims))


def _ends(length: int, each: int) -> list[int]:
    return [*range(each), *range(length - each, length)]


def _used(call: OpCall) -> list[Array]:
    return list(pairs_in_use(call.array(_PAIRS), call.param(_COUNTS)))


def _moved(pairs: Array, side: int, start: int, stop: int) -> Array:
    pairs = pairs.copy()
    pairs[side] -= np.where(pairs[side] >= stop, np.int32(stop - start), np.int32(0))
    return pairs


def _table(kept: list[Array], columns: int) -> Array:
    """[K, 2, L], −1 behind the pairs in use."""
    table = np.full((len(kept), 2, columns), -1, np.int32)
    for offset, pairs in enumerate(kept):
        table[offset, :, : pairs.shape[1]] = pairs
    return table


def _counts(kept: list[Array]) -> dict[str, tuple[int, ...]]:
    return {_COUNTS: tuple(int(pairs.shape[1]) for pairs in kept)}


def _says_rows(call: OpCall) -> bool:
    return _OUTPUT_ROWS in (call.params or {})


def _reduced(
    call: OpCall,
    table: Array,
    kept: list[Array],
    axes: Mapping[str, int] | None = None,
    start: int = 0,
    stop: int = 0,
    params: Mapping[str, int] | None = None,
) -> RecipeOutput:
    arrays, outputs = _cut(call, axes or {}, range(start, stop))
    return changed(call, {**arrays, _PAIRS: table}, {**_counts(kept), **(params or {})}, outputs)


def _shrunk(call: OpCall, axes: Mapping[str, int], start: int, stop: int) -> RecipeOutput:
    arrays, outputs = _cut(call, axes, range(start, stop))
    return changed(call, arrays, None, outputs)


def _cut(
    call: OpCall, axes: Mapping[str, int], places: "range | list[int]"
) -> tuple[dict[str, Array], dict[str, tuple[int, ...]]]:
    """Each tensor without these places of its axis: an input's values, an output's dims."""
    arrays: dict[str, Array] = {}
    outputs: dict[str, tuple[int, ...]] = {}
    for name, axis in axes.items():
        if name in call.inputs:
            arrays[name] = np.delete(call.array(name), list(places), axis)
        else:
            dims = call.tensor(name).dims
            outputs[name] = (*dims[:axis], dims[axis] - len(places), *dims[axis + 1 :])
    return arrays, outputs
