"""The classes of an axis: sizes that kernels treat alike are one class, the ends and powers of two stand alone."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from mluops_gtest.model.space import Choice, Sizes
from mluops_gtest.value import Value


class SizeClass(Value):
    """All sizes from `low` to `high`."""

    low: int
    high: int

    @property
    def name(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}…{self.high}"

    def draw(self, random: Random) -> int:
        """Any of the sizes."""
        return random.randint(self.low, self.high)


class ChoiceClass(Value):
    """One listed value."""

    name: str
    value: Any

    def draw(self, random: Random) -> Any:  # noqa: ARG002 - there is no other
        """The value."""
        return self.value


AxisClass = SizeClass | ChoiceClass


def classes_of(axis: Sizes | Choice) -> tuple[AxisClass, ...]:
    """The classes of an axis; those of sizes in ascending order."""
    if isinstance(axis, Choice):
        return tuple(ChoiceClass(str(value), value) for value in axis.values)
    return tuple(_size_classes(axis))


def _size_classes(axis: Sizes) -> Iterator[SizeClass]:
    """Low and low + 1, 2^k − 1, 2^k, 2^k + 1 and high each by itself, and what lies between two of them."""
    powers = (1 << k for k in range(2, axis.high.bit_length() + 1))
    alone = {axis.low, axis.low + 1, axis.high, *(power + step for power in powers for step in (-1, 0, 1))}
    nxt = axis.low
    for size in sorted(size for size in alone if axis.low <= size <= axis.high):
        if nxt < size:
            yield SizeClass(nxt, size - 1)
        yield SizeClass(size, size)
        nxt = size + 1


class SpacePoint(Value):
    """One value per axis of a space, and the places of the classes that they were drawn from."""

    values: Mapping[str, Any]
    places: Mapping[str, int]


class Axes:
    """The axes of a space by their classes."""

    def __init__(self, axes: Mapping[str, Sizes | Choice]) -> None:
        self.classes = {name: classes_of(axis) for name, axis in axes.items()}
        self._sizes = tuple(name for name, axis in axes.items() if isinstance(axis, Sizes))

    def draw(self, random: Random) -> SpacePoint:
        """Any class of each axis, and any value of the class."""
        places = {name: int(random.random() * len(classes)) for name, classes in self.classes.items()}
        return SpacePoint({name: self.classes[name][place].draw(random) for name, place in places.items()}, places)

    def smaller(self, point: SpacePoint, random: Random) -> SpacePoint | None:
        """The point with another axis in a class of smaller sizes; None where all sizes are the smallest."""
        able = [name for name in self._sizes if point.places[name]]
        if not able:
            return None
        name = able[int(random.random() * len(able))]
        place = int(random.random() * point.places[name])
        value = self.classes[name][place].draw(random)
        return SpacePoint({**point.values, name: value}, {**point.places, name: place})

    def names(self, point: SpacePoint) -> dict[str, str]:
        """Axis → the name of the class."""
        return {axis: self.classes[axis][place].name for axis, place in point.places.items()}
