"""Declared C arguments as ctypes: what each word becomes, and what cannot be passed."""

from ctypes import POINTER, c_bool, c_float, c_int, c_int64, c_size_t, c_void_p

import pytest
from msgspec.structs import replace

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    PARAMS,
    WORKSPACE,
    WORKSPACE_SIZE,
    CEnum,
    CType,
    data,
    descriptor,
    host_array,
    scalar,
    size,
)
from mluops_gtest.backends.c_library import CallArguments, types_of
from mluops_gtest.core.call import Declined


def test_every_word_has_its_type():
    words = dict.fromkeys((HANDLE, PARAMS, WORKSPACE), c_void_p)
    words |= {WORKSPACE_SIZE: c_size_t, ASKED_SIZE: POINTER(c_size_t)}
    assert types_of(tuple(words)) == list(words.values())
    assert types_of((*descriptor("x"), *data("x"))) == [c_void_p, c_void_p]
    numbers = [("int", CType.INT, c_int), ("long", CType.INT64, c_int64), ("real", CType.FLOAT, c_float)]
    numbers.append(("truth", CType.BOOL, c_bool))
    for name, type_, expected in numbers:
        assert types_of(scalar(name, type=type_)) == [expected]
        assert types_of(host_array(name, type=type_)) == [POINTER(expected)]
    assert types_of(scalar("mode", type=CEnum("mode_t", {"A": 0}))) == [c_int]


@pytest.mark.parametrize(
    ("type_", "value"), [(CType.INT, 2**31), (CType.INT64, 2**63), (CType.FLOAT, 1e39), (CType.BOOL, 2)]
)
def test_a_number_that_c_cannot_hold_is_declined(type_, value):
    with pytest.raises(Declined, match=r"factor is .* which the C type .* cannot hold"):
        CallArguments({"factor": value}).values(scalar("factor", type=type_))


@pytest.mark.parametrize(
    ("dims", "length"),
    [
        ({"x": (2, 3), "y": (5,)}, 3),
        ({"x": None, "y": (5,)}, 5),
        ({"x": (2,), "y": (5,)}, 5),
        ({"x": None, "y": None}, 0),
    ],
    ids=["where it is defined", "elsewhere", "where there is such an axis", "nowhere"],
)
def test_a_size_is_taken_from_the_first_tensor_that_has_it(dims, length):
    (argument,) = (replace(one, places=(("x", 1), ("y", 0))) for one in size("C", type=CType.INT64))
    assert types_of((argument,)) == [c_int64]
    assert CallArguments(None, dims=dims).values((argument,)) == [length]


@pytest.mark.parametrize("value", [0.1, float("inf"), float("nan"), -0.0])
def test_a_float_is_rounded_as_c_rounds_it(value):
    (passed,) = CallArguments({"factor": value}).values(scalar("factor", type=CType.FLOAT))
    assert passed is value


def test_null_parameters_leave_nothing_to_pass_by_value():
    with pytest.raises(
        Declined, match="the descriptor of the parameters is null, and factor is an argument of its own"
    ):
        CallArguments(None).values(scalar("factor"))
