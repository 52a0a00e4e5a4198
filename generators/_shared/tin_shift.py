"""Operators that move frames in time, every group of channels by a shift of its own: all that both directions share.

N batches of T frames, C channels in G groups, HW pixels; § is a section of the document of both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Check,
    Draw,
    DType,
    OpCall,
    OutputSpec,
    Params,
    RecipeOutput,
    Status,
    TensorSpec,
    axis,
    checks,
    exact,
)
from mluops_gtest.authoring.copy_of import CopyOf
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.reductions import Reduction, changed
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space
from mluops_gtest.authoring.suspects import Suspect

from .bit_patterns import KINDS, BitPatterns

Values = Literal["full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only"]
# (the frame that each element comes from, the number of frames) → another one; none where it is outside.
Pick = Callable[[Array, int], Array]

FLOATS: Final = (DType.FLOAT, DType.HALF)
_SHAPE: Final = "[N, T, C, HW]"


def moved(values: Array, by: Array, pick: Pick = lambda frames, _: frames) -> CopyOf:
    """The frames of values [N, T, C, HW], those of every channel moved by int64 [N, C] to larger t."""
    batches, frames, channels, pixels = values.shape
    origin = pick(np.arange(frames)[:, None] - by[:, None], frames)
    source = np.where((origin >= 0) & (origin < frames), origin * channels + np.arange(channels), -1)
    return CopyOf(values.reshape(batches, -1, pixels), source.reshape(batches, -1), values.shape)


@dataclass(frozen=True, slots=True)
class TinShift:
    """From the tensor `fed` to `output`."""

    fed: str
    output: str

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The declarations; nobody looks at layouts."""
        # §1.4 sets no range: a shift by T and more leaves zeros.
        return TensorSpec(self.fed, _SHAPE, FLOATS, None), TensorSpec("shifts", "[N, G]", (DType.INT32,), None)

    @property
    def outputs(self) -> tuple[OutputSpec, ...]:
        """A pure copy (§1.5.1): diff3 = 0."""
        return (OutputSpec(self.output, _SHAPE, dict.fromkeys(FLOATS, exact()), None),)

    @property
    def axes(self) -> Mapping[str, Any]:
        """Every length; §1.1 calls G "group_size" and T "num_segments", which mmcv calls G."""
        symbols = {"batches": "N", "frames": "T", "channels": "C", "pixels": "HW"}
        return {**{name: axis(one, of=self.fed) for name, one in symbols.items()}, "groups": axis("G", of="shifts")}

    @property
    def checks(self) -> tuple[Check, ...]:
        """In normative order; neither the device nor a layout is checked."""

        def shape(call: OpCall) -> tuple[int, ...]:
            return (*call.tensor(self.fed).dims, call.tensor("shifts").dims[1])

        return (
            checks.handle("§3.5"),
            checks.descriptors(doc="§3.5"),
            checks.ranks(doc="§3.5"),
            checks.require("channels", lambda call: shape(call)[2] != 0, "there must be channels", "§1.1"),
            checks.require("groups", lambda call: shape(call)[4] != 0, "there must be groups", "§1.1"),
            checks.require(
                "whole_groups", lambda call: shape(call)[2] % shape(call)[4] == 0, "groups must divide channels", "§1.2"
            ),
            checks.dims(*(f"{self.output}.{number}" for number in range(4)), "shifts.0", doc="§3.5"),
            checks.strided(doc="§1.4"),
            checks.dtypes("shifts", self.fed, f"{self.output} = {self.fed}", doc="§1.4"),
            checks.require("batches", lambda call: shape(call)[0] != 0, "there must be batches", "§1.1"),
            checks.require("pixels", lambda call: shape(call)[3] != 0, "there must be pixels", "§1.1"),
            checks.large(doc="released"),
            # §1.1: T alone may be 0.
            checks.empty(self.fed, doc="§1.1"),
            checks.pointers(doc="§3.5"),
        )

    @property
    def subsumed(self) -> Mapping[str, str]:
        """What no call reaches first."""
        return {f"{self.output}_large": f"{self.output} has the dims of {self.fed}, which is asked first"}

    def copies(self, call: OpCall) -> CopyOf:
        """Frame t is frame t − s, and +0 where there is none: zeros are the operator's work."""
        shifts = call.array("shifts").astype(np.int64)
        values = call.array(self.fed)
        # Group g is the contiguous channels from g·C/G on (§1.2).
        return moved(values, np.repeat(shifts, values.shape[2] // shifts.shape[1], axis=1))

    # Mistakes that kernels make about shifts, groups and axes.

    def _by(self, change: Callable[[Array, int], Array], pick: Pick = lambda frames, _: frames) -> Suspect:
        """With other shifts [N, C] of the channels, given the right ones and T, or other frames."""

        def shifted(call: OpCall) -> Mapping[str, Array]:
            values, shifts = call.arrays(self.fed, "shifts")
            by = np.repeat(shifts.astype(np.int64), values.shape[2] // shifts.shape[1], axis=1)
            return {self.output: moved(values, change(by, values.shape[1]), pick).copied()}

        return shifted

    def _grouped(self, group: Callable[[Array, int, int], Array]) -> Suspect:
        """With the group of a channel by another rule, given C and G."""

        def shifted(call: OpCall) -> Mapping[str, Array]:
            values, shifts = call.array(self.fed), call.array("shifts").astype(np.int64)
            channels, groups = values.shape[2], shifts.shape[1]
            return {self.output: moved(values, shifts[:, group(np.arange(channels), channels, groups)]).copied()}

        return shifted

    def _read(self, read: Callable[[Array, Array], tuple[Array, Array]], *back: int) -> Suspect:
        """Of values and shifts that are read as others; `back` puts the axes in order again."""

        def shifted(call: OpCall) -> Mapping[str, Array]:
            values, shifts = read(call.array(self.fed), call.array("shifts").astype(np.int64))
            out = moved(np.ascontiguousarray(values), shifts).copied().transpose(*(back or range(4)))
            return {self.output: np.ascontiguousarray(out).reshape(call.tensor(self.output).dims)}

        return shifted

    def suspects(self, reversed_words: str) -> Mapping[str, Suspect]:
        """Outputs by each mistake; the words for a shift in the other direction come first."""

        def repeated(shifts: Array, channels: int) -> Array:
            return shifts[:, np.arange(channels) * shifts.shape[1] // channels]

        return {
            reversed_words: self._by(lambda by, _: -by),
            "frames come back at the other end": self._by(lambda by, _: by, lambda frames, count: frames % count),
            "vacated frames repeat the edge": self._by(
                lambda by, _: by, lambda frames, count: np.clip(frames, 0, count - 1)
            ),
            "shifts are ignored": self._by(lambda by, _: 0 * by),
            "negative shifts are ignored": self._by(lambda by, _: np.maximum(by, 0)),
            "shifts by all frames leave them where they are": self._by(lambda by, t: np.where(abs(by) == t, 0, by)),
            "shifts are taken modulo the frames": self._by(np.fmod),
            "every batch is shifted as the first": self._by(lambda by, _: np.broadcast_to(by[:1], by.shape)),
            "groups are interleaved": self._grouped(lambda c, _, groups: c % groups),
            "a group has as many channels as there are groups": self._grouped(
                lambda c, _, groups: np.minimum(c // groups, groups - 1)
            ),
            "shifts are read as [G, N]": self._read(
                lambda x, s: (x, repeated(np.ascontiguousarray(s.reshape(s.shape[::-1]).T), x.shape[2]))
            ),
            "values are read as [N, C, T, HW]": self._read(
                lambda x, s: (x.reshape(x.shape[0], x.shape[2], x.shape[1], -1), repeated(s, x.shape[1]))
            ),
            # The first channel's, or batch's, shift for all: what moves is another axis.
            "channels are shifted instead of frames": self._read(
                lambda x, s: (x.swapaxes(1, 2), repeated(s, x.shape[1])), 0, 2, 1, 3
            ),
            "batches are shifted instead of frames": self._read(
                lambda x, s: (x.swapaxes(0, 1), np.broadcast_to(repeated(s, x.shape[2])[:1], x.shape[1:3])), 1, 0, 2, 3
            ),
        }

    def elements(self, call: OpCall) -> Mapping[str, ExactElement]:
        """§1.2 word by word."""
        values, shifts = call.arrays(self.fed, "shifts")

        def element(batch: int, frame: int, channel: int, pixel: int) -> Fraction | float:
            group = channel // (values.shape[2] // shifts.shape[1])
            origin = frame - int(shifts[batch, group])
            return fraction(values[batch, origin, channel, pixel]) if 0 <= origin < values.shape[1] else Fraction(0)

        return {self.output: element}

    # The kernel that the numpy backend runs: whole frames of a group at a time, as §3.1 copies them.

    def kernel(self, call: OpCall) -> Status:
        """Check the call, then copy the frames of each group that stay, and clear the others."""
        refused = self._refusal(call)
        if refused is not None:
            return refused
        values, result, shifts = call.array(self.fed), call.array(self.output), call.array("shifts")
        frames, width = values.shape[1], values.shape[2] // shifts.shape[1]
        for batch, group in np.ndindex(*shifts.shape):
            by = max(-frames, min(frames, int(shifts[batch, group])))
            channels = slice(group * width, (group + 1) * width)
            kept, vacated = (
                (slice(by, None), slice(0, by)) if by > 0 else (slice(0, frames + by), slice(frames + by, None))
            )
            result[batch, vacated, channels] = 0
            result[batch, kept, channels] = values[batch, max(0, -by) : frames - max(0, by), channels]
        return Status.SUCCESS

    def _refusal(self, call: OpCall) -> Status | None:
        values, shifts, result = call.inputs[self.fed], call.inputs["shifts"], call.outputs[self.output]
        if call.handle is None or values is None or shifts is None or result is None:
            return Status.BAD_PARAM
        if len(values.dims) != 4 or len(shifts.dims) != 2:
            return Status.BAD_PARAM
        (batches, frames, channels, pixels), groups = values.dims, shifts.dims[1]
        if 0 in (channels, groups) or channels % groups or result.dims != values.dims or shifts.dims[0] != batches:
            return Status.BAD_PARAM
        if any(arg.desc.is_strided for arg in (values, shifts, result)):
            return Status.NOT_SUPPORTED
        if shifts.dtype is not DType.INT32 or values.dtype not in (DType.HALF, DType.FLOAT):
            return Status.BAD_PARAM
        if result.dtype is not values.dtype or 0 in (batches, pixels):
            return Status.BAD_PARAM
        if values.desc.count >= 1 << 31 or shifts.desc.count >= 1 << 31:
            return Status.NOT_SUPPORTED
        if frames == 0:
            return Status.SUCCESS
        return Status.BAD_PARAM if values.null or shifts.null or result.null else None

    # With torch: a gather along time, and zeros where it leaves it.

    def torch_kernel(self, call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG002 - all operators are called alike
        """Write the output, by the bits of the elements."""
        import torch

        # Integers of the same size: NaN payloads and −0 pass unchanged.
        bits = torch.int16 if inputs[self.fed].dtype == torch.float16 else torch.int32
        values, shifts = inputs[self.fed].view(bits), inputs["shifts"].long()
        frames = values.shape[1]
        by = shifts.repeat_interleave(values.shape[2] // shifts.shape[1], dim=1)
        origin = torch.arange(frames)[:, None] - by[:, None]
        gathered = torch.gather(values, 1, origin.clamp(0, frames - 1)[..., None].expand(values.shape))
        outside = (origin < 0) | (origin >= frames)
        outputs[self.output].view(bits).copy_(gathered.masked_fill(outside[..., None], 0))

    # Recipes, fuzzing, minimising.

    def shifted(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        batches: int = 2,
        frames: int = 5,
        channels: int = 6,
        pixels: int = 3,
        groups: int = 3,
        shifts: tuple[int, ...] = (),
        most: int = 0,
        values: Values = "full",
    ) -> RecipeOutput:
        """Values of any bits; the shifts that are listed, again and again, or drawn up to `most`, by default T + 1."""
        if channels % groups or len(shifts) > batches * groups:
            raise ValueError("groups must divide channels, and no more shifts be listed than there are")
        shape = (batches, frames, channels, pixels)
        most = most or frames + 1
        by = draw.stream("shifts").integers(-most, most + 1, (batches, groups)).astype("<i4")
        if shifts:
            by = np.resize(np.array(shifts, "<i4"), (batches, groups))
        else:
            # One shift to each side that leaves frames; the first and the last frame are seen by it.
            by.flat[-1], by.flat[0] = -min(2, frames - 1), min(1, frames - 1)
        drawn = BitPatterns(self.fed, "sorts", KINDS).drawn(draw, dtype, shape, values)
        return RecipeOutput({self.fed: drawn, "shifts": by}, params, outputs={self.output: shape})

    @property
    def space(self) -> Space:
        """Every length, and shifts of all sizes."""
        lengths = ("batches", "frames", "pixels", "groups")
        extremes = (1, -(1 << 31), -1, (1 << 31) - 1)

        def draw(at: Mapping[str, Any]) -> Drawn | None:
            data = {name: at[name] for name in (*lengths, "values")}
            data["channels"] = at["groups"] * at["width"]
            if at["shifts"] == "extreme":
                data["shifts"] = extremes[: at["batches"] * at["groups"]]
            return Drawn("shifted", {}, data, at["dtype"])

        return Space(
            axes={
                "dtype": Choice(tuple(one.value for one in FLOATS)),
                "batches": Sizes(1, 65),
                "frames": Sizes(1, 257),
                "groups": Sizes(1, 129),
                "width": Sizes(1, 65),
                "pixels": Sizes(1, 1025),
                "shifts": Choice(("drawn", "extreme")),
                "values": Choice(get_args(Values)),
            },
            draw=draw,
            elements=lambda at: at["batches"] * (2 * at["frames"] * at["width"] * at["pixels"] + 1) * at["groups"],
        )

    @property
    def reductions(self) -> Mapping[str, Reduction]:
        """Groups go with their channels, and channels from all groups alike."""

        def without(call: OpCall, cut: Callable[[Array], Array], shifts: Array) -> RecipeOutput:
            values, groups = call.array(self.fed), call.array("shifts").shape[1]
            batches, frames, _, pixels = values.shape
            # [N, T, G, C/G, HW]
            left = cut(values.reshape(batches, frames, groups, -1, pixels)).reshape(batches, frames, -1, pixels)
            return changed(call, {self.fed: left, "shifts": shifts}, outputs={self.output: left.shape})

        return {
            "groups": Reduction(
                lambda call: call.tensor("shifts").dims[1],
                lambda call, start, stop: without(
                    call,
                    lambda values: np.delete(values, slice(start, stop), 2),
                    np.delete(call.array("shifts"), slice(start, stop), 1),
                ),
            ),
            "channels": Reduction(
                lambda call: call.tensor(self.fed).dims[2] // call.tensor("shifts").dims[1],
                lambda call, start, stop: without(
                    call, lambda values: np.delete(values, slice(start, stop), 3), call.array("shifts")
                ),
            ),
        }
