"""The optional parts of an operator's folder: which file each is, and the one name that the file defines."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mluops_gtest.model.operator import Mutant, Operator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """`file`.py beside the operator's __init__.py defines `name`, whose value is `wanted`, in words, and `fits`."""

    file: str
    name: str
    wanted: str
    fits: Callable[[object], bool]


class KnownOperators(Mapping[str, Operator]):
    """The operators of a content root by canonical name, with the optional parts of their folders."""

    @abstractmethod
    def part(self, operator: str, part: Part[T]) -> T | None:
        """What the operator's folder has of this part, loaded when first asked for; None where it has none."""


def _are_mutants(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Mutant) for one in value)


MUTANTS: Final[Part[tuple[Mutant, ...]]] = Part(
    "mutants", "MUTANTS", "a tuple of mluops_gtest.authoring.Mutant", _are_mutants
)
