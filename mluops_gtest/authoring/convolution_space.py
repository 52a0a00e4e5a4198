"""What fuzzing draws for sparse convolutions over pairs of rows, and which faulty calls of them are calls at all."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from mluops_gtest.authoring.connections import Tail
from mluops_gtest.authoring.factors import SUBNORMAL
from mluops_gtest.authoring.filters import axis_letters
from mluops_gtest.authoring.sparse import Triple
from mluops_gtest.core.call import Choice, Drawn, InStep, OpCall, Params, Sizes, Space, TensorArg

_KERNELS: Final = ((1, 1, 1), (3, 3, 3), (1, 1, 3), (2, 2, 2), (3, 1, 1), (1, 3, 3), (1, 2, 1))
_SIDES: Final = (1, 2, 3, 4, 5, 8)
_CHANNELS: Final = "CN"
# Kernels of more offsets are too many to list their counts.
_MOST_COUNTS: Final = 1 << 14
_SIZES: Final = ("rows_in", "rows_out", "channels_in", "channels_out")


def convolution_space(
    *,
    values: tuple[str, ...],
    layouts: tuple[str, ...] = (),
    kernels: tuple[tuple[int, ...], ...] = (),
    unmet: bool = False,
    filters: str = "filters",
    letters: Callable[[TensorArg], str],
) -> Space:
    """The recipes random_pairs and sites with these values; floats are no subnormal ones.

    `kernels` are drawn beside those of three axes; `unmet`: random_pairs takes output rows that no pair names;
    `letters` name the axes of the tensor `filters`: C and N for channels in and out, others for the kernel.
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
        number = 1
        for length in at["kernel"]:
            number *= length
        tensors = rows_in * channels_in + rows_out * channels_out + number * (channels_in * channels_out + 2 * rows_in)
        # Products take their time, too.
        return tensors + number * min(rows_in, rows_out) * channels_in * channels_out // 8

    tensor = _Filters(filters, letters)
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
        in_step={"K": tensor.other_offsets, "Ci": tensor.other_channels("C"), "Co": tensor.other_channels("N")},
        defined=tensor.is_counted,
    )


@dataclass(frozen=True, slots=True)
class _Filters:
    """What the filters of a call say of its sizes, and what they become with another size."""

    name: str
    letters: Callable[[TensorArg], str]

    def is_counted(self, call: OpCall) -> bool:
        """A library reads as many counts as the tensors have offsets."""
        counts = None if call.params is None else call.params.get("indice_num")
        kernel = [length for letter, length in self._axes(call) if letter not in _CHANNELS]
        claimed = [math.prod(kernel)] if kernel else []
        pairs = call.inputs.get("indice_pairs")
        if pairs is not None and pairs.dims:
            claimed.append(pairs.dims[0])
        return not isinstance(counts, tuple) or all(one <= len(counts) for one in claimed)

    def other_offsets(self, call: OpCall, size: int) -> InStep:
        """The last kernel axis has all offsets, and each of them a count, which is 0."""
        dims = self._axes(call)
        kernel = [axis for axis, (letter, _) in enumerate(dims) if letter not in _CHANNELS]
        lengths = {axis: size if axis == kernel[-1] else 1 for axis in kernel}
        counts = {"indice_num": (0,) * size} if size <= _MOST_COUNTS else {}
        return self._changed([lengths.get(axis, length) for axis, (_, length) in enumerate(dims)], counts)

    def other_channels(self, wanted: str) -> Callable[[OpCall, int], InStep]:
        """The axis of that letter is the one that changes."""
        return lambda call, size: self._changed([size if name == wanted else n for name, n in self._axes(call)], {})

    def _axes(self, call: OpCall) -> list[tuple[str, int]]:
        """Letter and length of each axis; empty where there is no tensor, or its axes have no such names."""
        filters = {**call.inputs, **call.outputs}[self.name]
        return [] if filters is None else list(zip(self.letters(filters), filters.dims, strict=False))

    def _changed(self, dims: list[int], params: Params) -> InStep:
        return InStep({self.name: tuple(dims)}, params) if dims else InStep()


def filter_letters(filters: TensorArg) -> str:
    """One letter per axis of filters; none where the layout does not fit the rank."""
    letters = axis_letters(filters.layout, len(filters.dims))
    return letters if len(letters) == len(filters.dims) else ""


def _strided(at: Mapping[str, Any]) -> dict[str, Triple]:
    stride: Triple = at["stride"]
    dilation: Triple = at["dilation"] if stride == (1, 1, 1) else (1, 1, 1)
    pad = tuple(min(n // 2, 1) for n in (*at["kernel"], 1, 1)[:3])
    return {"stride": stride, "dilation": dilation, "pad": (pad[0], pad[1], pad[2])}
