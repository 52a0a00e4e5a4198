"""How kernels misread boxes and test points wrongly, for suspects; every suspect is a mutant, too."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, mistakes
from mluops_gtest.authoring.roundings import through_half
from mluops_gtest.authoring.suspects import Suspect, misread

from .boxes import BoxTest
from .interpolation import shortened

# What an operator gives for a call with another test.
Answer = Callable[[OpCall, BoxTest], Mapping[str, Array]]


def _with(**columns: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Boxes with these columns made of the boxes."""
    places = {"dx": 3, "dy": 4, "dz": 5, "rz": 6}

    def changed(boxes: Array) -> Array:
        wrong = boxes.copy()
        with np.errstate(all="ignore"):
            for name, made in columns.items():
                wrong[..., places[name]] = made(boxes)
        return wrong

    return changed


_MISREAD: Mapping[str, Callable[[Array], Array]] = {
    "boxes turn the other way": _with(rz=lambda boxes: -boxes[..., 6]),
    "headings are degrees": _with(rz=lambda boxes: boxes[..., 6] * np.float32(np.pi / 180)),
    "boxes are not turned": _with(rz=lambda boxes: 0 * boxes[..., 6]),
    "dx and dy are exchanged": _with(dx=lambda boxes: boxes[..., 4], dy=lambda boxes: boxes[..., 3]),
    "dx and dy are half lengths": _with(dx=lambda boxes: 2 * boxes[..., 3], dy=lambda boxes: 2 * boxes[..., 4]),
    "z is ignored": _with(dz=lambda boxes: np.full_like(boxes[..., 5], np.inf)),
    "the sign of lengths is ignored": _with(dx=lambda boxes: abs(boxes[..., 3]), dy=lambda boxes: abs(boxes[..., 4])),
}


def misread_boxes(answer: Answer, test: BoxTest, boxes: str) -> dict[str, Suspect]:
    """What the operator gives where boxes are read or points are tested wrongly; `boxes` is the tensor's name."""

    def with_test(**changes: object) -> Suspect:
        wrong = replace(test, **changes)  # type: ignore[arg-type]
        return lambda call: answer(call, wrong)

    def with_boxes(change: Callable[[Array], Array]) -> Suspect:
        read = misread(**{boxes: change})
        return lambda call: answer(read(call), test)

    suspects = {words: with_boxes(change) for words, change in _MISREAD.items()}
    middle = "box" if test.bottom else "bottom face"
    suspects[f"cz is the centre of the {middle}"] = with_test(bottom=not test.bottom)
    suspects["points on the top and the bottom are outside"] = with_test(ends=np.less)
    suspects["points on the sides are inside"] = with_test(widened=0.0, sides=np.less_equal)
    for widened in {0.0, 1e-6, 1e-5, 1e-4} - {test.widened} if test.widened else {1e-5}:
        suspects[f"the sides are widened by {widened:g}"] = with_test(widened=widened)
    suspects["the top and the bottom are widened by 1e-05"] = with_test(ends=lambda away, half: away <= half + 1e-5)
    return suspects


def every_suspect(operator: Operator) -> Iterator[Mutant]:
    """Implementations that make each mistake which the operator suspects."""
    return mistakes.suspected(operator, {re.sub(r"\W+", "_", words.lower()): words for words in operator.suspects})


# The name of a mutant, its message, and the call whose right answer it gives.
WrongCall = tuple[str, str, Callable[[OpCall], OpCall]]


def narrow_pairs(points: str, boxes: str) -> Iterator[WrongCall]:
    """Coordinates and boxes of float that are kept in less."""
    for word, narrow in (
        ("half", through_half),
        ("bf16", partial(shortened, bits=8)),
        ("tf32", partial(shortened, bits=11)),
    ):
        yield f"{word}_points", f"rounds points to {word}", misread(**{points: narrow})
        yield f"{word}_boxes", f"rounds boxes to {word}", misread(**{boxes: narrow})


def boxes_behind(boxes: str) -> Iterator[WrongCall]:
    """Boxes that are not looked at: the first, the last, those behind whole tiles."""

    def without(first: Callable[[int], int], last: Callable[[int], int]) -> Callable[[OpCall], OpCall]:
        def hidden(array: Array) -> Array:
            wrong, count = array.copy(), array.shape[1]
            # Nobody is inside.
            wrong[:, first(count) : last(count), 3:6] = -1
            return wrong

        return misread(**{boxes: hidden})

    yield "first_box_lost", "does not look at the first box", without(lambda _: 0, lambda _: 1)
    yield "last_box_lost", "does not look at the last box", without(lambda n: n - 1, lambda n: n)
    for tile in (4, 16, 64):
        behind = without(lambda n, tile=tile: n // tile * tile or n, lambda n: n)  # type: ignore[misc]
        yield f"boxes_behind_{tile}", f"does not look at boxes behind whole tiles of {tile}", behind
