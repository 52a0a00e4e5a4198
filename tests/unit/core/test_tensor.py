"""Descriptors: exact counts, extents, strides; and where a function of an operator is written."""

import functools

import numpy as np
import pytest

from mluops_gtest.core.operator import source_of
from mluops_gtest.core.tensor import DType, Layout, Tensor, TensorDesc


def desc(dims, strides=None):
    return TensorDesc(DType.FLOAT, Layout.ARRAY, dims, strides)


@pytest.mark.parametrize(
    ("dims", "strides", "strided", "extent"),
    [
        ((2, 3), None, False, 6),
        ((2, 3), (3, 1), False, 6),
        ((2, 3), (4, 1), True, 7),
        ((2, 3), (1, 2), True, 6),
        ((0, 3), (9, 9), False, 0),
        ((1,), (2,), False, 1),
        ((1, 3), (1000, 1), False, 3),
        ((2, 1, 3), (3, 0, 1), False, 6),
        ((2, 1, 3), (6, 6, 1), True, 9),
        ((4, 1), (1, 2**40), False, 4),
        ((4, 1), (2, 1), True, 7),
        ((1, 1), (5, 7), False, 1),
        ((), None, False, 1),
    ],
)
def test_strides_and_extent(dims, strides, strided, extent):
    assert desc(dims, strides).is_strided is strided
    assert desc(dims, strides).extent == extent


def test_counts_do_not_overflow():
    assert desc((2**40, 2**40)).count == 2**80
    assert desc((2**31,)).is_large
    assert not desc((2**31 - 1,)).is_large


def test_numbers_are_unique_and_words_are_found_again():
    assert len({d.schema_number for d in DType}) == len(DType)
    assert all(DType.named(d.value) is d for d in DType)
    assert all(Layout.named(layout.value) is layout for layout in Layout)
    assert all(len(d.poison) == d.itemsize for d in DType)


@pytest.mark.parametrize(
    ("dims", "strides", "expected"),
    [
        ((2, 3), (4, 1), [[0, 1, 2], [4, 5, 6]]),
        # The stride of a single row may be anything.
        ((1, 2), (2**63 - 1, 1), [[0, 1]]),
        ((1, 2), (2**63 - 1, 2), [[0, 2]]),
    ],
)
def test_a_strided_view_reaches_the_right_elements(dims, strides, expected):
    strided = desc(dims, strides)
    assert strided.view(np.arange(strided.extent, dtype="<f4")).tolist() == expected


@pytest.mark.parametrize(
    ("dims", "strides", "overlaps", "dense"),
    [
        ((2, 3), (1, 2), False, True),
        ((2, 3), (4, 1), False, False),
        ((2, 3), (0, 1), True, False),
        ((2, 3), (2, 1), True, False),
        # The axes reach into each other, and no two elements meet.
        ((2, 3), (3, 2), False, False),
        ((2, 4), (4, 2), True, False),
        ((2, 1, 3), (1, 0, 2), False, True),
        ((0, 3), (0, 0), False, True),
        # As many as would not fit into memory.
        ((1 << 20, 1 << 20), (0, 1), True, False),
        ((1 << 20, 1 << 20), (1, 1 << 20), False, True),
    ],
)
def test_shared_places_and_gaps(dims, strides, overlaps, dense):
    assert desc(dims, strides).overlaps is overlaps
    assert desc(dims, strides).is_empty or desc(dims, strides).is_dense is dense


@pytest.mark.parametrize(
    ("dims", "strides", "smaller", "expected"),
    [
        ((4, 6), (1, 4), (2, 3), (1, 2)),
        ((4, 6), (8, 1), (4, 3), (5, 1)),
        ((4, 6), (12, 2), (4, 1), (2, 2)),
        ((4, 6), (0, 1), (4, 2), (0, 1)),
        ((2, 3, 4), (4, 8, 1), (2, 3, 2), (2, 4, 1)),
        ((4, 6), (6, 1), (4, 3), None),
        ((4, 6), (1, 4), (4,), None),
    ],
)
def test_other_dims_keep_the_order_of_the_axes_and_their_gaps(dims, strides, smaller, expected):
    assert desc(dims, strides).resized(smaller).strides == expected


def test_values_are_laid_out_by_strides():
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    assert Tensor("x", desc((2, 3), (4, 1))).holding(values).data.tolist() == [0, 1, 2, 3, 3, 4, 5]
    assert Tensor("x", desc((2, 3), (1, 2))).holding(values).data.tolist() == [0, 3, 1, 4, 2, 5]
    assert Tensor("x", desc((2, 3), (0, 1))).holding(values).values.tolist() == [[0, 1, 2], [0, 1, 2]]


def plain(): ...


class Method:
    def run(self): ...

    def __call__(self): ...


@functools.wraps(plain)
def wrapper(): ...


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (plain, plain),
        (functools.partial(functools.partial(plain, 1), 2), plain),
        (wrapper, plain),
        (Method().run, Method.run),
        (Method.run, Method.run),
        (Method(), Method.__call__),
    ],
)
def test_file_and_line_are_told(function, written):
    assert source_of(function) == f"{__file__}:{written.__code__.co_firstlineno}"


@pytest.mark.parametrize("function", [len, 7])
def test_what_has_no_source_is_told_as_it_is(function):
    assert source_of(function) == repr(function)
