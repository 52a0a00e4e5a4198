"""masked_col2im_forward: the rulings, the recipes."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from generators.masked_col2im_forward.mutants import Steps, apply, float_offsets
from generators.masked_col2im_forward.recipes import KINDS, column_values
from generators.masked_im2col_forward.recipes import feature
from mluops_gtest.authoring import Draw, DType, Layout, OpCall, Status
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation
from tests.conftest import ROOT
from tests.support.operator_calls import BOTH, OPERATORS, bits_of, counting, poisoned_call

OPERATOR = OPERATORS["masked_col2im_forward"]
STORAGE = {DType.FLOAT: "<f4", DType.HALF: "<f2"}


def call_for(col, mask_h, mask_w, size) -> OpCall:
    """A valid call whose output holds poison."""
    inputs = {"col": col, "mask_h_idx": np.array(mask_h, "<i4"), "mask_w_idx": np.array(mask_w, "<i4")}
    return poisoned_call(OPERATOR, {}, inputs, {"im": (1, len(col), *size)}, {"im": Layout.NCHW})


# Rulings.


@pytest.fixture(params=BOTH)
def im(request):
    """Computes im by the reference or by the kernel."""
    return lambda *args: request.param(OPERATOR, call_for(*args))["im"]


def test_x_is_the_column_and_comes_from_mask_w_idx(im) -> None:
    assert im(counting(2, 2), [0, 1], [2, 0], (2, 3)).tolist() == [[[[0, 0, 1], [2, 0, 0]], [[0, 0, 3], [4, 0, 0]]]]


def test_columns_follow_their_masks_in_any_order(im) -> None:
    assert im(counting(1, 4), [1, 1, 0, 0], [1, 0, 1, 0], (2, 2)).tolist() == [[[[4, 3], [2, 1]]]]


def test_without_masks_im_is_cleared(im) -> None:
    cleared = im(counting(3, 0), [], [], (2, 4))
    assert cleared.shape == (1, 3, 2, 4)
    assert not bits_of(cleared).any()


@pytest.mark.parametrize("null", [(), ("col", "mask_h_idx", "mask_w_idx")])
def test_without_masks_no_pointer_but_that_of_im_matters(null) -> None:
    call = call_for(counting(2, 0), [], [], (2, 2))
    inputs = {name: replace(arg, array=None, null=True) if name in null else arg for name, arg in call.inputs.items()}
    call = replace(call, inputs=inputs, workspace_size=8)
    answer = OPERATOR.answer(call)
    assert (answer.status, answer.check) == (Status.SUCCESS, "mask_h_idx_empty")
    assert OPERATOR.broken(call) is None
    assert not OPERATOR.reference(call).outputs["im"].any()
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert not call.array("im").any()


@pytest.mark.parametrize(
    ("dtype", "patterns"),
    [
        ("<f4", [0x80000000, 0x7F800001, 0xFFC12345, 0x7F800000, 0x00000001, 0x807FFFFF]),
        ("<f2", [0x8000, 0x7C01, 0xFE12, 0x7C00, 0x0001, 0x83FF]),
    ],
)
def test_bits_survive_and_the_rest_is_plus_zero(im, dtype: str, patterns: list[int]) -> None:
    col = np.array(patterns, dtype=f"<u{dtype[-1]}").view(dtype).reshape(1, 6)
    image = im(col, [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], (2, 4))
    assert bits_of(image).ravel().tolist() == [*patterns[:3], 0, *patterns[3:], 0]


def normalised(col: np.ndarray, _: int) -> np.ndarray:
    """One zero and one NaN instead of all."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        return np.where(np.isnan(col), col.dtype.type(np.nan), col + col.dtype.type(0))


@pytest.mark.parametrize("dtype", STORAGE)
@pytest.mark.parametrize("values", ["denormal", "nan"])
def test_lost_bits_that_the_criterion_cannot_see_are_a_note_or_with_bitwise_a_failure(
    dtype: DType, values: str
) -> None:
    (draft,) = (d for d in declared() if d.id == f"masked_col2im_forward/values_{values}_{dtype.value}")
    caller = InlineCaller(Implementation("normalises", partial(apply, Steps(values=normalised))))
    case = make_case(draft, OPERATOR)
    plain, bitwise = (CaseRun(caller, Options(bitwise=asked)).run_case(case, OPERATOR) for asked in (False, True))
    assert plain.outcome is Outcome.PASSED
    assert any("bit for bit" in note for note in plain.notes), plain.notes
    assert bitwise.outcome is Outcome.FAILED


