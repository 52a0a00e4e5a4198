"""Operators that move frames in time, every group of channels by a shift of its own: all that both directions share.

N batches of T frames, C channels in G groups, HW pixels; § is a section of the document of both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, Mutant, OpCall, Status, axis, c_api, checks, mistakes, narrowing, space
from mluops_gtest.authoring.copy_of import CopyOf, define_copies, wrong_copies
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.suspects import Suspect, misread

from .bit_patterns import KINDS, BitPatterns
from .refusals import Refusals, first_status, tensors_of

Values = Literal["full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only"]
FLOATS: Final = (DType.FLOAT, DType.HALF)
_SHAPE: Final = "[N, T, C, HW]"
_SMALLEST: Final = -(1 << 31)


def _by_channel(shifts: Array, channels: int) -> Array:
    """int64 [N, C]: group g is the contiguous channels from g·C/G on (§1.2)."""
    return shifts[:, np.arange(channels) * shifts.shape[1] // channels].astype(np.int64)


def _moved(values: Array, by: Array, origin: Callable[[Array, int], Array] = lambda frames, _: frames) -> CopyOf:
    """The frames of values [N, T, C, HW], those of every channel moved by int64 [N, C] to larger t.

    Frame t is frame t − s, and +0 where there is none; `origin` makes another frame of t − s and T.
    """
    batches, frames, channels, pixels = values.shape
    source = origin(np.arange(frames)[:, None] - by[:, None], frames)
    places = np.where((source >= 0) & (source < frames), source * channels + np.arange(channels), -1)
    return CopyOf(values.reshape(batches, -1, pixels), places.reshape(batches, -1), values.shape)


def _along(axis_: int) -> Callable[[Array, Array, Array], Array]:
    """By the shifts of the first channel, or batch, along another axis."""

    def read(x: Array, s: Array, by: Array) -> Array:
        turned = x.swapaxes(1, axis_)
        others = by[:1] if axis_ == 0 else _by_channel(s, x.shape[1])
        return _moved(turned, np.broadcast_to(others, (len(turned), turned.shape[2]))).copied().swapaxes(1, axis_)

    return read


# By words the output of values [N, T, C, HW], shifts [N, G] and those of channels.
# Shifts that pass through float32 are no mistake that shows: what it rounds is larger than any T.
_READINGS: Final[Mapping[str, Callable[[Array, Array, Array], Array]]] = {
    "frames come back at the other end": lambda x, _, by: _moved(x, by, lambda t, n: t % n).copied(),
    "vacated frames repeat the edge": lambda x, _, by: _moved(x, by, lambda t, n: t.clip(0, n - 1)).copied(),
    "shifts are ignored": lambda x, *_: x,
    "negative shifts are ignored": lambda x, _, by: _moved(x, np.maximum(by, 0)).copied(),
    "shifts by all frames leave them where they are": lambda x, _, by: _moved(
        x, np.where(abs(by) == x.shape[1], 0, by)
    ).copied(),
    "shifts are taken modulo the frames": lambda x, _, by: _moved(x, np.fmod(by, x.shape[1])).copied(),
    "every batch is shifted as the first": lambda x, _, by: _moved(x, np.broadcast_to(by[:1], by.shape)).copied(),
    "groups are interleaved": lambda x, s, _: _moved(x, s[:, np.arange(x.shape[2]) % s.shape[1]]).copied(),
    "a group has as many channels as there are groups": lambda x, s, _: _moved(
        x, s[:, np.minimum(np.arange(x.shape[2]) // s.shape[1], s.shape[1] - 1)]
    ).copied(),
    "shifts are read as [G, N]": lambda x, s, _: _moved(
        x, _by_channel(s.reshape(s.shape[::-1]).T, x.shape[2])
    ).copied(),
    "values are read as [N, C, T, HW]": lambda x, s, _: _moved(
        x.reshape(len(x), x.shape[2], x.shape[1], -1), _by_channel(s, x.shape[1])
    ).copied(),
    "channels are shifted instead of frames": _along(2),
    "batches are shifted instead of frames": _along(0),
}


@dataclass(frozen=True, slots=True)
class TinShift:
    """From the tensor `fed` to `output`."""

    fed: str
    output: str

    def operator(self, direction: str, number: int, *, summary: str, reversed_words: str) -> mg.Operator:
        """Forward or backward; the words are those for a shift in the other direction."""

        def shape(call: OpCall) -> tuple[int, ...]:
            return (*call.tensor(self.fed).dims, call.tensor("shifts").dims[1])

        def fits(call: OpCall) -> bool:
            return shape(call)[2] % shape(call)[4] == 0

        readings = {reversed_words: lambda x, _, by: _moved(x, -by).copied(), **_READINGS}
        name, symbols = f"tin_shift_{direction}", {"batches": "N", "frames": "T", "channels": "C", "pixels": "HW"}
        shifts = mg.TensorSpec("shifts", "[N, G]", (DType.INT32,), None)
        operator = mg.Operator(
            name=name,
            op_type=(name.upper(), number),
            summary=summary,
            # Nobody looks at layouts. §1.4 sets no range: a shift by T and more leaves zeros.
            inputs=(mg.TensorSpec(self.fed, _SHAPE, FLOATS, None), shifts),
            # A pure copy (§1.5.1): diff3 = 0.
            outputs=(mg.OutputSpec(self.output, _SHAPE, dict.fromkeys(FLOATS, mg.exact()), None),),
            # §1.1 calls G "group_size" and T "num_segments", which mmcv calls G.
            axes={**{one: axis(of, of=self.fed) for one, of in symbols.items()}, "groups": axis("G", of="shifts")},
            # In normative order; neither the device nor a layout is checked.
            checks=(
                checks.handle("§3.5"),
                checks.descriptors(doc="§3.5"),
                checks.ranks(doc="§3.5"),
                checks.require("channels", lambda call: shape(call)[2] != 0, "there must be channels", "§1.1"),
                checks.require("groups", lambda call: shape(call)[4] != 0, "there must be groups", "§1.1"),
                checks.require("whole_groups", fits, "groups must divide channels", "§1.2"),
                checks.dims(*(f"{self.output}.{number}" for number in range(4)), "shifts.0", doc="§3.5"),
                checks.strided(doc="§1.4"),
                checks.dtypes("shifts", self.fed, f"{self.output} = {self.fed}", doc="§1.4"),
                checks.require("batches", lambda call: shape(call)[0] != 0, "there must be batches", "§1.1"),
                checks.require("pixels", lambda call: shape(call)[3] != 0, "there must be pixels", "§1.1"),
                checks.large(doc="released"),
                # §1.1: T alone may be 0.
                checks.empty(self.fed, doc="§1.1"),
                checks.pointers(doc="§3.5"),
            ),
            subsumed={f"{self.output}_large": f"{self.output} has the dims of {self.fed}, which is asked first"},
            definition=define_copies(self.output, self.copies, row="clip"),
            kernel=self.kernel,
            suspects={words: self._as_read(read) for words, read in readings.items()},
            recipes={"shifted": self.shifted},
            space=self._space(),
            reductions={"groups": self._fewer(2), "channels": self._fewer(3)},
            c_api=c_api.c_function(f"mluOpTinShift{direction.capitalize()}"),
            exact=self.elements,
            torch_kernel=self.torch_kernel,
        )
        return replace(operator, mutants=(*mistakes.suspected(operator), *self._mutants()))

    def copies(self, call: OpCall) -> CopyOf:
        """Zeros are the operator's work."""
        values, shifts = call.arrays(self.fed, "shifts")
        return _moved(values, _by_channel(shifts, values.shape[2]))

    def _as_read(self, read: Callable[[Array, Array, Array], Array]) -> Suspect:
        def suspect(call: OpCall) -> Mapping[str, Array]:
            values, shifts = call.array(self.fed), call.array("shifts").astype(np.int64)
            out = np.ascontiguousarray(read(values, shifts, _by_channel(shifts, values.shape[2])))
            return {self.output: out.reshape(values.shape)}

        return suspect

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
        """Check the call, then copy the frames that stay of all groups with the same shift, and clear the others."""
        if (early := first_status(self._refusals(call))) is not None:
            return early
        values, result, shifts = call.arrays(self.fed, self.output, "shifts")
        batches, frames = values.shape[:2]
        # [N, G, T, elements of a group].
        sources, targets = (
            one.reshape(batches, frames, shifts.shape[1], -1).swapaxes(1, 2) for one in (values, result)
        )
        clipped = shifts.clip(-frames, frames)
        for by in np.unique(clipped).tolist():
            alike = clipped == by
            moved = np.zeros_like(sources[alike])
            moved[:, max(0, by) : frames + min(0, by)] = sources[alike][:, max(0, -by) : frames - max(0, by)]
            targets[alike] = moved
        return Status.SUCCESS

    def _refusals(self, call: OpCall) -> Refusals:
        args = tensors_of(call)
        yield call.handle is None or [len(arg.dims) for arg in args] != [4, 2, 4], Status.BAD_PARAM
        values, shifts, result = args
        (batches, frames, channels, pixels), groups = values.dims, shifts.dims[1]
        yield 0 in (channels, groups) or channels % groups != 0, Status.BAD_PARAM
        yield result.dims != values.dims or shifts.dims[0] != batches, Status.BAD_PARAM
        yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
        yield shifts.dtype is not DType.INT32 or values.dtype not in (DType.HALF, DType.FLOAT), Status.BAD_PARAM
        yield result.dtype is not values.dtype or 0 in (batches, pixels), Status.BAD_PARAM
        yield any(arg.desc.count >= 1 << 31 for arg in args), Status.NOT_SUPPORTED
        yield frames == 0, Status.SUCCESS
        yield any(arg.null for arg in args), Status.BAD_PARAM

    # With torch: a gather along time, and zeros where it leaves it.

    def torch_kernel(self, _: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
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

    def _mutants(self) -> tuple[Mutant, ...]:
        """Mistakes beside those of reading; each is right but for its name."""
        output, right = self.output, self.kernel

        def by_other(change: Callable[[Array], Array]) -> Callable[[OpCall], Status]:
            read = misread(shifts=lambda shifts: change(shifts.astype(np.int64)).astype("<i4"))
            return lambda call: right(read(call))

        def masked(call: OpCall) -> None:
            """What comes from no frame is 0 times the nearest one."""
            values, shifts = call.arrays(self.fed, "shifts")
            edge = _moved(values, _by_channel(shifts, values.shape[2]), lambda t, n: t.clip(0, n - 1)).copied()
            with np.errstate(all="ignore"):
                call.array(output)[...] = np.where(self.copies(call).is_copied, edge, edge * edge.dtype.type(0))

        def odd_pixel(call: OpCall) -> Any:
            """The last pixel of a frame that has an odd number of halves."""
            values = call.array(output)
            return (..., slice(-1, None)) if values.itemsize == 2 and values.shape[3] % 2 else slice(0)

        return (
            *(
                Mutant(f"shifts_in_{name}", f"keeps shifts in {words}", by_other(narrow))
                for name, words, narrow in narrowing.NARROW
                if name.startswith("int")
            ),
            # −2^31 has a magnitude that no int32 holds.
            Mutant("smallest_is_none", "takes −2^31 for no shift", by_other(lambda s: np.where(s == _SMALLEST, 0, s))),
            Mutant("shifts_up_to_7", "moves by 7 frames at most", by_other(lambda shifts: shifts.clip(-7, 7))),
            *wrong_copies(output, self.copies, row="clip"),
            mistakes.spoilt("masked", "multiplies what leaves the frames with 0", right, masked),
            mistakes.left("odd_half_left", "copies halves in pairs", right, output, odd_pixel),
            mistakes.left(
                "last_channel_left", "does not write the last channel", right, output, lambda _: np.s_[:, :, -1:]
            ),
            mistakes.left("last_frame_left", "does not write the last frame", right, output, lambda _: np.s_[:, -1:]),
            *mistakes.tails_left(right, output, 1, "frames", (4, 64)),
            *mistakes.tails_left(right, output, 2, "channels", (4, 64)),
            *mistakes.tails_left(right, output, 3, "pixels", (16, 64)),
            *(mistakes.part_left(right, output, number, what) for number, what in ((2, "channels"), (3, "pixels"))),
            *(
                mistakes.first_length_kept(right, output, number, what)
                for number, what in ((1, "frames"), (2, "channels"))
            ),
            mistakes.input_cleared(right, self.fed),
        )

    # Recipes, fuzzing, minimising.

    def shifted(
        self,
        draw: mg.Draw,
        params: mg.Params,
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
    ) -> mg.RecipeOutput:
        """Values of any bits; the shifts that are listed, again and again, or drawn up to `most`, by default T + 1."""
        if channels % groups or len(shifts) > batches * groups:
            raise ValueError("groups must divide channels, and no more shifts be listed than there are")
        shape, most = (batches, frames, channels, pixels), most or frames + 1
        by = draw.stream("shifts").integers(-most, most + 1, (batches, groups)).astype("<i4")
        if shifts:
            by = np.resize(np.array(shifts, "<i4"), (batches, groups))
        else:
            # One shift to each side that leaves frames; the first and the last frame are seen by it.
            by.flat[-1], by.flat[0] = -min(2, frames - 1), min(1, frames - 1)
        drawn = BitPatterns(self.fed, "sorts", KINDS).drawn(draw, dtype, shape, values)
        return mg.RecipeOutput({self.fed: drawn, "shifts": by}, params, outputs={self.output: shape})

    def _space(self) -> space.Space:
        """Every length, and shifts of all sizes."""

        def draw(at: Mapping[str, Any]) -> space.Drawn | None:
            data = {name: at[name] for name in ("batches", "frames", "pixels", "groups", "values")}
            data["channels"] = at["groups"] * at["width"]
            if at["shifts"] == "extreme":
                data["shifts"] = (1, _SMALLEST, -1, -1 - _SMALLEST)[: at["batches"] * at["groups"]]
            return space.Drawn("shifted", {}, data, at["dtype"])

        lengths = {"batches": 65, "frames": 257, "groups": 129, "width": 65, "pixels": 1025}
        return space.Space(
            axes={
                "dtype": space.Choice(tuple(one.value for one in FLOATS)),
                **{name: space.Sizes(1, most) for name, most in lengths.items()},
                "shifts": space.Choice(("drawn", "extreme")),
                "values": space.Choice(get_args(Values)),
            },
            draw=draw,
            elements=lambda at: at["batches"] * (2 * at["frames"] * at["width"] * at["pixels"] + 1) * at["groups"],
        )

    def _fewer(self, number: int) -> Reduction:
        """Of values [N, T, G, C/G, HW] fewer along that axis: groups go with their shifts, channels from all alike."""

        def dims(call: OpCall) -> tuple[int, ...]:
            (batches, frames, channels, pixels), (_, groups) = (call.tensor(one).dims for one in (self.fed, "shifts"))
            return batches, frames, groups, channels // groups, pixels

        def without(call: OpCall, start: int, stop: int) -> mg.RecipeOutput:
            values, shifts = call.arrays(self.fed, "shifts")
            left = without_rows(values.reshape(dims(call)), start, stop, number)
            left = left.reshape(*values.shape[:2], -1, values.shape[3])
            by = without_rows(shifts, start, stop, 1) if number == 2 else shifts
            return changed(call, {self.fed: left, "shifts": by}, outputs={self.output: left.shape})

        return Reduction(lambda call: dims(call)[number], without)
