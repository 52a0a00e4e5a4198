"""How kernels of RoI-aware pooling go wrong, for suspects; every suspect is a mutant, too."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, with_inputs, with_params

from .._shared import roiaware as roi
from .._shared.wrong_boxes import misread_boxes

Outputs = Mapping[str, Array]
_TILE: Final = 64


def _dropped(cells: Array, grid: Array) -> Array:
    """Where the index leaves the grid there is none."""
    places = np.trunc(cells)
    return np.where(((places >= 0) & (places < grid)).all(axis=1), roi.clamp(cells, grid), -1)


def _z_first(cells: Array, grid: Array) -> Array:
    """The same cells, numbered with x as the fastest."""
    return roi.clamp(cells[:, ::-1], grid[::-1])


# Floor and truncation are one: inside a box nothing lies before its corner.
_PLACES: Final[Mapping[str, Callable[[Array, Array], Array]]] = {
    "cells are rounded": lambda cells, grid: roi.clamp(np.rint(cells), grid),
    "points on the top face are dropped": _dropped,
    "cells count in the order z, y, x": _z_first,
    "x and y of cells are exchanged": lambda cells, grid: roi.clamp(cells[:, [1, 0, 2]], grid),
    "cells count from the middle of the box": lambda cells, grid: roi.clamp(cells - grid * (0.5, 0.5, 0.0), grid),
    "y and z of cells are ignored": lambda cells, grid: roi.clamp(cells * (1, 0, 0), grid),
    "borders belong to the cell below": lambda cells, grid: roi.clamp(np.ceil(cells) - 1, grid),
    "cells count down along x": lambda cells, grid: roi.clamp(grid * (1, 0, 0) + cells * (-1, 1, 1), grid),
    "z of cells counts from the middle": lambda cells, grid: roi.clamp(cells - grid * (0.0, 0.0, 0.5), grid),
}


# Beside the box: what is listed, and what is pooled of it.


def _most(call: OpCall) -> int:
    return int(call.param("max_pts_each_voxel"))


def _right(call: OpCall) -> Outputs:
    return roi.outputs(call, roi.entries_of(call))


def _answer(call: OpCall, test: Any) -> Outputs:
    return roi.outputs(call, roi.find_entries(call.array("pts"), call.array("rois"), test))


def _boxed(words: str) -> Suspect:
    return lambda call: misread_boxes(_answer, roi.cell_test(call.params), "rois")[words](call)


def _placed(place: Callable[[Array, Array], Array]) -> Suspect:
    return lambda call: _answer(call, replace(roi.cell_test(call.params), place=place))


def _entries(change: Callable[[OpCall, roi.Entries], roi.Entries]) -> Suspect:
    return lambda call: roi.outputs(call, change(call, roi.entries_of(call)))


def _listed(change: Callable[[Array, Array], Array]) -> Suspect:
    """With another table, given the right one and the number of each place in it."""

    def wrong(call: OpCall) -> Outputs:
        rows = _right(call)["pts_idx_of_voxels"]
        return {"pts_idx_of_voxels": change(rows, np.arange(rows.shape[-1])).astype("<i4")}

    return wrong


def _scaled(by: Callable[[OpCall, Array], Array]) -> Suspect:
    """Means times that of the call and the counts."""

    def wrong(call: OpCall) -> Outputs:
        if roi.is_max(call):
            return {}
        own = _right(call)
        means, counts = own["pooled_features"], np.maximum(own["pts_idx_of_voxels"][..., :1], 1).astype(np.float64)
        with np.errstate(all="ignore"):
            return {"pooled_features": (means * by(call, counts)).astype(means.dtype)}

    return wrong


def _of_max(change: Callable[[OpCall, Array, Array], Outputs]) -> Suspect:
    """Where the maximum is asked for, given pooled_features and argmax."""

    def wrong(call: OpCall) -> Outputs:
        own = roi.pool(call, roi.kept(call)) if roi.is_max(call) else None
        return {} if own is None else change(call, own["pooled_features"], own["argmax"])

    return wrong


def _reversed(_: OpCall, all_: roi.Entries) -> roi.Entries:
    order = np.lexsort((-all_.points, all_.cells))
    return roi.Entries(all_.cells[order], all_.points[order])


def _of_first_box(call: OpCall, all_: roi.Entries) -> roi.Entries:
    cells = all_.cells % int(np.prod([call.param(name) for name in roi.GRID]))
    order = np.argsort(cells, kind="stable")
    return roi.Entries(cells[order], all_.points[order])


def _all_counted(call: OpCall) -> Outputs:
    rows, all_ = _right(call)["pts_idx_of_voxels"], roi.entries_of(call)
    rows.reshape(-1, _most(call))[all_.cells[all_.starts], 0] = all_.counts
    return {"pts_idx_of_voxels": rows}


def _in_list(call: OpCall, _: Array, argmax: Array) -> Outputs:
    if (argmax < 0).all():
        return {}
    rows = _right(call)["pts_idx_of_voxels"][..., 1:]
    found = [(rows == argmax[..., channel, None]).argmax(axis=-1) for channel in range(argmax.shape[-1])]
    return {"argmax": np.where(argmax < 0, -1, np.stack(found, axis=-1)).astype("<i4")}


def _last_of_equals(call: OpCall, _: Array, __: Array) -> Outputs:
    return roi.pool(call, _reversed(call, roi.kept(call)))


def _minus_inf_counts(call: OpCall, best: Array, argmax: Array) -> Outputs:
    """A cell that has points has a maximum, its first point's where all are −Inf."""
    first = _right(call)["pts_idx_of_voxels"][..., :2]
    is_none = (argmax < 0) & (first[..., :1] > 0)
    return {
        "argmax": np.where(is_none, first[..., -1:], argmax),
        "pooled_features": np.where(is_none, best.dtype.type(-np.inf), best),
    }


