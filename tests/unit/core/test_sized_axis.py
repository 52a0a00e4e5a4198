"""A size is counted in the call, and what a kernel sees that loses one index is the call without it."""

import numpy as np
import pytest

from mluops_gtest.authoring import SizedAxis, call_of


def call():
    inputs = {"x": np.arange(6, dtype="<f4").reshape(2, 3) + 1, "places": np.array([4, 7], "<i4")}
    return call_of("any", {}, inputs, {"y": np.ones((2, 3), "<f4")})


@pytest.mark.parametrize(("axis", "size"), [(0, 2), (1, 3), (-1, 3)])
def test_a_size_is_the_length_of_the_axis(axis, size):
    assert SizedAxis("x", axis).size(call()) == size


def test_a_size_may_be_counted():
    assert SizedAxis("x", count=lambda call: int(call.array("places").max())).size(call()) == 7


def test_an_axis_that_the_tensor_does_not_have_is_named():
    with pytest.raises(ValueError, match=r"x \[2, 3\] has no axis 2"):
        SizedAxis("x", 2).size(call())


def test_a_lost_index_is_0_in_floats_and_minus_1_in_indices_and_nothing_else_changes():
    one = call()
    lost = SizedAxis("x", 1).lost(one, 2)
    assert lost.keys() == {"x"}
    assert lost["x"].tolist() == [[1, 2, 0], [4, 5, 0]]
    assert SizedAxis("places").lost(one, 0)["places"].tolist() == [-1, 7]
    assert one.array("x")[0, 2] == 3
    assert one.array("places")[0] == 4


def test_an_output_loses_no_input():
    assert SizedAxis("y").lost(call(), 1) == {}


def test_an_operator_may_say_what_the_call_is_without_an_index():
    axis = SizedAxis("x", without=lambda call, index: {"places": call.array("places") + index})
    assert axis.lost(call(), 1)["places"].tolist() == [5, 8]
