"""Sizes as ranges of numbers: a symbol changes wherever the shape of the layout, the rank and the parameters has it."""

import pytest

from mluops_gtest.authoring import Baseline, DType, Layout, Operator, OutputSpec, Status, TensorSpec, axis, exact
from mluops_gtest.authoring import checks as groups
from mluops_gtest.catalog.make import unchecked_layout
from mluops_gtest.catalog.violation_kinds import kinds_of
from mluops_gtest.catalog.violations import broken_checks
from mluops_gtest.core.case import Case
from mluops_gtest.core.tensor import Tensor, TensorDesc

FLOATS = (DType.FLOAT,)
BY_LAYOUT = "[[D,] H, C] as ARRAY, [C, H] as NCHW"


def folds(layouts=(Layout.ARRAY, Layout.NCHW), checks=()):
    """out[N·D·H] of rows[N, C] and a matrix whose axes follow its layout."""
    return Operator(
        name="folds",
        released_name="folds",
        op_type=("FOLDS", 1),
        summary="out = rows · matrix",
        inputs=(TensorSpec("rows", "[N, C]", FLOATS), TensorSpec("matrix", BY_LAYOUT, FLOATS, layouts)),
        outputs=(OutputSpec("out", "[N·D·H]", {DType.FLOAT: exact()}),),
        axes={"channels": axis("C", of="matrix")},
        checks=checks or (groups.layouts(doc=""), groups.ranks(doc=""), groups.dims(doc="")),
        reference=lambda call: Baseline({}),
        kernel=lambda call: Status.SUCCESS,
    )


def fold(matrix, layout=Layout.ARRAY):
    """A valid call of 2 rows and 3 channels."""
    height = matrix[-2] * (matrix[0] if len(matrix) == 3 else 1) if layout is Layout.ARRAY else matrix[1]
    dims = {"rows": (2, 3), "matrix": matrix, "out": (2 * height,)}
    rows, weights, out = (
        Tensor(name, TensorDesc(DType.FLOAT, layout if name == "matrix" else Layout.ARRAY, lengths))
        for name, lengths in dims.items()
    )
    return Case("folds/case", "folds", (rows, weights), (out,), {}, ((),))


def changed_dims(base, slug, operator=None):
    kind = next(kind for kind in kinds_of(operator or folds(), base) if kind.slug == slug)
    return {tensor.id: tensor.desc.dims for tensor in kind.apply(base).tensors}


@pytest.mark.parametrize(
    ("matrix", "layout", "slug", "wanted"),
    [
        ((5, 3), Layout.ARRAY, "all_c_more", {"rows": (2, 4), "matrix": (5, 4), "out": (10,)}),
        ((3, 5), Layout.NCHW, "all_c_more", {"rows": (2, 4), "matrix": (4, 5), "out": (10,)}),
        ((7, 5, 3), Layout.ARRAY, "all_d_more", {"rows": (2, 3), "matrix": (8, 5, 3), "out": (80,)}),
        ((7, 5, 3), Layout.ARRAY, "all_h_less", {"rows": (2, 3), "matrix": (7, 4, 3), "out": (56,)}),
        ((5, 3), Layout.ARRAY, "all_h_more", {"rows": (2, 3), "matrix": (6, 3), "out": (12,)}),
    ],
)
def test_a_symbol_changes_where_the_layout_has_it_and_in_products(matrix, layout, slug, wanted):
    base = fold(matrix, layout)
    assert broken_checks(folds(), base) == ()
    assert changed_dims(base, slug) == wanted


def test_a_leading_axis_that_is_missing_does_not_change():
    slugs = {kind.slug for kind in kinds_of(folds(), fold((5, 3)))}
    assert "all_h_more" in slugs
    assert not any(slug.startswith("all_d") for slug in slugs)


def test_layouts_that_are_not_checked_are_not_broken():
    base, unchecked = fold((5, 3)), folds(None)
    assert any(kind.category == "layout" and kind.target == "matrix" for kind in kinds_of(folds(), base))
    assert not any(kind.category == "layout" and kind.target == "matrix" for kind in kinds_of(unchecked, base))


def test_layouts_that_are_not_checked_are_never_others():
    other = fold((3, 5), Layout.NCHW)
    assert unchecked_layout(other, folds()) is None
    assert unchecked_layout(other, folds(None)) == "matrix"
    assert unchecked_layout(fold((5, 3)), folds(None)) is None
