"""One element of each output: an input site meets an output site where §3.2's formula has an integer solution."""

from collections.abc import Mapping
from functools import cache

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement

Site = tuple[int, ...]


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Pairs by offset in the order of input rows; output sites ascending, or the input sites of a sub_m one."""
    sites: list[Site] = [tuple(row) for row in call.array("indices").tolist()]
    names = ("filter_space", "stride", "pad", "dilation", "output_space")
    kernel, stride, pad, dilation, space = (call.param(name) for name in names)
    sub_m = bool(call.param("sub_m"))

    def met(site: Site, offset: Site) -> Site | None:
        """The output site that an input site meets at that place of the kernel."""
        found = [site[0]]
        for axis in range(3):
            place, rest = divmod(site[1 + axis] + pad[axis] - offset[axis] * dilation[axis], stride[axis])
            if rest or not 0 <= place < space[axis]:
                return None
            found.append(place)
        return tuple(found)

    @cache
    def meetings(k: int) -> list[tuple[int, Site]]:
        """Input rows, ascending, with the output sites they meet at offset k = (kd·KH + kh)·KW + kw."""
        rest, kw = divmod(k, kernel[2])
        kd, kh = divmod(rest, kernel[1])
        found = ((row, met(site, (kd, kh, kw))) for row, site in enumerate(sites))
        return [(row, out) for row, out in found if out is not None and (not sub_m or out in active())]

    @cache
    def active() -> frozenset[Site]:
        return frozenset(sites)

    @cache
    def outputs() -> list[Site]:
        if sub_m:
            return sites
        volume = kernel[0] * kernel[1] * kernel[2]
        return sorted({out for k in range(volume) for _, out in meetings(k)})

    @cache
    def rows() -> dict[Site, int]:
        return {site: row for row, site in enumerate(outputs())}

    def indice_pairs(k: int, side: int, place: int) -> int:
        found = meetings(k)
        if place >= len(found):
            return -1
        row, out = found[place]
        return row if side == 0 else rows()[out]

    return {
        "indice_pairs": indice_pairs,
        "out_indices": lambda row, axis: outputs()[row][axis],
        "indice_num": lambda k: len(meetings(k)),
        "num_act_out": lambda: len(outputs()),
    }
