"""How a call becomes smaller: fewer sites and batches, smaller spaces and kernels, plain strides."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, OpCall, RecipeOutput
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows

from .._shared.sparse import Geometry, derive_output_space, find_pairs

_AXES = {"d": 0, "h": 1, "w": 2}
_OUTPUTS = ("out_indices", "indice_pairs", "indice_num")


def _reduced(call: OpCall, sites: Array, *, spare_lost: int = 0, **params: Any) -> RecipeOutput | None:
    """The output space and the output dims follow; out_indices keeps its spare rows.

    None where no batch or no length is left.
    """
    spare = _spare_rows(call) - spare_lost
    full = {**(call.params or {}), **params}
    if full["batch"] < 1 or any(min(full[name]) < 1 for name in ("input_space", "filter_space", "stride", "dilation")):
        return None
    derived = (full[name] for name in ("input_space", "filter_space", "stride", "pad", "dilation"))
    full["output_space"] = full["input_space"] if full["sub_m"] else derive_output_space(*derived)
    if min(full["output_space"]) < 1:
        return None
    rows = {"out_indices": (_outputs(sites, full) + spare, 4)} if spare else {}
    return changed(call, {"indices": sites}, full, rows, derived=_OUTPUTS)


def _outputs(sites: Array, params: Mapping[str, Any]) -> int:
    geometry = Geometry(
        params["batch"],
        params["input_space"],
        params["filter_space"],
        params["stride"],
        params["pad"],
        params["dilation"],
        params["output_space"],
        sub_m=bool(params["sub_m"]),
    )
    return len(find_pairs(sites, geometry).out_indices)


def _spare_rows(call: OpCall) -> int:
    """Rows of out_indices that no output needs."""
    return call.tensor("out_indices").dims[0] - _outputs(call.array("indices"), call.params or {})


def _without_sites(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    return _reduced(call, without_rows(call.array("indices"), start, stop))


def _without_batches(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    return _reduced(
        call, _without_cells(call.array("indices"), 0, start, stop), batch=call.param("batch") - stop + start
    )


def _without_planes(call: OpCall, start: int, stop: int, *, axis: int) -> RecipeOutput | None:
    sites = _without_cells(call.array("indices"), axis + 1, start, stop)
    return _reduced(call, sites, input_space=_lowered(call.param("input_space"), axis, stop - start))


def _without_cells(sites: Array, column: int, start: int, stop: int) -> Array:
    """The sites there are lost, those behind move up."""
    left = sites[(sites[:, column] < start) | (sites[:, column] >= stop)]
    left[:, column] -= np.where(left[:, column] >= stop, np.int32(stop - start), np.int32(0))
    return left


def _with_less(call: OpCall, start: int, stop: int, *, name: str, axis: int) -> RecipeOutput | None:
    params: dict[str, Any] = {name: _lowered(call.param(name), axis, stop - start)}
    return _reduced(call, call.array("indices"), **params)


def _lowered(values: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*values[:axis], values[axis] - by, *values[axis + 1 :])


def _length(call: OpCall, *, name: str, axis: int) -> int:
    return int(call.param(name)[axis])


def _lowering(name: str) -> dict[str, Reduction]:
    word = "kernel" if name == "filter_space" else name
    return {
        f"{word}_{letter}": Reduction(partial(_length, name=name, axis=axis), partial(_with_less, name=name, axis=axis))
        for letter, axis in _AXES.items()
    }


REDUCTIONS = {
    "spare_rows": Reduction(
        _spare_rows, lambda call, start, stop: _reduced(call, call.array("indices"), spare_lost=stop - start)
    ),
    "sites": Reduction(lambda call: call.tensor("indices").dims[0], _without_sites),
    "batches": Reduction(lambda call: int(call.param("batch")), _without_batches),
    **{
        f"space_{letter}": Reduction(
            partial(_length, name="input_space", axis=axis), partial(_without_planes, axis=axis)
        )
        for letter, axis in _AXES.items()
    },
    **_lowering("filter_space"),
    **_lowering("pad"),
    **_lowering("stride"),
    **_lowering("dilation"),
}
