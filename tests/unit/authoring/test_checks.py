"""Each shared check on a call that just holds and on one that just does not."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring import DType, Handle, Layout, OpCall, TensorArg, TensorDesc, argument, checks
from mluops_gtest.core.call import Status
from mluops_gtest.core.declaration import Check

DOC = "§2.1"
ONES = np.ones((2, 3), np.float32)
X = argument(ONES)
OUT = argument(np.ones(4, np.int32))
LARGE_SIDE = 2**16


def call(x: TensorArg | None = X, out: TensorArg | None = OUT, **fields: object) -> OpCall:
    """A call with one input `x`, one output `out` and parameters, valid unless told otherwise."""
    params: Mapping[str, object] = {"pad": (0, 1), "size": 3}
    return replace(OpCall("toy", params, {"x": x}, {"out": out}), **fields)


def described(dims: tuple[int, ...], strides: tuple[int, ...] | None = None, *, null: bool = False) -> TensorArg:
    """A descriptor without a buffer."""
    return TensorArg(TensorDesc(DType.FLOAT, Layout.ARRAY, dims, strides), None, null)


def only(found: tuple[Check, ...]) -> Check:
    (check,) = found
    return check


CONTIGUOUS, SMALL = only(checks.contiguous(["x"], DOC)), only(checks.not_large(["x"], DOC))
POINTER = only(checks.pointers_present(["x"], DOC))
CASES = {
    "handle_null": (checks.handle_present(DOC), call(), call(handle=None)),
    "conv_desc_null": (checks.params_present("conv_desc", DOC), call(), call(params=None)),
    "pad_array_null": (
        only(checks.param_arrays_present(["pad"], DOC)),
        call(params={"pad": ()}),
        call(params={"pad": None}),
    ),
    "x_desc_null": (only(checks.descriptors_present(["x"], DOC)), call(out=None), call(x=None)),
    "out_desc_null": (only(checks.descriptors_present(["out"], DOC)), call(x=None), call(out=None)),
    "arch": (checks.arch_supported(DOC), call(handle=Handle(arch=370)), call(handle=Handle(arch=369))),
    "x_rank": (checks.rank("x", 2, DOC), call(), call(described((2, 3, 1)))),
    "x_dim1": (checks.dim("x", 1, 3, "three columns", DOC), call(), call(described((2, 4)))),
    "x_dim0": (
        checks.dim("x", 0, lambda c: c.tensor("out").dims[0] // 2, "half of out", DOC),
        call(),
        call(out=described((6,))),
    ),
    "x_dtype": (
        checks.dtype("x", (DType.FLOAT, DType.HALF), DOC),
        call(argument(ONES.astype(np.float16))),
        call(argument(ONES.astype(np.int32))),
    ),
    "out_dtype_equal": (
        checks.same_dtype("out", "x", DOC, "dtype_equal"),
        call(argument(np.ones(1, np.int32))),
        call(argument(np.ones(1, np.int64))),
    ),
    "x_layout": (
        checks.layout("x", (Layout.ARRAY, Layout.NCHW), DOC),
        call(argument(ONES, Layout.NCHW)),
        call(argument(ONES, Layout.NHWC)),
    ),
    "x_strided": (CONTIGUOUS, call(described((2, 3), (3, 1))), call(described((2, 3), (4, 1)))),
    "x_large": (
        SMALL,
        call(described((LARGE_SIDE, LARGE_SIDE // 2 - 1))),
        call(described((LARGE_SIDE, LARGE_SIDE // 2))),
    ),
    "x_empty": (checks.not_empty("x", DOC), call(), call(described((2, 0)))),
    "x_ptr_null": (POINTER, call(described((2, 3))), call(described((2, 3), null=True))),
    "workspace_null": (checks.workspace_present(DOC), call(workspace_size=0), call(workspace_size=1)),
    "size_odd": (
        checks.require("size_odd", lambda c: c.param("size") % 2 == 1, "size must be odd", DOC),
        call(),
        call(params={"size": 4}),
    ),
}
STATUSES = {
    "arch": Status.ARCH_MISMATCH,
    "x_strided": Status.NOT_SUPPORTED,
    "x_large": Status.NOT_SUPPORTED,
    "x_empty": Status.SUCCESS,
}


@pytest.mark.parametrize("name", CASES)
def test_a_check_holds_up_to_its_limit(name: str) -> None:
    check, good, bad = CASES[name]
    assert check.name == name
    assert check.status is STATUSES.get(name, Status.BAD_PARAM)
    assert check.doc == DOC
    assert check.holds(good) is True
    assert check.holds(bad) is False


def test_names_end_before_the_check_of_that_name() -> None:
    found = (checks.handle_present(DOC), *checks.descriptors_present(["x", "out"], DOC), checks.rank("x", 2, DOC))
    assert checks.names_before("x_rank", found) == ("handle_null", "x_desc_null", "out_desc_null")
    assert checks.names_before("handle_null", found) == ()


def test_one_check_per_tensor_each_about_its_own() -> None:
    for make, word in (
        (checks.descriptors_present, "desc_null"),
        (checks.contiguous, "strided"),
        (checks.not_large, "large"),
        (checks.pointers_present, "ptr_null"),
    ):
        assert [check.name for check in make(["x", "out"], DOC)] == [f"x_{word}", f"out_{word}"]
    first, second = checks.pointers_present(["x", "out"], DOC)
    null_x = call(described((2, 3), null=True))
    assert (first.holds(null_x), second.holds(null_x)) == (False, True)


def test_a_rank_may_be_one_of_several() -> None:
    check = checks.rank("x", (4, 5), DOC)
    assert [check.holds(call(described((1,) * rank))) for rank in (3, 4, 5, 6)] == [False, True, True, False]
    assert check.message == "x must have rank 4 or 5"


def test_strides_of_an_empty_tensor_do_not_matter_and_the_product_of_dims_does_not_wrap() -> None:
    assert CONTIGUOUS.holds(call(described((0, 3), (100, 1))))
    assert not SMALL.holds(call(described((2**32, 2**32))))


def test_the_pointer_of_an_empty_tensor_may_be_null_where_allowed() -> None:
    empty, full = (call(described(dims, null=True)) for dims in ((0, 3), (2, 3)))
    lenient = only(checks.pointers_present(["x"], DOC, empty_may_be_null=True))
    assert [POINTER.holds(empty), lenient.holds(empty), lenient.holds(full)] == [False, True, False]


def test_what_a_check_says_beside_its_limit() -> None:
    assert checks.not_empty("x", DOC, Status.BAD_PARAM).status is Status.BAD_PARAM
    assert checks.workspace_present(DOC).holds(call(workspace=np.empty(8, np.uint8), workspace_size=8))
    assert not checks.arch_supported(DOC).holds(call(handle=None))
    check = checks.require("never", lambda _: True, "message", DOC, Status.NOT_SUPPORTED, subsumed="x_rank is stricter")
    assert (check.status, check.subsumed) == (Status.NOT_SUPPORTED, "x_rank is stricter")
