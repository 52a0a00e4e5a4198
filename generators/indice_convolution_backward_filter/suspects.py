"""Mistakes that kernels make about the pairs of an offset, and about which offset they belong to."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect

from .._shared.wrong_pairs import Rows, wrong_pairs
from .reference import Operands, by_matrix_products


def _of_pairs(misread: Callable[[Array], Array]) -> Suspect:
    """The sums over what is made of the pairs [2, n] of every offset."""
    return _of_operands(lambda given: given._replace(pairs=tuple(misread(pairs) for pairs in given.pairs)))


def _of_operands(
    misread: Callable[[Operands], Operands | None], finished: Callable[[Array, Operands], Array] = lambda sums, _: sums
) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        operands = misread(Operands.of(call))
        if operands is None:
            return {}
        gradient = call.tensor("filters_grad")
        with np.errstate(over="ignore", invalid="ignore"):
            sums = finished(by_matrix_products(operands), operands)
            return {"filters_grad": sums.astype(gradient.dtype.storage).reshape(gradient.dims)}

    return outputs


# Those that a place or a law of values tells already are not among them.
_PAIRS = {
    "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "tail_is_row_0", "first_count",
    "one_pair", "skips_empty", "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        limits = np.array([[call.tensor("features").dims[0]], [call.tensor("output_grad").dims[0]]])
        # A row of −1 is the last one.
        pairs = tuple(np.stack(one).astype(np.int64) % limits for one in rows(call))
        return _of_operands(lambda given: given._replace(pairs=pairs))(call)

    return outputs


def _rows_exchanged(given: Operands) -> Operands | None:
    exchanged = given._replace(pairs=tuple(pairs[::-1] for pairs in given.pairs))
    for inputs, outputs in exchanged.pairs:
        if inputs.size and (inputs.max() >= len(given.features) or outputs.max() >= len(given.output_grad)):
            return None
    return exchanged


def _mean(sums: Array, operands: Operands) -> Array:
    numbers = np.array([pairs.shape[1] for pairs in operands.pairs])
    means: Array = sums / np.maximum(numbers, 1)[:, None, None]
    return means


def _transposed(sums: Array, operands: Operands) -> Array:
    del operands
    return np.ascontiguousarray(sums.swapaxes(1, 2))


SUSPECTS = {
    "the last pair of every offset wins": _of_pairs(lambda pairs: pairs[:, -1:]),
    "the first pair of every offset is missing": _of_pairs(lambda pairs: pairs[:, 1:]),
    "the last pair of every offset is missing": _of_pairs(lambda pairs: pairs[:, :-1]),
    "sums are divided by indice_num": _of_operands(lambda given: given, _mean),
    "the rows of every pair are exchanged": _of_operands(_rows_exchanged),
    "the opposite offset's pairs are taken": _of_operands(lambda given: given._replace(pairs=given.pairs[::-1])),
    "the matrix of every offset is transposed": _of_operands(lambda given: given, _transposed),
    **{f"it {one.message}": _of_rows(one.rows) for one in wrong_pairs("features", "output_grad") if one.name in _PAIRS},
}
