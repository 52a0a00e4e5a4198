"""What cases are declared for in size, and the sites as a kernel sees them that loses one index of it."""

from collections.abc import Callable, Mapping

from mluops_gtest.authoring import Array, OpCall, SizedAxis

# So far outside that no window reaches it: the site is in no pair, and makes no output.
_NOWHERE = -(2**30)


def _site_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    sites = call.array("indices").copy()
    sites[index, 1:] = _NOWHERE
    return {"indices": sites}


def _coordinate_lost(column: int) -> Callable[[OpCall, int], Mapping[str, Array]]:
    def without(call: OpCall, index: int) -> Mapping[str, Array]:
        sites = call.array("indices").copy()
        sites[sites[:, column] == index, 1:] = _NOWHERE
        return {"indices": sites}

    return without


def _along(column: int) -> SizedAxis:
    """The cells along one axis of the input space: d, h, w are columns 1, 2, 3 of a site."""
    return SizedAxis(
        "indices", count=lambda call: int(call.param("input_space")[column - 1]), without=_coordinate_lost(column)
    )


SIZES: Mapping[str, SizedAxis] = {
    "sites": SizedAxis("indices", without=_site_lost),
    "outputs": SizedAxis("out_indices"),
    "offsets": SizedAxis("indice_num"),
    "batches": SizedAxis("indices", count=lambda call: int(call.param("batch")), without=_coordinate_lost(0)),
    "depth": _along(1),
    "height": _along(2),
    "width": _along(3),
}
