"""The language of shapes: what each form means, and what is no shape."""

from math import prod

import pytest

from mluops_gtest.core.shape import ShapeError, parse_shape, readable_shape

SIZES = {"B": 2, "C": 5, "N": 7, "kernel_h": 3, "kernel_w": 4, "∏filter_space": 27}


def lengths(text, **where):
    axes = parse_shape(text).axes(**{"rank": 2, "layout": "ARRAY", **where})
    return None if axes is None else [sum(prod(map(size, term)) for term in axis.terms) for axis in axes]


def size(factor):
    return int(factor) if factor.isdecimal() else SIZES[factor]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[B, C]", [2, 5]),
        ("[B, 3]", [2, 3]),
        ("[C·kernel_h·kernel_w, N]", [60, 7]),
        ("[B, 3 + C]", [2, 8]),
        ("[2·B + C·3, N]", [19, 7]),
        ("[∏filter_space, 2]", [27, 2]),
        ("[N, 4]: n, d, h, w", [7, 4]),
        ("[[B,] C, N]", [5, 7]),
        ("[B, C, N]", None),
        ("[*S]", None),
    ],
)
def test_lengths_of_two_axes(text, wanted):
    assert lengths(text) == wanted


@pytest.mark.parametrize(
    ("text", "single", "thin"),
    [("[1]", True, True), ("[1, 1]: n", True, True), ("[3]", False, False), ("[1, 3]", False, True),
     ("[N]", False, True), ("[2·N]", False, True), ("[*S]", False, True), ("[[B,] 3]", False, True)],
)  # fmt: skip
def test_which_shapes_have_one_element_and_which_may_have_an_axis_of_one_place(text, single, thin):
    shape = parse_shape(text)
    assert (shape.is_single, shape.may_be_thin) == (single, thin)


def test_leading_axes_may_be_missing():
    assert lengths("[[B,] C, N]", rank=3) == [2, 5, 7]
    assert lengths("[[B,] C, N]", rank=1) is None
    assert parse_shape("[[B,] C, N]").ranks == (2, 3)


def test_the_layout_or_a_parameter_chooses_the_form():
    by_layout = "[B, C] as ARRAY, [C, B] as NCHW"
    assert lengths(by_layout) == [2, 5]
    assert lengths(by_layout, layout="NCHW") == [5, 2]
    assert lengths(by_layout, layout="NHWC") is None
    by_value = "[N, 1] if aligned = 1, [N, C] if aligned = 0"
    assert lengths(by_value, params={"aligned": 1}) == [7, 1]
    assert lengths(by_value, params={"aligned": 0}) == [7, 5]
    assert lengths(by_value, params={"aligned": 2}) is None


def test_what_cannot_be_read_has_no_form():
    assert readable_shape("any shape").forms == ()
    assert readable_shape("[B, C]") == parse_shape("[B, C]")


def test_factors_are_those_of_products_in_every_form():
    assert parse_shape("[B·2, C] as ARRAY, [3 + C, N] as NCHW").factors == ("B", "2", "C", "N")


def test_any_axes_have_any_rank():
    assert parse_shape("[*S]").ranks is None
    assert parse_shape("[]").ranks == (0,)


def test_symbols_stand_as_often_as_they_are_written():
    assert list(parse_shape("[C·kernel_h, 3 + C, ∏filter_space]").symbols()) == ["C", "kernel_h", "C", "filter_space"]


def test_only_a_lone_symbol_defines_a_length():
    (axes,) = (form.axes for form in parse_shape("[N, 3, C·2, 3 + C, ∏filter_space]").forms)
    assert [axis.symbol for axis in axes] == ["N", None, None, None, None]


@pytest.mark.parametrize("text", ["N, C", "[N-1]", "[N·]", "[N] words", "", "[N, [C], M]", "[N,, C]"])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ShapeError):
        parse_shape(text)
