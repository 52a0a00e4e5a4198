"""What follows from axes by layout, by the value of a parameter and behind a leading one that may be missing."""

import numpy as np
import pytest

from mluops_gtest.authoring import (
    Baseline,
    DType,
    Layout,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    Status,
    TensorSpec,
    axis,
    call_of,
    exact,
)
from mluops_gtest.authoring import checks as groups
from mluops_gtest.authoring.reductions import axis_reductions
from mluops_gtest.core.shape import ShapeError


def multiplies(layouts=(Layout.ARRAY, Layout.NCHW), **fields):
    """out[N, K] = rows[N, C] · matrix, whose axes follow its layout; one scale per row or per element."""
    floats = (DType.FLOAT,)
    declared = {
        "inputs": (
            TensorSpec("rows", "[N, C]", floats),
            TensorSpec("matrix", "[[D,] C, K] as ARRAY, [K, C] as NCHW", floats, layouts),
            TensorSpec("scale", "[N, 1] if aligned = 1, [N, C] if aligned = 0", floats),
        ),
        "outputs": (OutputSpec("out", "[N·D, K]", {DType.FLOAT: exact()}),),
        "params": ParamMessage("multiplies_param", 1, "MultipliesParam", (ParamField("aligned", 1, allowed=(0, 1)),)),
        "axes": {"channels": axis("C", of="matrix"), "columns": axis("K", of="matrix")},
    }
    return Operator(
        name="multiplies",
        released_name="multiplies",
        op_type=("MULTIPLIES", 1),
        summary="out = rows · matrix",
        reference=lambda call: Baseline({}),
        kernel=lambda call: Status.SUCCESS,
        **{"checks": (), **declared, **fields},
    )


def multiplication(matrix=(3, 5), layout=Layout.ARRAY, aligned=0, rows=(2, 3), scale=(2, 3), out=(2, 5)):
    shapes = {"rows": rows, "matrix": matrix, "scale": scale}
    arrays = {name: np.arange(np.prod(dims), dtype="<f4").reshape(dims) for name, dims in shapes.items()}
    return call_of("multiplies", {"aligned": aligned}, arrays, {"out": np.ones(out, "<f4")}, {"matrix": layout})


def test_axes_by_layout_are_checked_where_they_define_nothing():
    checks = multiplies(checks=(groups.dims(doc="§1"),)).checks
    assert [(check.name, check.message) for check in checks] == [
        ("rows_dim1", "axis 1 of rows must be C"),
        ("scale_dim0", "axis 0 of scale must be N"),
        ("scale_dim1", "axis 1 of scale must be 1 or C"),
        ("out_dim0", "axis 0 of out must be N·D"),
        ("out_dim1", "axis 1 of out must be K"),
    ]


@pytest.mark.parametrize(
    ("broken", "changes"),
    [
        ((), {}),
        ((), {"matrix": (5, 3), "layout": Layout.NCHW}),
        (("rows_dim1", "scale_dim1", "out_dim1"), {"matrix": (3, 5), "layout": Layout.NCHW}),
        ((), {"matrix": (4, 3, 5), "out": (8, 5)}),
        (("out_dim0",), {"matrix": (4, 3, 5)}),
        (("scale_dim1",), {"aligned": 1}),
        ((), {"aligned": 1, "scale": (2, 1)}),
        (("scale_dim0",), {"scale": (3, 3)}),
        # No form holds: another check answers.
        ((), {"aligned": 2, "scale": (7, 7)}),
    ],
    ids=str,
)
def test_the_form_that_holds_for_a_call_decides(broken, changes):
    checks = multiplies(checks=(groups.dims(doc=""),)).checks
    assert tuple(check.name for check in checks if not check.holds(multiplication(**changes))) == broken


def test_a_check_cannot_look_where_the_layout_has_no_such_rank():
    (check,) = multiplies(checks=(groups.dims("rows.1", doc=""),)).checks
    with pytest.raises(ShapeError, match=r"matrix \[4, 3, 5\] as NCHW has none of its shapes"):
        check.holds(multiplication(matrix=(4, 3, 5), layout=Layout.NCHW))


def test_axes_are_numbered_as_where_none_is_missing():
    (check,) = multiplies(axes={}, checks=(groups.dims("matrix.1", doc=""),)).checks
    assert check.name == "matrix_dim1"
    assert check.holds(multiplication())
    assert not check.holds(multiplication(matrix=(4, 5)))
    assert not check.holds(multiplication(matrix=(4, 7, 5)))


def test_a_size_by_layout_is_that_of_a_tensor_that_has_one_number():
    sizes = multiplies().sizes
    assert {name: (size.tensor, size.axis) for name, size in sizes.items()} == {
        "channels": ("rows", 1),
        "columns": ("out", 1),
    }


@pytest.mark.parametrize(("layout", "dims", "left"), [(Layout.ARRAY, (3, 5), (1, 5)), (Layout.NCHW, (5, 3), (5, 1))])
def test_an_axis_is_shorter_where_the_layout_has_it(layout, dims, left):
    channels = axis_reductions(multiplies())["channels"]
    large = multiplication(matrix=dims, layout=layout)
    assert channels.size(large) == 3
    made = channels.without(large, 0, 2)
    assert {name: array.shape for name, array in made.inputs.items()} == {
        "rows": (2, 1),
        "matrix": left,
        "scale": (2, 1),
    }


def test_layouts_that_are_not_checked_have_no_check():
    operator = multiplies(layouts=None, checks=(groups.layouts(doc=""),))
    assert [check.name for check in operator.checks] == ["rows_layout", "scale_layout", "out_layout"]
    assert operator.tensor("matrix").own_layouts == (Layout.ARRAY,)
