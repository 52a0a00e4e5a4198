"""The operator step by step; a wrong implementation overrides one of the steps."""

import itertools
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status


class Plain:
    """Every step as the document means it."""

    unused = -1

    def run(self, call: OpCall) -> Status:
        """Write all outputs of a valid call."""
        indices = call.array("indices").astype(np.int64)
        rows, sites = zip(*(self._met(call, indices, offset) for offset in self._offsets(call)), strict=True)
        keys = [self._keys(call, indices[r, 0], site) for r, site in zip(rows, sites, strict=True)]
        out_keys, out_sites = self._outputs(call, indices, np.concatenate(rows), np.concatenate(keys), np.vstack(sites))
        pairs = call.array("indice_pairs")
        pairs[...] = self.unused
        for k, (in_rows, key) in enumerate(zip(rows, keys, strict=True)):
            out_rows = _rows_of(out_keys, key)
            met = out_rows >= 0
            found = self._ordered(np.stack([in_rows[met], out_rows[met]]))
            call.array("indice_num")[k] = found.shape[1]
            pairs[k, :, : found.shape[1]] = found
        room = call.array("out_indices")
        room[: len(out_sites)] = out_sites[: len(room)]
        call.scalars["num_act_out"] = self._count(call, out_sites)
        return Status.SUCCESS

    def _offsets(self, call: OpCall) -> list[tuple[int, ...]]:
        """Kernel offsets in order."""
        return list(itertools.product(*(range(length) for length in call.param("filter_space"))))

    def _pad(self, call: OpCall) -> Any:
        """Cells of padding on each axis."""
        return call.param("pad")

    def _dilation(self, call: OpCall) -> Any:
        """Distance of neighbouring offsets on each axis."""
        return call.param("dilation")

    def _stride(self, call: OpCall) -> Any:
        """Cells from one output to the next on each axis."""
        return call.param("stride")

    def _space(self, call: OpCall) -> Any:
        """Length of each axis of the output."""
        return call.param("output_space")

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        """The output under a padded place, and whether there is one."""
        site, rest = np.divmod(place, stride)
        return site, rest == 0

    def _met(self, call: OpCall, indices: Array, offset: tuple[int, ...]) -> tuple[Array, Array]:
        """The rows that meet an output at this offset, and the outputs' coordinates."""
        place = indices[:, 1:] + self._pad(call) - np.multiply(offset, self._dilation(call))
        site, whole = self._divide(place, self._stride(call))
        rows = np.flatnonzero(np.all(whole & self._inside(call, site), axis=1))
        rows = self._handled(call, rows)
        return rows, site[rows]

    def _inside(self, call: OpCall, site: Array) -> Array:
        """Which coordinates lie in the output space."""
        inside: Array = (site >= 0) & (site < self._space(call))
        return inside

    def _handled(self, call: OpCall, rows: Array) -> Array:
        """Of the rows that meet an output those that are looked at."""
        del call
        return rows

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        """A number per site that is larger for a later one."""
        _, height, width = call.param("output_space")
        depth = call.param("output_space")[0]
        key: Array = ((batch * depth + site[:, 0]) * height + site[:, 1]) * width + site[:, 2]
        return key

    def _outputs(self, call: OpCall, indices: Array, rows: Array, keys: Array, sites: Array) -> tuple[Array, Array]:
        """Keys and coordinates (n, d, h, w) of the outputs, in order."""
        if call.param("sub_m"):
            return self._keys(call, indices[:, 0], indices[:, 1:]), indices
        distinct, first = np.unique(keys, return_index=True)
        return distinct, np.column_stack([indices[rows[first], 0], sites[first]])

    def _ordered(self, pairs: Array) -> Array:
        """The pairs of one offset in order."""
        return pairs

    def _count(self, call: OpCall, out_sites: Array) -> int:
        """num_act_out."""
        del call
        return len(out_sites)


def _rows_of(out_keys: Array, keys: Array) -> Array:
    """The row of each key among the outputs, −1 where it is none of them."""
    if not len(out_keys):
        return np.full(len(keys), -1)
    order = np.argsort(out_keys, kind="stable")
    place = np.searchsorted(out_keys, keys, sorter=order).clip(max=len(out_keys) - 1)
    rows = order[place]
    return np.where(out_keys[rows] == keys, rows, -1)