@pytest.mark.slow
def test_channel_offsets_in_float_show_where_planes_are_odd() -> None:
    (draft,) = (d for d in declared() if d.id == "masked_col2im_forward/odd_planes_past_2p24")
    caller = InlineCaller(Implementation("float offsets", partial(apply, Steps(places=float_offsets))))
    assert CaseRun(caller, Options()).run_case(make_case(draft, OPERATOR), OPERATOR).outcome is Outcome.FAILED


# What the document takes for granted.


@pytest.mark.parametrize(
    ("mask_h", "mask_w", "told"),
    [
        ([2], [0], "mask_h_idx leaves 0 … 1"),
        ([-1], [0], "mask_h_idx leaves 0 … 1"),
        ([0], [3], "mask_w_idx leaves 0 … 2"),
        ([1], [-1], "mask_w_idx leaves 0 … 2"),
        ([0, 1, 0], [2, 1, 2], "masks 0 and 2 are the same pixel [0, 2]"),
        ([0, 1], [2, 1], None),
        # Row · width + column meets that of another pixel where a column is outside; told as what it is.
        ([0, 1], [3, 0], "mask_w_idx leaves 0 … 2"),
    ],
)
def test_positions_outside_and_repeated_ones_are_broken(mask_h, mask_w, told) -> None:
    assert OPERATOR.broken(call_for(counting(1, len(mask_h)), mask_h, mask_w, (2, 3))) == told


# Recipes and declarations.


def draw_case(recipe: str, dtype: DType = DType.FLOAT, seed: int = 3, **args):
    return OPERATOR.recipes[recipe](Draw(seed), {}, dtype, **args)


def positions(inputs) -> list[tuple[int, int]]:
    return list(zip(inputs["mask_h_idx"].tolist(), inputs["mask_w_idx"].tolist(), strict=True))


@pytest.mark.parametrize("recipe", ["detected", "pixels"])
@pytest.mark.parametrize("masks", [0, 1, 2, 3, 7, 15])
def test_recipes_name_distinct_pixels_of_the_image(recipe: str, masks: int) -> None:
    for seed in range(20):
        inputs = draw_case(recipe, seed=seed, image=(2, 3, 5), masks=masks).inputs
        assert inputs["col"].shape == (2, masks)
        named = positions(inputs)
        assert len(set(named)) == masks
        assert set(named) <= set(itertools.product(range(3), range(5)))


def test_a_detector_lists_neighbours_in_row_major_order() -> None:
    named = positions(draw_case("detected", image=(1, 20, 20), masks=200).inputs)
    assert named == sorted(named)
    beside = sum((h, w + 1) in set(named) for h, w in named)
    # Of random pixels half have a masked neighbour on the right.
    assert beside > 140


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("rows", lambda pixel: pixel),
        ("columns", lambda pixel: pixel[::-1]),
        ("descending", lambda pixel: (-pixel[0], -pixel[1])),
    ],
)
def test_pixels_come_in_the_order_that_is_asked_for(order: str, key) -> None:
    named = positions(draw_case("pixels", image=(1, 6, 7), masks=20, order=order).inputs)
    assert named == sorted(named, key=key)
    shuffled = positions(draw_case("pixels", image=(1, 6, 7), masks=20).inputs)
    assert set(shuffled) == set(named)
    assert shuffled != named


def test_the_ends_of_the_range_are_masked() -> None:
    for seed in range(10):
        assert positions(draw_case("pixels", seed=seed, image=(1, 4, 5), masks=1, first=7).inputs) == [(3, 4)]
        named = positions(draw_case("pixels", seed=seed, image=(1, 4, 5), masks=6, first=7).inputs)
        assert {(1, 2), (3, 4)} <= set(named)
        assert min(named) == (1, 2)


# Of this operator and of masked_im2col_forward.
of_both = pytest.mark.parametrize("values_of", [column_values, feature])


@of_both
@pytest.mark.parametrize("kind", ["any_bits", "nan", "nan_only"])
def test_no_value_is_the_mark_of_unwritten_memory(values_of: Callable[..., np.ndarray], kind: str) -> None:
    # Half has 65536 patterns: among 2^20 random ones the poison was certainly drawn, and replaced.
    values = bits_of(values_of(Draw(3), DType.HALF, (1024, 1024), kind))
    poison = int.from_bytes(DType.HALF.poison, "little")
    assert not (values == poison).any()
    assert (values == (poison ^ 1)).any()


