"""indice_convolution_backward_data: exact sums, the rulings, the recipes."""

from functools import partial

import numpy as np
import pytest

from tests.support import convolutions
from tests.support.operator_calls import OPERATORS

OPERATOR = OPERATORS["indice_convolution_backward_data"]
make_call = partial(convolutions.make_call, OPERATOR)
call_with = partial(convolutions.call_with, OPERATOR)
definition_of = partial(convolutions.definition_of, OPERATOR)


# Sums.


def test_a_row_listed_twice_in_one_offset_is_added_twice():
    """Outside the contract, yet §1.2.2 says what it means; the reference of a foreign file must not lose it."""
    call = make_call("random_pairs", kernel=(1, 1), rows_in=4, rows_out=4, counts=(4,), channels_in=2, channels_out=3)
    call.array("indice_pairs")[0, 0] = [2, 0, 2, 2]
    np.testing.assert_array_equal(OPERATOR.reference(call).outputs["input_grad"], definition_of(call))


# Rulings.


@pytest.mark.parametrize(
    ("change", "words"),
    [({"channels_out": 1}, "at least 2"), ({"counts": (5, 1, 4, 2)}, "one none"), ({"rows_out": 5}, "in no pair")],
)
def test_a_shape_without_room_for_the_values_is_refused(change, words):
    shape = {"kernel": (2, 2), "rows_in": 9, "rows_out": 12, "counts": (5, 0, 4, 2), "channels_out": 4, **change}
    with pytest.raises(ValueError, match=words):
        make_call("nonfinite", **shape, channels_in=3, kind="grad_idle")


def test_w_k_is_ci_by_co():
    """§3.1 prints [K, Co, Ci]; here Ci = Co = 2, so only the arithmetic tells."""
    filters = np.array([[1, 2], [3, 4]], "<f4").reshape(1, 1, 2, 2)
    inputs = {"output_grad": np.array([[10, 1]], "<f4"), "filters": filters, "indice_pairs": np.zeros((1, 2, 1), "<i4")}
    call = call_with({"inverse": 0, "sub_m": 0, "indice_num": (1,)}, inputs)
    assert OPERATOR.reference(call).outputs["input_grad"].tolist() == [[12, 34]]
    OPERATOR.kernel(call)
    assert call.array("input_grad").tolist() == [[12, 34]]


@pytest.mark.parametrize("counts", [(1, 2), (5, 0, 0), (-1, 0, 0)])
def test_counts_that_do_not_fit_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be one number or 3, each in 0 … 4"):
        make_call("random_pairs", kernel=(1, 3), rows_in=4, rows_out=9, counts=counts, channels_in=1, channels_out=1)


def test_a_layout_that_does_not_fit_the_kernel_is_refused():
    shape = {"kernel": (1, 3), "rows_in": 2, "rows_out": 2, "channels_in": 1, "channels_out": 1}
    with pytest.raises(ValueError, match="layout NDHWC has 5 axes, kernel \\(1, 3\\) makes 4"):
        make_call("random_pairs", layout="ndhwc", **shape)
