"""How kernels misread boxes and test points wrongly, for suspects; every suspect is a mutant, too."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status
from mluops_gtest.authoring.suspects import Suspect, as_read, misread

from .boxes import BoxTest
from .interpolation import shortened

# What an operator gives for a call with another test.
Answer = Callable[[OpCall, BoxTest], Mapping[str, Array]]


# By column of a box what is read there.
_MISREAD: Mapping[str, Mapping[int, Callable[[Array], Array]]] = {
    "boxes turn the other way": {6: lambda boxes: -boxes[..., 6]},
    "headings are degrees": {6: lambda boxes: boxes[..., 6] * np.float32(np.pi / 180)},
    "boxes are not turned": {6: lambda boxes: 0 * boxes[..., 6]},
    "dx and dy are exchanged": {3: lambda boxes: boxes[..., 4], 4: lambda boxes: boxes[..., 3]},
    "dx and dy are half lengths": {3: lambda boxes: 2 * boxes[..., 3], 4: lambda boxes: 2 * boxes[..., 4]},
    "z is ignored": {5: lambda boxes: np.full_like(boxes[..., 5], np.inf)},
    "the sign of lengths is ignored": {3: lambda boxes: abs(boxes[..., 3]), 4: lambda boxes: abs(boxes[..., 4])},
}


def misread_boxes(answer: Answer, test: BoxTest, boxes: str) -> dict[str, Suspect]:
    """What the operator gives where boxes are read or points are tested wrongly; `boxes` is the tensor's name."""

    def with_test(**changes: object) -> Suspect:
        wrong = replace(test, **changes)  # type: ignore[arg-type]
        return lambda call: answer(call, wrong)

    def with_columns(columns: Mapping[int, Callable[[Array], Array]]) -> Suspect:
        def change(array: Array) -> Array:
            wrong = array.copy()
            with np.errstate(all="ignore"):
                for column, made in columns.items():
                    wrong[..., column] = made(array)
            return wrong

        read = misread(**{boxes: change})
        return lambda call: answer(read(call), test)

    suspects = {words: with_columns(columns) for words, columns in _MISREAD.items()}
    middle = "box" if test.bottom else "bottom face"
    suspects[f"cz is the centre of the {middle}"] = with_test(bottom=not test.bottom)
    suspects["points on the top and the bottom are outside"] = with_test(ends=np.less)
    suspects["points on the sides are inside"] = with_test(widened=0.0, sides=np.less_equal)
    for widened in {0.0, 1e-6, 1e-5, 1e-4} - {test.widened} if test.widened else {1e-5}:
        suspects[f"the sides are widened by {widened:g}"] = with_test(widened=widened)
    suspects["the top and the bottom are widened by 1e-05"] = with_test(ends=lambda away, half: away <= half + 1e-5)
    return suspects


def writes(answer: Callable[[OpCall], Mapping[str, Array]]) -> Callable[[OpCall], Status]:
    """Writes into the outputs of a call what is answered of it."""

    def run(call: OpCall) -> Status:
        for name, values in answer(call).items():
            call.array(name)[...] = values
        return Status.SUCCESS

    return run


def reads(operator: Operator, name: str, message: str, **changes: Callable[[Array], Array]) -> Mutant:
    """The right answer to a call with other inputs."""
    return Mutant(name, message, writes(as_read(operator.reference, misread(**changes))))


# How values of less precision are called, and how they are made; tf32 has the mantissa of a half.
NARROW: Mapping[str, Callable[[Array], Array]] = {
    "bf16": partial(shortened, bits=8),
    "tf32": partial(shortened, bits=11),
}


def boxes_behind(operator: Operator, boxes: str, tiles: Iterable[int]) -> Iterator[Mutant]:
    """Boxes that are not looked at: the last one, or those behind whole tiles."""

    def without(first: Callable[[int], int]) -> Callable[[Array], Array]:
        def change(array: Array) -> Array:
            wrong = array.copy()
            # Nobody is inside.
            wrong[:, first(array.shape[1]) :, 3:6] = -1
            return wrong

        return change

    def behind(tile: int) -> Callable[[Array], Array]:
        return without(lambda count: count // tile * tile or count)

    yield reads(operator, "last_box_lost", "does not look at the last box", **{boxes: without(lambda count: count - 1)})
    for tile in tiles:
        words = f"does not look at boxes behind whole tiles of {tile}"
        yield reads(operator, f"boxes_behind_{tile}", words, **{boxes: behind(tile)})