@of_both
@pytest.mark.parametrize("dtype", STORAGE)
def test_kinds_hold_what_they_say(values_of: Callable[..., np.ndarray], dtype: DType) -> None:
    of = {kind: values_of(Draw(3), dtype, (40, 50), kind) for kind in KINDS}
    assert all(values.dtype == STORAGE[dtype] and values.shape == (40, 50) for values in of.values())
    assert all(np.isfinite(of[kind]).all() and (of[kind] != 0).all() for kind in ("full", "wide"))
    assert len(np.unique(of["full"])) > 1000
    assert np.abs(of["wide"]).max() > np.abs(of["full"]).max()
    assert (np.abs(of["denormal"]) < np.finfo(dtype.storage).tiny).all()
    sign = 1 << (8 * dtype.itemsize - 1)
    assert {0, sign} <= set(bits_of(of["denormal"]).ravel().tolist())
    with np.errstate(invalid="ignore"):
        found = {kind: {"nan": np.isnan(v).any(), "inf": np.isinf(v).any()} for kind, v in of.items()}
    assert found["nan"] == {"nan": True, "inf": False}
    assert found["inf"] == {"nan": False, "inf": True}
    assert found["nan_inf"] == found["any_bits"] | {"inf": True} == {"nan": True, "inf": True}
    assert {np.inf, -np.inf} <= set(of["inf"].ravel().tolist())
    assert np.isnan(of["nan_only"]).all()
    quiet = bits_of(of["nan_only"]) >> (9 if dtype is DType.HALF else 22) & 1
    assert set(quiet.ravel().tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("recipe", "args", "message"),
    [
        ("pixels", {"image": (1, 2, 2), "masks": 1, "values": "nans"}, "unknown kind of values 'nans'"),
        ("pixels", {"image": (1, 2, 2), "masks": 1, "values": "nan_inf"}, "no value of the sort"),
        ("pixels", {"image": (1, 2, 2), "masks": 5}, "5 masks need as many pixels; there are 4"),
        ("pixels", {"image": (1, 2, 2), "masks": 3, "first": 2}, "3 masks need as many pixels; there are 2"),
        ("detected", {"image": (1, 2, 2), "masks": 5}, "5 masks need as many pixels; there are 4"),
        ("listed", {"mask_h": (2,), "mask_w": (0,), "image": (1, 2, 2)}, "outside of the image of 2 rows"),
    ],
)
def test_recipes_refuse_what_they_cannot_make(recipe: str, args: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_case(recipe, **args)


def declared():
    return load_declarations(ROOT / "cases" / "masked_col2im_forward.yaml", OPERATOR)


def test_network_cases_have_the_documents_shapes() -> None:
    network = [make_case(draft, OPERATOR) for draft in declared() if "network" in draft.tags]
    assert {case.outputs[0].desc.dtype for case in network} == set(STORAGE)
    for case in network:
        dims = [tensor.desc.dims for tensor in (*case.inputs, *case.outputs)]
        assert dims == [(256, 200), (200,), (200,), (1, 256, 20, 20)]


def test_the_documents_boundaries_are_declared_as_printed_and_as_meant() -> None:
    drafts = {d.id.partition("/")[2]: d for d in declared()}
    for dtype, channels in (("float", 163841), ("half", 327681)):
        draft = drafts[f"document_boundary_{dtype}"]
        assert (draft.dtype, draft.args["image"], draft.args["masks"]) == (dtype, (channels, 20, 20), 2)
    printed = make_case(drafts["document_boundary_as_printed"], OPERATOR)
    dims = [tensor.desc.dims for tensor in (*printed.inputs, *printed.outputs)]
    assert dims == [(327681, 2), (2,), (2,), (1, 327680, 20, 20)]


def test_theory_counts_all_of_im() -> None:
    call = call_for(counting(3, 2), [0, 1], [0, 1], (4, 5))
    assert OPERATOR.theory(call).io_bytes == 3 * 2 * 4 + 2 * 2 * 4 + 3 * 4 * 5 * 4
    assert OPERATOR.theory(call).ops == 0
