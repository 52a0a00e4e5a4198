"""Implementations with one plausible mistake each; Plain has none, and every other overrides one step of it."""

from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall

from .._shared.sparse import derive_output_space
from .plain import Plain
from .wrong_geometry import WRONG_GEOMETRY
from .wrong_tables import WRONG_TABLES


class PlainDivision(Plain):
    """§3.2's formula alone: the integer division without the test that nothing is left over."""

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        site = np.fix(place / np.array(stride)).astype(np.int64)
        return site, np.ones(site.shape, np.bool_)


class ReciprocalDivision(Plain):
    """A multiplication by the float32 reciprocal of the stride, an output where the product is whole."""

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        reciprocal = np.float32(1) / np.array(stride, np.float32)
        quotient = place.astype(np.float32) * reciprocal
        return quotient.astype(np.int64), quotient == np.floor(quotient)


class LastOutputDropped(Plain):
    """The last distinct output taken for the mark of invalid slots, as if there always were one."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        return (keys, sites) if args[0].param("sub_m") else (keys[:-1], sites[:-1])


class SubMAsDefault(Plain):
    """sub_m taken for the default mode: every output counts, not the active ones alone."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        _, indices, rows, keys, sites = args
        distinct, first = np.unique(keys, return_index=True)
        return distinct, np.column_stack([indices[rows[first], 0], sites[first]])


class SubMSorted(Plain):
    """sub_m with its outputs in ascending order instead of the order of the inputs."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        order = np.argsort(keys, kind="stable")
        return keys[order], sites[order]


class SubMCentred(Plain):
    """sub_m with a pad of half the kernel, whatever pad is given."""

    def _pad(self, call: OpCall) -> Any:
        centred = tuple(length // 2 for length in call.param("filter_space"))
        return centred if call.param("sub_m") else super()._pad(call)


class SpaceDerived(Plain):
    """The output space derived from the pad, although it is given."""

    def _space(self, call: OpCall) -> Any:
        names = ("input_space", "filter_space", "stride", "pad", "dilation")
        return np.minimum(derive_output_space(*map(call.param, names)), super()._space(call))


class FirstSeenOrder(Plain):
    """Outputs in the order in which they are met first."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        call, _, _, keys, _ = args
        distinct, sites = super()._outputs(*args)
        if call.param("sub_m"):
            return distinct, sites
        _, first = np.unique(keys, return_index=True)
        order = np.argsort(first)
        return distinct[order], sites[order]


class HeightFastest(Plain):
    """Outputs sorted with height and width exchanged."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        depth, height, width = call.param("output_space")
        key: Array = ((batch * depth + site[:, 0]) * width + site[:, 2]) * height + site[:, 1]
        return key


class BatchIgnored(Plain):
    """Sites of different samples taken for one."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, np.zeros_like(batch), site)


class NarrowKeys(Plain):
    """Linear indices in int32, which wrap where the space passes 2^31 cells."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, batch, site).astype(np.int32)


class FloatKeys(Plain):
    """Linear indices in float32, which merge neighbours where the space passes 2^24 cells."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, batch, site).astype(np.float32)


class DepthFastest(Plain):
    """Kernel offsets numbered from the depth on instead of from the width on."""

    def _offsets(self, call: OpCall) -> list[tuple[int, ...]]:
        return sorted(super()._offsets(call), key=lambda offset: offset[::-1])


class DilationIgnored(Plain):
    """Neighbouring offsets taken for neighbouring cells."""

    def _dilation(self, call: OpCall) -> Any:
        return (1,) * len(call.param("dilation"))


class ByOutputRow(Plain):
    """The pairs of an offset ascending by output row instead of by input row."""

    def _ordered(self, pairs: Array) -> Array:
        return pairs[:, np.argsort(pairs[1], kind="stable")]


class ZeroTails(Plain):
    """Zeros instead of −1 behind the pairs of an offset."""

    unused = 0


class CountsTheBuffer(Plain):
    """num_act_out taken from the room in out_indices."""

    def _count(self, call: OpCall, out_sites: Array) -> int:
        del out_sites
        return len(call.array("out_indices"))


_MISTAKES = {
    "plain_division": PlainDivision(),
    "reciprocal_division": ReciprocalDivision(),
    "last_output_dropped": LastOutputDropped(),
    "sub_m_as_default": SubMAsDefault(),
    "sub_m_sorted": SubMSorted(),
    "sub_m_centred": SubMCentred(),
    "space_derived": SpaceDerived(),
    "first_seen_order": FirstSeenOrder(),
    "height_fastest": HeightFastest(),
    "batch_ignored": BatchIgnored(),
    "narrow_keys": NarrowKeys(),
    "float_keys": FloatKeys(),
    "depth_fastest": DepthFastest(),
    "dilation_ignored": DilationIgnored(),
    "by_output_row": ByOutputRow(),
    "zero_tails": ZeroTails(),
    "counts_the_buffer": CountsTheBuffer(),
}

MUTANTS = (
    *(Mutant(name, mistake.__doc__ or "", mistake.run) for name, mistake in _MISTAKES.items()),
    *WRONG_GEOMETRY,
    *WRONG_TABLES,
)
