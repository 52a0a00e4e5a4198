"""Plainer values for a call of the same size: 0, 1, small integers, default parameters."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.minimise.candidate import as_made
from mluops_gtest.model.case import Case, Expect
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator, RecipeOutput

# Tensors of at most so many elements are made plainer element by element.
MAX_SINGLE: Final = 32
_SMALL: Final = 9


def plainness(values: Array) -> int:
    """What a reader has to take in: nothing for 0, less for 1 and small integers than for digits behind a point."""
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        whole = np.isfinite(wide) & (wide == np.rint(wide))
        ranks = np.select(
            [wide == 0, wide == 1, whole & (np.abs(wide) <= _SMALL), whole & (np.abs(wide) < 1000), whole],
            [0, 1, 2, 3, 4],
            np.where(np.isfinite(wide), 5 + _digits(wide), 5),
        )
    return int(ranks.sum())


def _digits(values: Array) -> Array:
    """Binary digits behind the point, roughly: how long a fraction is to write."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.select([(values * 2**k) == np.rint(values * 2**k) for k in (1, 2, 3, 6, 12)], [1, 2, 3, 4, 6], 8)


def _ranks(values: Array) -> Array:
    """Small integers in the same order, ties included; what is not finite stays."""
    finite = np.isfinite(values)
    ranked = values.copy()
    ranked[finite] = np.unique(values[finite], return_inverse=True)[1].reshape(-1)
    return ranked


def _whole(values: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.rint(values)


def _powers(values: Array) -> Array:
    """The next power of two towards 0, with its sign."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(
            np.isfinite(values) & (values != 0), np.copysign(2.0 ** np.frexp(values)[1] / 2, values), values
        )


_TRANSFORMS: Final[tuple[Callable[[Array], Array], ...]] = (
    np.zeros_like,
    np.ones_like,
    _ranks,
    np.sign,
    _whole,
    _powers,
)


def plainer_tensors(case: Case) -> Iterator[RecipeOutput]:
    """The call with one tensor made plainer as a whole, the plainest first."""
    made = as_made(case)
    for tensor in case.inputs:
        values = made.inputs[tensor.id]
        for transform in _TRANSFORMS:
            yield from _plainer(made, tensor.id, transform(values).astype(values.dtype))


def plainer_elements(case: Case) -> Iterator[RecipeOutput]:
    """The call with one element of a small tensor made 0 or 1, or one column of a tensor made 0."""
    made = as_made(case)
    for tensor in case.inputs:
        values = made.inputs[tensor.id]
        if values.ndim > 1 and 1 < values.shape[-1] <= MAX_SINGLE:
            for column in range(values.shape[-1]):
                changed = values.copy()
                changed[..., column] = 0
                yield from _plainer(made, tensor.id, changed)
        if values.size > MAX_SINGLE:
            continue
        for place in range(values.size):
            for number in (0, 1):
                changed = values.copy()
                changed.reshape(-1)[place] = number
                yield from _plainer(made, tensor.id, changed)


def _plainer(made: RecipeOutput, name: str, changed: Array) -> Iterator[RecipeOutput]:
    if plainness(changed) < plainness(made.inputs[name]):
        yield replace(made, inputs={**made.inputs, name: changed})


def plainer_params(case: Case, operator: Operator) -> Iterator[RecipeOutput]:
    """The call with one number among its parameters at its default, or at 0 or 1, where that is plainer.

    Lists describe spaces and kernels; what becomes smaller there is the operator's to say.
    """
    made = as_made(case)
    for field in operator.param_fields:
        value = case.params.get(field.name)
        if field.result or field.enum is not None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        defaults = () if field.default is None else (field.default,)
        for plain in dict.fromkeys((*defaults, type(value)(0), type(value)(1))):
            if plainness(np.array(plain)) < plainness(np.array(value)):
                yield replace(made, params={**made.params, field.name: plain})


def plainer_caller(case: Case) -> Iterator[Expect]:
    """The case without one of the special wishes at its caller: an old device, a null pointer, a small workspace."""
    expect, usual = case.expect, Expect()
    for wish in (
        {"arch": usual.arch},
        {"nram_bytes": usual.nram_bytes},
        {"workspace_size": usual.workspace_size},
        {"null_handle": usual.null_handle},
        *({"null_descriptor": _without(expect.null_descriptor, one)} for one in expect.null_descriptor),
        *({"null_pointer": _without(expect.null_pointer, one)} for one in expect.null_pointer),
    ):
        simpler = replace(expect, **wish)  # type: ignore[arg-type]  # each value is of its field's type
        if simpler != expect:
            yield simpler


def _without(names: tuple[str, ...], one: str) -> tuple[str, ...]:
    return tuple(name for name in names if name != one)
