"""The optional parts of an operator's folder: which file each is, and the one name that the file defines."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import OPEN_TAGS
from mluops_gtest.model.operator import Mutant, Operator
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.model.c_api import CApi
    from mluops_gtest.model.exact_element import ExactElements
    from mluops_gtest.model.operator import Reduction
    from mluops_gtest.model.space import Space

T = TypeVar("T")

# Called as run(call, inputs, outputs) for a call that computes: the call's tensors by name as torch tensors on the
# device where the kernel is to compute. It writes the outputs in place, and scalar results into call.scalars.
TorchKernel = Callable[[OpCall, Mapping[str, Any], Mapping[str, Any]], None]


class Part(Value, Generic[T]):
    """`file`.py beside the operator's __init__.py defines `name`, whose value is `wanted`, in words, and `fits`."""

    file: str
    name: str
    wanted: str
    fits: Callable[[object], bool]
    # What in a value that fits does not belong to this operator, in words; None if nothing.
    mistake: Callable[[T, Operator], str | None] = lambda _value, _operator: None


class KnownOperators(Mapping[str, Operator]):
    """The operators of a content root by canonical name, with the optional parts of their folders."""

    @abstractmethod
    def part(self, operator: str, part: Part[T]) -> T | None:
        """What the operator's folder has of this part, loaded when first asked for; None where it has none."""


def _are_mutants(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, Mutant) for one in value)


def _mistake_in_mutants(mutants: tuple[Mutant, ...], _operator: Operator) -> str | None:
    names = sorted(one.name for one in mutants)
    twice = next((first for first, second in pairwise(names) if first == second), None)
    return None if twice is None else f"two mutants are named {twice!r}; give each a name of its own"


def _are_variants(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) <= set(OPEN_TAGS) and all(map(_are_mutants, value.values()))


def _is_c_api(value: object) -> bool:
    # Few commands know of C functions.
    from mluops_gtest.model.c_api import is_c_api

    return is_c_api(value)


def _mistake_in_c_api(value: "CApi", operator: Operator) -> str | None:
    from mluops_gtest.model.c_api import mistake_in

    return mistake_in(value, operator)


def _is_space(value: object) -> bool:
    from mluops_gtest.model.space import Space

    return isinstance(value, Space)


def _mistake_in_space(space: "Space", _operator: Operator) -> str | None:
    return space.mistake()


def _are_reductions(value: object) -> bool:
    from mluops_gtest.model.operator import Reduction

    return isinstance(value, Mapping) and all(isinstance(one, Reduction) for one in value.values())


MUTANTS: Final[Part[tuple[Mutant, ...]]] = Part(
    "mutants", "MUTANTS", "a tuple of mluops_gtest.authoring.Mutant", _are_mutants, _mistake_in_mutants
)
# By the tag whose cases alone tell them from others: implementations that the document allows.
VARIANTS: Final[Part[Mapping[str, tuple[Mutant, ...]]]] = Part(
    "variants",
    "VARIANTS",
    f"a mapping of {' and '.join(OPEN_TAGS)} to tuples of mluops_gtest.authoring.Mutant",
    _are_variants,
)
TORCH_KERNEL: Final[Part[TorchKernel]] = Part("torch_kernel", "run", "a function run(call, inputs, outputs)", callable)
C_API: "Final[Part[CApi]]" = Part(
    "c_api", "C_API", "a tuple of mluops_gtest.authoring.c_api.CSignature", _is_c_api, _mistake_in_c_api
)
SPACE: "Final[Part[Space]]" = Part(
    "space", "SPACE", "a mluops_gtest.authoring.space.Space", _is_space, _mistake_in_space
)
REDUCTIONS: "Final[Part[Mapping[str, Reduction]]]" = Part(
    "reductions", "REDUCTIONS", "a mapping of names to mluops_gtest.authoring.reductions.Reduction", _are_reductions
)
EXACT: "Final[Part[ExactElements]]" = Part(
    "exact", "elements", "a function elements(call) that gives a function of an index per output", callable
)
