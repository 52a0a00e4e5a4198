"""What fuzzing draws for sparse convolutions over pairs of rows, and how such a call becomes smaller.

Also which faulty calls of them are calls at all.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_args

import numpy as np

from mluops_gtest.authoring import Array, OpCall, RecipeOutput
from mluops_gtest.authoring.reductions import Reduction, changed
from mluops_gtest.authoring.space import Choice, Drawn, InStep, Sizes, Space

from .connections import Tail, axis_letters, pairs_in_use
from .products import SUBNORMAL
from .sparse import Triple

_KERNEL: Final = "DHW"
_PAIRS, _COUNTS, _OUTPUT_ROWS = "indice_pairs", "indice_num", "num_active_out"
_KERNELS: Final = ((1, 1, 1), (3, 3, 3), (1, 1, 3), (2, 2, 2), (3, 1, 1), (1, 3, 3), (1, 2, 1))
_SIDES: Final = (1, 2, 3, 4, 5, 8)
# Kernels of more offsets than the first number have one row alone; of more than the second nobody lists the counts.
_MANY_COUNTS, _MOST_COUNTS = 1 << 8, 1 << 14
_SIZES: Final = ("rows_in", "rows_out", "channels_in", "channels_out")


def convolution_space(
    *,
    values: tuple[str, ...],
    layouts: tuple[str, ...] = (),
    kernels: tuple[tuple[int, ...], ...] = (),
    unmet: bool = False,
    filters: str = "filters",
) -> Space:
    """The recipes random_pairs and sites with these values; floats are no subnormal ones.

    `kernels` are drawn beside those of three axes; `unmet`: random_pairs takes output rows that no pair names;
    `filters` is the tensor with the kernel's axes.
    """

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        kernel, sub_m = at["kernel"], at["sub_m"]
        if at["dtype"] == "float" and at["values"] in SUBNORMAL:
            return None
        channels = {name: at[name] for name in ("channels_in", "channels_out")}
        params = {"sub_m": sub_m}
        laid_out = {"layout": at["layout"]} if layouts else {}
        if at["what"] == "sites":
            if len(kernel) != len(_KERNELS[0]):
                return None
            side = at["side"]
            geometry = {"pad": tuple(n // 2 for n in kernel)} if sub_m else _strided(at)
            count = min(at["rows_in"], side**3)
            args = {"space": (side,) * 3, "kernel": kernel, "count": count, "values": at["values"], **geometry}
            return Drawn("sites", params, {**args, **laid_out, **channels}, at["dtype"])
        rows = {"rows_in": at["rows_in"], "rows_out": at["rows_in"] if sub_m else at["rows_out"]}
        more = {"unmet": (0,)} if unmet and not sub_m and rows["rows_out"] > 1 and at["tail"] == "stale" else {}
        args = {"kernel": kernel, "tail": at["tail"], "values": at["values"], **rows, **more}
        return Drawn("random_pairs", params, {**args, **laid_out, **channels}, at["dtype"])

    def elements(at: Mapping[str, Any]) -> int:
        rows_in, rows_out, channels_in, channels_out = (int(at[name]) for name in _SIZES)
        number = math.prod(int(length) for length in at["kernel"])
        tensors = rows_in * channels_in + rows_out * channels_out + number * (channels_in * channels_out + 2 * rows_in)
        # Products take their time, too.
        return tensors + number * min(rows_in, rows_out) * channels_in * channels_out // 8

    return Space(
        axes={
            "dtype": Choice(("float", "half")),
            "rows_in": Sizes(1, 1025),
            "rows_out": Sizes(1, 1025),
            "channels_in": Sizes(1, 129),
            "channels_out": Sizes(1, 129),
            "kernel": Choice((*_KERNELS, *kernels)),
            "what": Choice(("random_pairs", "sites")),
            "sub_m": Choice((0, 1)),
            "tail": Choice(get_args(Tail)),
            "values": Choice(values),
            "side": Choice(_SIDES),
            "stride": Choice(((1, 1, 1), (2, 2, 2), (1, 2, 1))),
            "dilation": Choice(((1, 1, 1), (2, 2, 2))),
            **({"layout": Choice(layouts)} if layouts else {}),
        },
        draw=draw,
        elements=elements,
        limits=(1_000_001,),
        in_step={f"K{letter.lower()}": partial(_with_counts, filters, letter) for letter in _KERNEL},
        defined=partial(_is_counted, filters),
    )


def _is_counted(filters: str, call: OpCall) -> bool:
    """A library reads as many counts as the tensors have offsets."""
    counts = None if call.params is None else call.params.get(_COUNTS)
    kernel, pairs = _kernel_of(filters, call), call.inputs.get(_PAIRS)
    claimed = [math.prod(kernel.values())] if kernel else []
    if pairs is not None and pairs.dims:
        claimed.append(pairs.dims[0])
    return not isinstance(counts, tuple) or all(one <= len(counts) for one in claimed)


def _with_counts(filters: str, letter: str, call: OpCall, size: int) -> InStep:
    """With another length of that kernel axis every offset has a count, which is 0."""
    kernel, pairs = _kernel_of(filters, call), call.inputs.get(_PAIRS)
    offsets = math.prod({**kernel, letter: size}.values())
    if letter in kernel and offsets <= _MANY_COUNTS:
        return InStep(params={_COUNTS: (0,) * offsets})
    if letter not in kernel or letter != _KERNEL[-1] or pairs is None or size > _MOST_COUNTS:
        return InStep()
    tensor = call.tensor(filters)
    named = zip(axis_letters(tensor.layout, len(tensor.dims)), tensor.dims, strict=True)
    row = tuple(size if one == letter else 1 if one in _KERNEL else length for one, length in named)
    return InStep({filters: row, _PAIRS: (size, *pairs.dims[1:])}, {_COUNTS: (0,) * size})


def _kernel_of(filters: str, call: OpCall) -> dict[str, int]:
    """The length of each kernel axis; empty where there is no tensor, or its layout does not fit its rank."""
    tensor = {**call.inputs, **call.outputs}[filters]
    letters = "" if tensor is None else axis_letters(tensor.layout, len(tensor.dims))
    if tensor is None or len(letters) != len(tensor.dims):
        return {}
    return {letter: length for letter, length in zip(letters, tensor.dims, strict=True) if letter in _KERNEL}


def _strided(at: Mapping[str, Any]) -> dict[str, Triple]:
    stride: Triple = at["stride"]
    dilation: Triple = at["dilation"] if stride == (1, 1, 1) else (1, 1, 1)
    pad = tuple(min(n // 2, 1) for n in (*at["kernel"], 1, 1)[:3])
    return {"stride": stride, "dilation": dilation, "pad": (pad[0], pad[1], pad[2])}


def fewer_pairs(rows_in: str, rows_out: str, filters: str) -> Mapping[str, Reduction]:
    """The reductions of an operator over `indice_pairs` and `indice_num` beside those of channels.

    `rows_in` [L, Ci] and `rows_out` [Y, Co] are the tensors whose rows the pairs name, `filters` the one with the
    kernel's axes; each may be an input or the output.
    """
    parts = _Tensors(rows_in, rows_out, filters)
    return {
        "pairs": Reduction(lambda call: int(sum(call.param(_COUNTS))), parts.without_pairs),
        "rows_in": Reduction(lambda call: call.tensor(rows_in).dims[0], partial(parts.without_rows, side=0)),
        "rows_out": Reduction(lambda call: call.tensor(rows_out).dims[0], partial(parts.without_rows, side=1)),
        **{
            f"kernel_{axis.lower()}": Reduction(
                partial(parts.planes, axis=axis), partial(parts.without_planes, axis=axis)
            )
            for axis in _KERNEL
        },
    }


@dataclass(frozen=True, slots=True)
class _Tensors:
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
        says_rows = 1 in sides and _OUTPUT_ROWS in (call.params or {})
        params = {_OUTPUT_ROWS: call.param(_OUTPUT_ROWS) - (stop - start)} if says_rows else {}
        return _reduced(call, _table(kept, columns), kept, shrunk, start, stop, params)

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
