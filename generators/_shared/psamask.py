"""Operators that lay the mask of every pixel over the image around it, or take it off again: all that both share.

A mask is h_mask × w_mask values of one pixel, and lies with its centre on that pixel. N images of H × W pixels; § is a
section of the document of both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, Layout, OpCall, Status, checks, copy_of, mistakes, space, suspects
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction

from .bit_patterns import KINDS, BitPatterns
from .refusals import Refusals, first_status, tensors_of

Values = Literal["full", "wide", "any_bits", "denormal", "nan", "inf", "nan_inf", "nan_only"]
COLLECT: Final = 0
DISTRIBUTE: Final = 1


class Lengths(NamedTuple):
    """The image and the mask."""

    height: int
    width: int
    h_mask: int
    w_mask: int


def centred(at: Array, offset: Array, mask: int, _: int) -> Array:
    """§3.1.1: the centre is ⌊(mask − 1) / 2⌋, so an even mask reaches one further down and right."""
    return at + offset - (mask - 1) // 2


@dataclass(frozen=True, slots=True)
class Reading:
    """How a call is understood; as it stands, rightly."""

    # (the pixel's row or column, the place in the mask, lengths of mask and image) → row or column of the cell.
    window: Callable[[Array, Array, int, int], Array] = centred
    # (i, j) → the channel of the mask; (a, b) → the cell; (h, w) → the pixel, where maps have it.
    channel: Callable[[Array, Array, Lengths], Array] = lambda i, j, n: i * n.w_mask + j
    cell: Callable[[Array, Array, Lengths], Array] = lambda a, b, n: a * n.width + b
    pixel: Callable[[Array, Array, Lengths], Array] = lambda h, w, n: h * n.width + w
    lengths: Callable[[Lengths], Lengths] = lambda n: n
    psa_type: Callable[[int], int] = lambda of_call: of_call
    # Places of (pixel, channel) in the masks of an image, and of (pixel, cell) in its map.
    masks_are_channels_first: bool = False
    is_exchanged: bool = False


RIGHT: Final = Reading()


def meeting(lengths: Lengths, psa_type: int, reading: Reading = RIGHT) -> tuple[Array, Array]:
    """The places of an image's masks and of its map that hold the same value, [n] each."""
    own, size = reading.lengths(lengths), lengths.height * lengths.width

    def along(length: int, mask: int) -> tuple[Array, Array, Array]:
        cells = reading.window(np.arange(length)[:, None], np.arange(mask), mask, length)
        at, offset = np.nonzero((cells >= 0) & (cells < length))
        return at, offset, cells[at, offset]

    h, i, a = (one[:, None] for one in along(own.height, own.h_mask))
    w, j, b = along(own.width, own.w_mask)
    pixel, channel = (h * own.width + w).ravel(), reading.channel(i, j, own).ravel()
    cell, place = reading.cell(a, b, own).ravel(), reading.pixel(h, w, own).ravel()
    if reading.is_exchanged:
        channel, cell = cell, channel
    channels = own.h_mask * own.w_mask
    masks = channel * size + pixel if reading.masks_are_channels_first else pixel * channels + channel
    # §3.1.2: DISTRIBUTE is COLLECT with the two H·W of the map exchanged.
    maps = place * size + cell if reading.psa_type(psa_type) == COLLECT else cell * size + place
    inside = (channel < channels) & (cell < size) & (place < size)
    return masks[inside], maps[inside]


def _clipped(at: Array, offset: Array, mask: int, _: int) -> Array:
    """The mask is counted from the corner of the window that is left."""
    first = at - (mask - 1) // 2
    return np.where(offset < mask + np.minimum(first, 0), np.maximum(first, 0) + offset, -1)


def _whole(at: Array, offset: Array, mask: int, length: int) -> Array:
    first = at - (mask - 1) // 2
    return np.where((first >= 0) & (first + mask <= length), first + offset, -1)


