"""Shapes in symbols against the dims of cases."""

import numpy as np
import pytest

from mluops_gtest.authoring import DType, Layout, OutputSpec, TensorSpec, exact
from mluops_gtest.core.case import Case
from mluops_gtest.core.tensor import Tensor, TensorDesc
from mluops_gtest.search.audit_declarations import ShapeError, case_symbols, parse_shape


class Operator:
    """The tensors of an operator are all that shapes need."""

    def __init__(self, x, y, layouts=(Layout.ARRAY,)):
        self.tensors = (
            TensorSpec("x", x, (DType.FLOAT,), layouts),
            OutputSpec("y", y, {DType.FLOAT: exact()}),
        )


def case(x, y, params=None, layout=Layout.ARRAY):
    inputs, outputs = (
        (Tensor(name, TensorDesc(DType.FLOAT, layout, dims), np.zeros(0, "<f4")),)
        for name, dims, layout in (("x", x, layout), ("y", y, Layout.ARRAY))
    )
    return Case("op/case", "op", inputs, outputs, params or {}, ((),))


@pytest.mark.parametrize(
    ("text", "axes", "optional"),
    [
        ("[N, C]", ["N", "C"], 0),
        ("[L, 4]: n, d, h, w", ["L", "4"], 0),
        ("[≥ count, 4]", ["≥ count", "4"], 0),
        ("[C·kernel_h·kernel_w, m]", ["C·kernel_h·kernel_w", "m"], 0),
        ("[[Kd,] Kh, Kw] as ARRAY", ["Kd", "Kh", "Kw"], 1),
        ("[]", [], 0),
    ],
)
def test_what_a_shape_may_look_like(text, axes, optional):
    shape = parse_shape(text)
    assert [axis.text for axis in shape.axes] == axes
    assert shape.optional == optional


@pytest.mark.parametrize("text", ["N, C", "[N, C+1]", "[N,, C]", ""])
def test_what_is_no_shape(text):
    with pytest.raises(ShapeError):
        parse_shape(text)


def test_sizes_are_found():
    operator = Operator("[N, C]", "[C·k, ≥ n_out]")
    assert case_symbols(case((3, 5), (10, 9), {"k": 2, "n_out": 7}), operator) == {"N": 3, "C": 5}


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((3, 5), (9, 9), "axis 0 of y is 9; the shape says C·k, which is 10"),
        ((3, 5), (10, 6), "axis 1 of y is 6; the shape says ≥ n_out, which is 7"),
        ((3, 5, 1), (10, 9), "x has 3 axes"),
    ],
)
def test_a_shape_that_does_not_hold_is_told(x, y, message):
    with pytest.raises(ShapeError, match=message):
        case_symbols(case(x, y, {"k": 2, "n_out": 7}), Operator("[N, C]", "[C·k, ≥ n_out]"))


def test_one_name_is_one_length():
    with pytest.raises(ShapeError, match="axis 0 of y is 4; N is 3 elsewhere"):
        case_symbols(case((3, 5), (4,)), Operator("[N, C]", "[N]"))


def test_a_parameter_of_that_name_decides():
    with pytest.raises(ShapeError, match="axis 0 of x is 3; N is 8 elsewhere"):
        case_symbols(case((3, 5), (3,), {"N": 8}), Operator("[N, C]", "[N]"))


def test_optional_axes_may_be_missing():
    operator = Operator("[[D,] H, W]", "[H]")
    assert case_symbols(case((2, 3), (2,)), operator) == {"H": 2, "W": 3}
    assert case_symbols(case((4, 2, 3), (2,)), operator) == {"D": 4, "H": 2, "W": 3}


def test_a_shape_for_several_layouts_is_that_of_array():
    operator = Operator("[N, C]", "[N]", (Layout.NHWC, Layout.ARRAY))
    assert case_symbols(case((5, 3), (9,), layout=Layout.NHWC), operator) == {"N": 9}