def _with_features(change: Callable[[Array], Array]) -> Suspect:
    return lambda call: roi.pool(
        with_inputs(call, pts_feature=np.ascontiguousarray(change(call.array("pts_feature")))), roi.kept(call)
    )


SUSPECTS: Final[Mapping[str, Suspect]] = {
    **{words: _boxed(words) for words in misread_boxes(_answer, roi.CellTest(), "rois")},
    **{words: _placed(place) for words, place in _PLACES.items()},
    "K points are pooled": lambda call: roi.pool(call, roi.entries_of(call).first(_most(call))),
    "all points of a cell are pooled": lambda call: roi.pool(call, roi.entries_of(call)),
    "one point of each cell is pooled": lambda call: roi.pool(call, roi.entries_of(call).first(1)),
    "all points of a cell are counted": _all_counted,
    "a cell has K − 2 points": _entries(lambda call, all_: all_.first(max(0, _most(call) - 2))),
    "points are listed from the last to the first": _entries(_reversed),
    "cells of one box are shared by the next": _entries(_of_first_box),
    "listed points count from 1": _listed(lambda rows, place: rows + ((place > 0) & (place <= rows[..., :1]))),
    f"listed points count within {_TILE}": _listed(lambda rows, place: np.where(place > 0, rows % _TILE, rows)),
    "places without a point have −1": _listed(lambda rows, place: np.where(place > rows[..., :1], -1, rows)),
    "the list has no count": _listed(lambda rows, _: np.append(rows[..., 1:], 0 * rows[..., :1], axis=-1)),
    "the count is one more": _listed(lambda rows, place: rows + ((place == 0) & (rows[..., :1] > 0))),
    "the count comes last": _listed(lambda rows, _: np.roll(rows, -1, axis=-1)),
    "argmax is the place in the list": _of_max(_in_list),
    "argmax counts from 1": _of_max(lambda _, __, argmax: {"argmax": argmax + (argmax >= 0).astype("<i4")}),
    "argmax of an empty cell is 0": _of_max(lambda _, __, argmax: {"argmax": np.maximum(argmax, 0)}),
    "argmax is that of the first channel": _of_max(
        lambda _, __, argmax: {"argmax": np.broadcast_to(argmax[..., :1], argmax.shape)}
    ),
    "the last of equals is the largest": _of_max(_last_of_equals),
    "the maximum starts at 0": _of_max(
        lambda _, best, argmax: {"pooled_features": np.maximum(best, 0), "argmax": np.where(best > 0, argmax, -1)}
    ),
    "a maximum of −Inf counts": _of_max(_minus_inf_counts),
    "empty cells have −Inf": _of_max(
        lambda _, best, argmax: {"pooled_features": np.where(argmax < 0, best.dtype.type(-np.inf), best)}
    ),
    "the largest magnitude is pooled": _with_features(np.abs),
    "pts_feature is read as [C, P]": _with_features(lambda rows: rows.reshape(rows.shape[::-1]).T),
    "features are those of the next point": _with_features(lambda rows: np.roll(rows, -1, axis=0)),
    "the mean is a sum": _scaled(lambda _, counts: counts),
    "the mean is that of K": _scaled(lambda call, counts: counts / _most(call)),
    "the mean is that of K − 1": _scaled(lambda call, counts: counts / max(1, _most(call) - 1)),
    "the mean is that of all points": _scaled(lambda call, counts: counts / call.param("pts_num")),
    "the mean is that of one point more": _scaled(lambda _, counts: counts / (counts + 1)),
    "maximum and mean are exchanged": lambda call: _right(with_params(call, pool_method=1 - call.param("pool_method"))),
}
