"""The same weights in every layout, found again by their place."""

import numpy as np
import pytest

from generators._shared.connections import axis_letters, extents, laid_out, weights_by_offset, without_offset
from mluops_gtest.authoring import DType, Layout, TensorDesc

# Where weight [kd, kh, kw, ci, co] stands in a filter of each layout; without kd for four axes.
PLACES = {
    (Layout.NHWC, 4): lambda kh, kw, ci, co: (co, kh, kw, ci),
    (Layout.NCHW, 4): lambda kh, kw, ci, co: (co, ci, kh, kw),
    (Layout.HWCN, 4): lambda kh, kw, ci, co: (kh, kw, ci, co),
    (Layout.ARRAY, 4): lambda kh, kw, ci, co: (kh, kw, ci, co),
    (Layout.NDHWC, 5): lambda kd, kh, kw, ci, co: (co, kd, kh, kw, ci),
    (Layout.NCDHW, 5): lambda kd, kh, kw, ci, co: (co, ci, kd, kh, kw),
    (Layout.ARRAY, 5): lambda kd, kh, kw, ci, co: (kd, kh, kw, ci, co),
}


@pytest.mark.parametrize(("layout", "rank"), PLACES, ids=lambda value: getattr(value, "value", value))
def test_every_weight_stands_where_the_layout_says(layout, rank):
    kernel = (4, 2, 3)[-(rank - 2) :]
    weights = np.arange(np.prod(kernel) * 5 * 6, dtype="<f4").reshape(-1, 5, 6)
    filters = laid_out(weights, kernel, layout)
    for place in np.ndindex(*kernel, 5, 6):
        offset = np.ravel_multi_index(place[:-2], kernel)
        assert filters[PLACES[layout, rank](*place)] == weights[offset, place[-2], place[-1]]
    np.testing.assert_array_equal(weights_by_offset(filters, layout), weights)
    assert extents(TensorDesc(DType.FLOAT, layout, filters.shape)) == (len(weights), 5, 6)


def test_a_layout_that_does_not_fit_its_rank_has_another_number_of_letters():
    assert axis_letters(Layout.ARRAY, 4) == "HWCN"
    assert len(axis_letters(Layout.NDHWC, 4)) == 5
    with pytest.raises(ValueError, match=r"layout NHWC has 4 axes, kernel \(1, 1, 1\) makes 5"):
        laid_out(np.zeros((1, 1, 1)), (1, 1, 1), Layout.NHWC)


@pytest.mark.parametrize(("layout", "rank"), PLACES, ids=lambda value: getattr(value, "value", value))
def test_without_an_offset_its_weights_alone_are_0(layout, rank):
    kernel = (4, 2, 3)[-(rank - 2) :]
    weights = np.arange(1, np.prod(kernel) * 5 * 6 + 1, dtype="<f4").reshape(-1, 5, 6)
    filters = laid_out(weights, kernel, layout)
    lost = weights_by_offset(without_offset(filters, layout, 4), layout)
    wanted = weights.copy()
    wanted[4] = 0
    np.testing.assert_array_equal(lost, wanted)
    assert filters.all()
