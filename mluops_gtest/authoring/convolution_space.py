"""What fuzzing draws for sparse convolutions over pairs of rows, and which faulty calls of them are calls at all."""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from mluops_gtest.authoring.connections import Tail
from mluops_gtest.authoring.filters import axis_letters, extents
from mluops_gtest.authoring.sparse import Triple
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.space import Choice, Drawn, Sizes, Space

_KERNELS: Final = ((1, 1, 1), (3, 3, 3), (1, 1, 3), (2, 2, 2), (3, 1, 1), (1, 3, 3), (1, 2, 1))
_SIDES: Final = (1, 2, 3, 4, 5, 8)
_SIZES: Final = ("rows_in", "rows_out", "channels_in", "channels_out")


def convolution_space(
    *,
    values: tuple[str, ...],
    special: tuple[str, ...],
    layouts: tuple[str, ...] = (),
    kernels: tuple[tuple[int, ...], ...] = (),
    unmet: bool = False,
    offsets: Callable[[OpCall], int | None],
) -> Space:
    """The recipes random_pairs and sites with these values, and nonfinite of these kinds.

    `kernels` are drawn beside those of three axes; `unmet`: random_pairs takes output rows that no pair names;
    `offsets` are those that the tensors of a call claim, None where they claim none.
    """

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        what, kernel, sub_m = at["what"], at["kernel"], at["sub_m"]
        if at["values"] in special:
            what = at["values"]
        channels = {name: at[name] for name in ("channels_in", "channels_out")}
        params = {"sub_m": sub_m}
        laid_out = {"layout": at["layout"]} if layouts else {}
        if what == "sites":
            if len(kernel) != len(_KERNELS[0]):
                return None
            side = at["side"]
            geometry = {"pad": tuple(n // 2 for n in kernel)} if sub_m else _strided(at)
            count = min(at["rows_in"], side**3)
            args = {"space": (side,) * 3, "kernel": kernel, "count": count, "values": at["values"], **geometry}
            return Drawn(what, params, {**args, **laid_out, **channels}, at["dtype"])
        rows = {"rows_in": at["rows_in"], "rows_out": at["rows_in"] if sub_m else at["rows_out"]}
        if what == "random_pairs":
            more = {"unmet": (0,)} if unmet and not sub_m and rows["rows_out"] > 1 and at["tail"] == "stale" else {}
            args = {"kernel": kernel, "tail": at["tail"], "values": at["values"], **rows, **more}
            return Drawn(what, params, {**args, **laid_out, **channels}, at["dtype"])
        # Of the others one offset has no pair, and the rest few.
        if sub_m or min(rows.values()) < 4 or len(set(kernel)) == 1 == kernel[0]:
            return None
        number = 1
        for length in kernel:
            number *= length
        counts = (2, 0, *(1 for _ in range(number - 2)))
        return Drawn(
            "nonfinite", {}, {"kernel": kernel, "counts": counts, "kind": what, **rows, **channels}, at["dtype"]
        )

    def elements(at: Mapping[str, Any]) -> int:
        rows_in, rows_out, channels_in, channels_out = (int(at[name]) for name in _SIZES)
        number = 1
        for length in at["kernel"]:
            number *= length
        tensors = rows_in * channels_in + rows_out * channels_out + number * (channels_in * channels_out + 2 * rows_in)
        # Products take their time, too.
        return tensors + number * min(rows_in, rows_out) * channels_in * channels_out // 8

    def defined(call: OpCall) -> bool:
        """A library reads as many counts as the tensors have offsets."""
        counts = None if call.params is None else call.params.get("indice_num")
        claimed = [offsets(call)]
        pairs = call.inputs.get("indice_pairs")
        if pairs is not None and pairs.dims:
            claimed.append(pairs.dims[0])
        return not isinstance(counts, tuple) or all(one is None or one <= len(counts) for one in claimed)

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
            "values": Choice((*values, *special)),
            "side": Choice(_SIDES),
            "stride": Choice(((1, 1, 1), (2, 2, 2), (1, 2, 1))),
            "dilation": Choice(((1, 1, 1), (2, 2, 2))),
            **({"layout": Choice(layouts)} if layouts else {}),
        },
        draw=draw,
        elements=elements,
        limits=(1_000_001,),
        defined=defined,
    )


def filter_offsets(call: OpCall) -> int | None:
    """The kernel offsets that filters claims; None where its layout has no such axes."""
    filters = call.inputs["filters"]
    if filters is None or len(axis_letters(filters.layout, len(filters.dims))) != len(filters.dims):
        return None
    return extents(filters.desc).offsets


def _strided(at: Mapping[str, Any]) -> dict[str, Triple]:
    stride: Triple = at["stride"]
    dilation: Triple = at["dilation"] if stride == (1, 1, 1) else (1, 1, 1)
    pad = tuple(min(n // 2, 1) for n in (*at["kernel"], 1, 1)[:3])
    return {"stride": stride, "dilation": dilation, "pad": (pad[0], pad[1], pad[2])}
