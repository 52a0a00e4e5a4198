"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import FLUSHED_WRITE

from .._shared.interpolation import shortened
from .._shared.wrong_interpolation import Operands, wrong_calls, wrong_reads, wrong_writes

# What kernels cut axes into.
_TILE: Final = 64


def _as_they_are(operands: Operands) -> Operands:
    return operands


def _products(operands: Operands) -> Array:
    """[3, B, C, N]."""
    features, indices, weights, _ = operands
    chosen = np.stack([batch[:, cells.T] for batch, cells in zip(features, indices, strict=True)])
    return np.moveaxis(chosen * weights.transpose(0, 2, 1)[:, None], 2, 0)


def _sum(products: Array) -> Array:
    return (products[0] + products[1]) + products[2]  # type: ignore[no-any-return]


def _write(output: Array, total: Array) -> None:
    output[...] = total


def variant(
    name: str,
    message: str,
    *,
    read: Callable[[Operands], Operands] = _as_they_are,
    multiply: Callable[[Operands], Array] = _products,
    add: Callable[[Array], Array] = _sum,
    write: Callable[[Array, Array], None] = _write,
) -> Mutant:
    """The plain formula in float32 with one part exchanged."""

    def run(call: OpCall) -> Status:
        features, weights = (call.array(name).astype(np.float32) for name in ("features", "weights"))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            operands = read(Operands(features, call.array("indices"), weights, features.shape[2]))
            write(call.array("output"), add(multiply(operands)))
        return Status.SUCCESS

    return Mutant(name, message, run)


# How it is multiplied and added.


def _zero_times_anything(operands: Operands) -> Array:
    zero = operands.weights.transpose(2, 0, 1)[:, :, None] == 0
    return np.where(zero, np.float32(0), _products(operands))


def _dense(operands: Operands) -> Array:
    """A matrix product with a row of zeros for all cells that a point does not name."""
    features, indices, weights, _ = operands
    chosen = indices[..., None] == np.arange(operands.cells)
    return np.moveaxis(np.einsum("bcm,bntm->bctn", features, chosen * weights[..., None]), 2, 0)


def _in_half(products: Array) -> Array:
    first, second, third = products.astype(np.float16)
    return ((first + second) + third).astype(np.float32)  # type: ignore[no-any-return]


def _clamped(products: Array) -> Array:
    largest = np.finfo(np.float32).max
    return np.clip(_sum(np.clip(products, -largest, largest)), -largest, largest)


# What is written.


def _tile_repeated(output: Array, total: Array) -> None:
    """Every tile of points shows the first one's results."""
    output[...] = total[..., np.arange(total.shape[-1]) % _TILE]


_right = variant("", "").run

MUTANTS: Final = (
    *(variant(name, message, read=read) for name, message, read in wrong_reads("features", "features", "M")),
    *(variant(name, message, write=write) for name, message, write in wrong_writes("output", "output", "N")),
    *wrong_calls(_right, "output", "points"),
    variant("tile_repeated", "writes the first tile of 64 points again and again", write=_tile_repeated),
    variant("zero_times_inf", "takes 0 · Inf and 0 · NaN for 0", multiply=_zero_times_anything),
    variant("nan_spread", "multiplies zeros with the cells that a point does not name", multiply=_dense),
    variant(
        "nan_skipped",
        "counts NaN as 0",
        add=lambda products: _sum(np.where(np.isnan(products), np.float32(0), products)),
    ),
    variant("infinite_clamped", "infinities become the largest float", add=_clamped),
    variant("half_sums", "adds in half where the type is float", add=_in_half),
    variant("tf32_products", "rounds products to tf32", add=lambda products: _sum(shortened(products, 11))),
    variant("bf16_products", "rounds products to bf16", add=lambda products: _sum(shortened(products, 8))),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE

VARIANTS: Final = {"subnormal": (variant(_NAME, _MESSAGE, write=_WRITE),)}