# By words what is read.
_READINGS: Final[Mapping[str, Reading]] = {
    "COLLECT and DISTRIBUTE are exchanged": Reading(psa_type=lambda mode: DISTRIBUTE - mode),
    "every call is COLLECT": Reading(psa_type=lambda _: COLLECT),
    "masks have channels j·h_mask + i": Reading(channel=lambda i, j, n: j * n.h_mask + i),
    "maps have channels b·H + a": Reading(cell=lambda a, b, n: b * n.height + a),
    "maps have channels a·H + b": Reading(cell=lambda a, b, n: a * n.height + b),
    "pixels of maps are transposed": Reading(pixel=lambda h, w, n: w * n.height + h),
    "the centre is mask / 2": Reading(lambda at, offset, mask, _: at + offset - mask // 2),
    "the centre is (mask + 1) / 2": Reading(lambda at, o, mask, _: at + o - (mask + 1) // 2),
    "masks are mirrored": Reading(lambda at, offset, mask, _: at - offset + (mask - 1) // 2),
    "masks are counted from the clipped corner": Reading(_clipped),
    "windows that leave the image are left out": Reading(_whole),
    "windows come back at the other side": Reading(lambda at, o, mask, n: centred(at, o, mask, n) % n),
    "h_mask and w_mask are exchanged": Reading(lengths=lambda n: n._replace(h_mask=n.w_mask, w_mask=n.h_mask)),
    "masks are read as NCHW": Reading(masks_are_channels_first=True),
    "channels of masks and maps are exchanged": Reading(is_exchanged=True),
}


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Psamask:
    """Forward fills `maps`, of H·W channels, from `masks`, of h_mask·w_mask channels; backward masks from maps."""

    masks: str
    maps: str
    is_forward: bool

    @property
    def fed(self) -> str:
        """The input."""
        return self.masks if self.is_forward else self.maps

    @property
    def output(self) -> str:
        return self.maps if self.is_forward else self.masks

    def operator(self, summary: str) -> mg.Operator:
        """Forward or backward."""
        direction, number = ("forward", 134658) if self.is_forward else ("backward", 134659)
        name, title = f"psamask_{direction}", f"Psamask{direction.capitalize()}"
        shapes = {self.masks: "[N, H, W, h_mask·w_mask]", self.maps: "[N, H, W, H·W]"}
        names = ("h_mask", "w_mask", "psa_type")
        fields = tuple(mg.ParamField(one, number, label="required") for number, one in enumerate(names, 1))
        # psa_type comes before the tensors, though it is the last field of files.
        arguments = (*scalar("psa_type"), *tensor(self.fed), *scalar("h_mask", "w_mask"), *tensor(self.output))
        both = (self.output, self.fed)
        operator = mg.Operator(
            name=name,
            op_type=(name.upper(), number),
            summary=summary,
            # mmcv's tensors are NCHW: the same numbers, with the channels moved.
            inputs=(mg.TensorSpec(self.fed, shapes[self.fed], (DType.FLOAT,), (Layout.NHWC,)),),
            # A pure copy (§1.5.1): diff3 = 0. §3.2.1: the operator clears it itself, which mmcv leaves to its caller.
            outputs=(mg.OutputSpec(self.output, shapes[self.output], {DType.FLOAT: mg.exact()}, (Layout.NHWC,)),),
            params=mg.ParamMessage(f"{name}_param", number, f"{title}Param", fields),
            axes={what: mg.axis(one, of=self.fed) for what, one in (("batches", "N"), ("height", "H"), ("width", "W"))},
            sizes=self._sizes(),
            # The device is not checked. The library makes BAD_PARAM of strides and large sizes, where the header has
            # NOT_SUPPORTED.
            checks=(
                checks.handle("§3.4"),
                checks.descriptors(*both, doc="§3.4"),
                checks.ranks(*both, doc="§1.4"),
                checks.layouts(*both, doc="§3.4"),
                checks.dtypes(*both, doc="§3.4"),
                checks.dims(*(f"{self.output}.{one}" for one in range(3)), doc="§3.4"),
                checks.dims(f"{self.masks}.3", f"{self.maps}.3", doc="§3.4"),
                checks.strided(self.fed, self.output, doc="released", status=Status.BAD_PARAM),
                checks.large(self.fed, self.output, doc="released", status=Status.BAD_PARAM),
                checks.empty(self.fed, doc="§1.1"),
                checks.pointers(self.fed, self.output, doc="§3.4"),
                checks.require("mask_size", self._fits, "NRAM must hold 16 pixels", "§3.2.3", Status.NOT_SUPPORTED),
                # Of backward's dx, where dy has elements: all is asked for, and there is nothing to write.
                *(() if self.is_forward else (checks.empty(self.output, doc="§1.1"),)),
            ),
            definition=copy_of.define_copies(self.output, self.copies, row="image"),
            theory=self.theory,
            kernel=self.kernel,
            precondition=self.precondition,
            suspects={
                **{words: self._as_read(one) for words, one in _READINGS.items()},
                "pixels that share a cell are summed": self._summed,
            },
            recipes={"laid": self.laid},
            space=self._space(),
            c_api=c_function(f"mluOp{title}", arguments=(HANDLE, *arguments)),
            exact=self.elements,
            torch_kernel=self.torch_kernel,
        )
        return replace(operator, mutants=(*mistakes.suspected(operator), *self._mutants()))

    def _sizes(self) -> Mapping[str, mg.SizedAxis]:
        """The lengths of masks: no axis is one of them alone."""

        def along(name: str, number: int) -> mg.SizedAxis:
            def without(call: OpCall, index: int) -> Mapping[str, Array]:
                source, target = self._places(call)
                channels = (source if self.is_forward else target) % call.tensor(self.masks).dims[3]
                fed = call.array(self.fed).copy()
                fed.reshape(len(fed), -1)[:, source[divmod(channels, call.param("w_mask"))[number] == index]] = 0
                return {self.fed: fed}

            return mg.SizedAxis(self.masks, 3, lambda call: int(call.param(name)), without)

        return {"mask_height": along("h_mask", 0), "mask_width": along("w_mask", 1)}

    def _lacking(self, call: OpCall) -> tuple[int, int]:
        """§3.2.3: the floats that NRAM lacks for a row and for 16 pixels; DISTRIBUTE has two maps there."""
        _, _, width, channels = call.tensor(self.masks).dims
        cells, room = call.tensor(self.maps).dims[3], 0 if call.handle is None else call.handle.nram_bytes // 4
        copies = 2 if call.param("psa_type") == DISTRIBUTE else 1
        row = _up(width * channels, 32) + _up(width, 16) * _up(cells, 16) * copies
        return row - room, 16 * (_up(channels, 32) + _up(_up(cells, 16), 32) * copies) - room

    def _fits(self, call: OpCall) -> bool:
        return min(self._lacking(call)) <= 0

    def precondition(self, call: OpCall) -> str | None:
        """§1.1, 3.1: two modes, and masks that have lengths."""
        if call.param("psa_type") not in (COLLECT, DISTRIBUTE):
            return f"psa_type {call.param('psa_type')} is neither COLLECT nor DISTRIBUTE"
        return "h_mask and w_mask are negative" if call.param("h_mask") < 0 else None

    # The definition.

    def lengths(self, call: OpCall) -> Lengths:
        """Those of the call."""
        _, height, width, _ = call.tensor(self.fed).dims
        return Lengths(height, width, call.param("h_mask"), call.param("w_mask"))

    def _places(self, call: OpCall, reading: Reading = RIGHT) -> tuple[Array, Array]:
        """Those of an image in what is fed and in the output that hold the same value."""
        masks, maps = meeting(self.lengths(call), call.param("psa_type"), reading)
        return (masks, maps) if self.is_forward else (maps, masks)

    def copies(self, call: OpCall, reading: Reading = RIGHT) -> copy_of.CopyOf:
        """Of each image; +0 where masks and map do not meet."""
        source, target = self._places(call, reading)
        values, dims = call.array(self.fed), call.tensor(self.output).dims
        places = np.full(dims[1] * dims[2] * dims[3], -1)
        places[target] = source
        return copy_of.CopyOf(values.reshape(len(values), -1), places, dims)

    def theory(self, call: OpCall) -> mg.Theory:
        """What is copied, and all that is written; no operation."""
        copied = len(meeting(self.lengths(call), COLLECT)[0])
        written = call.tensor(self.output).desc.count
        return mg.Theory(io_bytes=4 * (call.tensor(self.fed).dims[0] * copied + written), ops=0)

    def elements(self, call: OpCall) -> Mapping[str, ExactElement]:
        """§3.1 word by word."""
        values, (height, width, h_mask, w_mask) = call.array(self.fed), self.lengths(call)
        collects = call.param("psa_type") == COLLECT

        def of_map(n: int, row: int, column: int, channel: int) -> Fraction | float:
            (h, w), (a, b) = (row, column), divmod(channel, width)
            if not collects:
                (h, w), (a, b) = (a, b), (h, w)
            i, j = a - h + (h_mask - 1) // 2, b - w + (w_mask - 1) // 2
            inside = 0 <= i < h_mask and 0 <= j < w_mask
            return fraction(values[n, h, w, i * w_mask + j]) if inside else Fraction(0)

        def of_mask(n: int, h: int, w: int, channel: int) -> Fraction | float:
            i, j = divmod(channel, w_mask)
            a, b = h + i - (h_mask - 1) // 2, w + j - (w_mask - 1) // 2
            if not (0 <= a < height and 0 <= b < width):
                return Fraction(0)
            return fraction(values[n, h, w, a * width + b] if collects else values[n, a, b, h * width + w])

        return {self.output: of_map if self.is_forward else of_mask}

    # The kernel that the numpy backend runs: §3.1.1's rectangles, pixel after pixel, and §3.2.2's transposition.

    def kernel(self, call: OpCall) -> Status:
        """Check the call, then copy the rectangle of every pixel."""
        if (early := first_status(self._refusals(call))) is not None:
            return early
        images, height, width, _ = call.tensor(self.masks).dims
        call.array(self.output)[...] = 0
        h_mask, w_mask = call.param("h_mask"), call.param("w_mask")
        masks = call.array(self.masks).reshape(images, height, width, h_mask, w_mask)
        maps = call.array(self.maps).reshape(images, height, width, height, width)
        if call.param("psa_type") == DISTRIBUTE:
            maps = maps.transpose(0, 3, 4, 1, 2)
        for h, w in np.ndindex(height, width):
            (mask_rows, rows), (mask_columns, columns) = _rectangle(h, h_mask, height), _rectangle(w, w_mask, width)
            of_masks = masks[:, h, w, mask_rows, mask_columns]
            of_maps = maps[:, h, w, rows, columns]
            if self.is_forward:
                of_maps[...] = of_masks
            else:
                of_masks[...] = of_maps
        return Status.SUCCESS

    def _refusals(self, call: OpCall) -> Refusals:
        args = tensors_of(call)
        yield call.handle is None or [len(arg.dims) for arg in args] != [4, 4], Status.BAD_PARAM
        yield any(arg.layout is not Layout.NHWC or arg.dtype is not DType.FLOAT for arg in args), Status.BAD_PARAM
        masks, maps = args if self.is_forward else args[::-1]
        _, height, width, channels = masks.dims
        yield masks.dims[:3] != maps.dims[:3] or maps.dims[3] != height * width, Status.BAD_PARAM
        yield channels != call.param("h_mask") * call.param("w_mask"), Status.BAD_PARAM
        yield any(arg.desc.is_strided or arg.desc.count > (1 << 31) - 1 for arg in args), Status.BAD_PARAM
        yield 0 in args[0].dims, Status.SUCCESS
        yield any(arg.null for arg in args), Status.BAD_PARAM
        # §3.2.3's h_limit and w_limit; what w_limit counts comes in sixteens.
        floats, number = (call.handle.nram_bytes if call.handle else 0) >> 2, 1 + (call.param("psa_type") == DISTRIBUTE)
        padded = (height * width + 15) & ~15
        h_limit = floats // (((width * channels + 31) & ~31) + ((width + 15) & ~15) * padded * number)
        w_limit = floats // (((channels + 31) & ~31) + ((padded + 31) & ~31) * number) & ~15
        yield h_limit < 1 and w_limit < 1, Status.NOT_SUPPORTED
        yield channels == 0, Status.SUCCESS

    # With torch: one gather along the channels by the index that each has in the other tensor.

    def torch_kernel(self, call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Write the output, by the bits of the elements."""
        import torch

        images, height, width, _ = outputs[self.output].shape
        h_mask, w_mask, pixels = call.param("h_mask"), call.param("w_mask"), height * width

        def along(length: int, mask: int) -> Any:
            """[length, length]: the place in the mask of a pixel's row or column for that of a cell."""
            at = torch.arange(length)
            return at - at[:, None] + (mask - 1) // 2

        rows, columns = along(height, h_mask)[:, None, :, None], along(width, w_mask)[None, :, None, :]
        inside = (rows >= 0) & (rows < h_mask) & (columns >= 0) & (columns < w_mask)
        # What meets nothing has a place of its own, behind the mask.
        places = torch.where(inside, rows * w_mask + columns, h_mask * w_mask).reshape(pixels, pixels)
        places = places.expand(images, -1, -1)
        # Integers of the same size: NaN payloads and −0 pass unchanged.
        fed, result = inputs[self.fed].view(torch.int32).flatten(1, 2), outputs[self.output].view(torch.int32)
        is_turned = call.param("psa_type") == DISTRIBUTE
        if self.is_forward:
            maps = torch.nn.functional.pad(fed, (0, 1)).gather(2, places)
            result.copy_((maps.mT if is_turned else maps).reshape(result.shape))
        else:
            masks = torch.zeros((images, pixels, h_mask * w_mask + 1), dtype=torch.int32)
            masks.scatter_(2, places, fed.mT if is_turned else fed)
            result.copy_(masks[..., :-1].reshape(result.shape))

    # Mistakes.

    def _as_read(self, reading: Reading) -> suspects.Suspect:
        return lambda call: {self.output: self.copies(call, reading).copied()}

    def _summed(self, call: OpCall) -> Mapping[str, Array]:
        source, target = self._places(call)
        cells = meeting(self.lengths(call), COLLECT)[1] % call.tensor(self.maps).dims[3]
        values, out = call.array(self.fed), np.zeros(call.tensor(self.output).dims, np.float32)
        for image, result in zip(values.reshape(len(values), -1), out.reshape(len(values), -1), strict=True):
            with np.errstate(all="ignore"):
                result[target] = np.bincount(cells, image[source])[cells]
        return {self.output: out}

    def _mutants(self) -> tuple[mg.Mutant, ...]:
        """Mistakes beside those of reading."""
        output, right = self.output, self.kernel

        def times_0(call: OpCall) -> None:
            """What meets nothing is 0 times everything in its image."""
            values, fed = call.array(output), call.array(self.fed)
            with np.errstate(all="ignore"):
                zeros = 0 * fed.sum((1, 2, 3), keepdims=True)
                values[...] = np.where(self.copies(call).is_copied, values, zeros)

        def behind_first(axis: int) -> Callable[[OpCall], Any]:
            """What meets nothing, behind the first place of an axis."""

            def where(call: OpCall) -> Any:
                idle = ~self.copies(call).is_copied
                np.moveaxis(idle, axis, 0)[0] = False
                return idle

            return where

        def refusing(name: str, what: str, number: int) -> mg.Mutant:
            def run(call: OpCall) -> Status:
                return right(call) if self._lacking(call)[number] <= 0 else Status.NOT_SUPPORTED

            return mg.Mutant(name, f"refuses a mask where no {what} fit", run)

        def last(axis: int) -> Callable[[OpCall], Any]:
            return lambda _: (*(slice(None),) * axis, slice(-1, None))

        return (
            *copy_of.wrong_copies(output, self.copies, row="image"),
            mistakes.spoilt("idle_times_0", "multiplies what meets nothing with 0", right, times_0),
            *(
                mistakes.left(f"clears_first_{what}", f"clears the first {what} alone", right, output, behind_first(at))
                for at, what in enumerate(("image", "row", "column"))
            ),
            *(
                mistakes.left(f"last_{what}_left", f"does not write the last {what}", right, output, last(at))
                for at, what in ((1, "row"), (2, "column"), (3, "channel"))
            ),
            *mistakes.tails_left(right, output, 1, "rows", (4, 16)),
            *mistakes.tails_left(right, output, 2, "columns", (4, 16)),
            *mistakes.tails_left(right, output, 3, "channels", (16, 32)),
            *(mistakes.part_left(right, output, axis, what) for axis, what in ((1, "rows"), (2, "columns"))),
            *(mistakes.first_length_kept(right, output, axis, what) for axis, what in ((1, "rows"), (3, "channels"))),
            *(mistakes.first_param_kept(right, name) for name in ("psa_type", "h_mask", "w_mask")),
            mistakes.input_cleared(right, self.fed),
            refusing("row_must_fit", "whole rows", 0),
            refusing("16_must_fit", "16 pixels", 1),
        )

    # Recipes, fuzzing.

    def laid(
        self,
        draw: mg.Draw,
        params: mg.Params,
        _: DType,
        *,
        batches: int = 2,
        height: int = 3,
        width: int = 4,
        values: Values = "full",
        idle: Literal["values", "nan"] = "values",
    ) -> mg.RecipeOutput:
        """Values of any bits; what meets nothing holds some, too, or NaN."""
        complete: dict[str, Any] = {"h_mask": 3, "w_mask": 5, "psa_type": COLLECT, **params}
        lengths = Lengths(height, width, complete["h_mask"], complete["w_mask"])
        cells, channels = height * width, lengths.h_mask * lengths.w_mask
        fed_by, made = (channels, cells) if self.is_forward else (cells, channels)
        fed = BitPatterns(self.fed, "sorts", KINDS).drawn(draw, DType.FLOAT, (batches, height, width, fed_by), values)
        if idle == "nan":
            masks, maps = meeting(lengths, complete["psa_type"])
            unused = np.delete(np.arange(fed[0].size), masks if self.is_forward else maps)
            if not unused.size:
                raise ValueError("every value is used; give a mask that leaves the image, or one that does not fill it")
            fed.reshape(batches, -1)[:, unused] = np.float32(np.nan)
        return mg.RecipeOutput({self.fed: fed}, complete, outputs={self.output: (batches, height, width, made)})

    def _space(self) -> space.Space:
        params, data = ("h_mask", "w_mask", "psa_type"), ("batches", "height", "width", "values")

        def draw(at: Mapping[str, Any]) -> space.Drawn | None:
            pairs = ((at["h_mask"], at["height"]), (at["w_mask"], at["width"]))
            # Forward uses all of 1 × 1 masks alone, backward all of a map that every mask covers.
            has_idle = any(mask > 1 if self.is_forward else (mask - 1) // 2 < length - 1 for mask, length in pairs)
            args = {**{name: at[name] for name in data}, "idle": at["idle"] if has_idle else "values"}
            return space.Drawn("laid", {name: at[name] for name in params}, args)

        return space.Space(
            axes={
                "psa_type": space.Choice((COLLECT, DISTRIBUTE)),
                **dict.fromkeys(("batches", "height", "width"), space.Sizes(1, 65)),
                **dict.fromkeys(("h_mask", "w_mask"), space.Sizes(1, 129)),
                "values": space.Choice(get_args(Values)),
                "idle": space.Choice(("values", "nan")),
            },
            draw=draw,
            elements=lambda at: (
                at["batches"] * at["height"] * at["width"] * (at["h_mask"] * at["w_mask"] + at["height"] * at["width"])
            ),
        )


def _rectangle(at: int, mask: int, length: int) -> tuple[slice, slice]:
    """§3.1.1's ends: the part of the mask that lies over the image, and where."""
    half = (mask - 1) // 2
    start, end = max(0, half - at), min(mask, length + half - at)
    return slice(start, end), slice(start + at - half, end + at - half)
