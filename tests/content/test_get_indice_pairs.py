"""get_indice_pairs: the rulings, network shapes, the recipes."""

import contextlib
import dataclasses
import itertools
import math

import numpy as np
import pytest
from msgspec.structs import replace

from mluops_gtest.authoring import Draw, DType, Status, call_of
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.operator_parts import EXACT
from tests.support.operator_calls import OPERATORS, by_definition, poisoned_call

OPERATOR = OPERATORS["get_indice_pairs"]
POISON = np.frombuffer(b"\xa5" * 4, "<i4")[0]
ONES = (1, 1, 1)


def make_case(recipe, params, **arguments):
    return OPERATOR.recipes[recipe](Draw(1), params, DType.INT32, **arguments)


def call_for(indices, params, rows):
    """A call with so many rows for output sites, whose outputs hold poison."""
    offsets = math.prod(params["filter_space"])
    dims = {"indice_pairs": (offsets, 2, len(indices)), "out_indices": (rows, 4), "indice_num": (offsets,)}
    return poisoned_call(OPERATOR, params, {"indices": indices}, dims)


def assert_reference_and_kernel_are_the_definition(case, spare=0):
    indices, params = case.inputs["indices"], case.params
    rows = OPERATORS.part(OPERATOR.name, EXACT)(call_for(indices, params, 0))["num_act_out"]()
    expected = by_definition(OPERATOR, call_for(indices, params, rows))
    baseline = OPERATOR.reference(call_of(OPERATOR.name, params, {"indices": indices}))
    assert baseline.scalars == {"num_act_out": rows}
    for name, array in expected.items():
        assert baseline.outputs[name].dtype == np.dtype("<i4")
        np.testing.assert_array_equal(baseline.outputs[name], array, err_msg=name)
    call = call_for(indices, params, rows + spare)
    assert OPERATOR.kernel(call) is Status.SUCCESS
    assert call.scalars == {"num_act_out": rows}
    if rows + spare == 0:  # an empty tensor ends the call early
        return
    for name, array in expected.items():
        np.testing.assert_array_equal(call.array(name)[: len(array)], array, err_msg=name)
    assert (call.array("out_indices")[rows:] == POISON).all()


def test_scattered_sites_have_neighbours_in_sub_m():
    params = {"input_space": (1, 1, 6), "filter_space": (1, 1, 2), "sub_m": 1}
    recipe, neighbours = OPERATOR.recipes["scattered"], []
    for seed in range(20):
        with contextlib.suppress(ValueError):
            sites = np.sort(recipe(Draw(seed), params, DType.INT32, sites=2).inputs["indices"][:, 3])
            neighbours.append(sites[1] - sites[0])
    assert 0 < len(neighbours) < 20
    assert set(neighbours) == {1}


def test_network_twins_are_the_document():
    downwards = ("down_41x1440x1440", "down_21x720x720", "down_11x360x360", "out_5x180x180")
    for layer in (*downwards, "subm_41x1440x1440", "subm_5x180x180"):
        assert_reference_and_kernel_are_the_definition(make_case("cloud", {}, layer=layer, keep=32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "sites", "offsets", "outputs"),
    [
        ("subm_41x1440x1440", 248636, 27, 248636),
        ("down_41x1440x1440", 248636, 27, 280511),
        ("down_21x720x720", 280511, 27, 149100),
        ("down_11x360x360", 149100, 27, 58838),
        ("subm_5x180x180", 58838, 27, 58838),
        ("out_5x180x180", 58838, 3, 45406),
    ],
)
def test_network_cases_have_the_documents_shapes(layer, sites, offsets, outputs):
    case = make_case("cloud", {}, layer=layer)
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs))
    assert case.inputs["indices"].shape == (sites, 4)
    assert case.params["batch"] == 4
    assert baseline.outputs["indice_pairs"].shape == (offsets, 2, sites)
    assert baseline.outputs["out_indices"].shape == (outputs, 4)
    assert (baseline.outputs["indice_num"] > 0).all()


def answer_of(params, *sites, spare=0):
    case = make_case("listed", params, sites=tuple(itertools.chain(*sites)))
    assert_reference_and_kernel_are_the_definition(case, spare)
    return OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs)).outputs


def test_ruling_only_multiples_of_the_stride_are_outputs():
    # §3.2's division alone would also pair the site at 1 with output 0 at offset 0.
    params = {"input_space": (1, 1, 4), "filter_space": (1, 1, 2), "stride": (1, 1, 2)}
    outputs = answer_of(params, (0, 0, 0, 1), (0, 0, 0, 2))
    assert outputs["indice_num"].tolist() == [1, 1]
    assert outputs["indice_pairs"].tolist() == [[[1, -1], [1, -1]], [[0, -1], [0, -1]]]
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]


def test_ruling_no_output_is_taken_for_a_mark():
    params = {"input_space": (1, 1, 3), "filter_space": (1, 1, 1)}
    outputs = answer_of(params, (0, 0, 0, 2), (0, 0, 0, 0))
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 2]]
    assert outputs["indice_pairs"].tolist() == [[[0, 1], [1, 0]]]


def test_ruling_sub_m_uses_the_given_pad():
    params = {"input_space": (1, 1, 3), "filter_space": (1, 1, 3), "pad": (0, 0, 0), "sub_m": 1}
    outputs = answer_of(params, (0, 0, 0, 2), (0, 0, 0, 0), (0, 0, 0, 1))
    # Pad 0: offset k reaches k cells to the left, so the first offset is the identity.
    assert outputs["indice_num"].tolist() == [3, 2, 1]
    assert outputs["indice_pairs"][2].tolist() == [[0, -1, -1], [1, -1, -1]]
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_the_output_space_of_sub_m_is_the_input_space_whatever_the_pad():
    case = make_case("everywhere", {"input_space": (2, 3, 4), "filter_space": (3, 3, 3), "sub_m": 1})
    assert case.params["output_space"] == (2, 3, 4)


def test_a_kernel_that_does_not_fit_is_refused_when_the_output_space_is_derived():
    with pytest.raises(ValueError, match="the kernel does not fit"):
        make_case("everywhere", {"input_space": (2, 2, 2), "filter_space": (3, 1, 1)})


def test_no_output_at_all_is_computed_where_there_is_room():
    params = {"input_space": (1, 1, 4), "filter_space": ONES, "stride": (1, 1, 2), "output_space": (1, 1, 2)}
    outputs = answer_of(params, (0, 0, 0, 1), (0, 0, 0, 3), spare=2)
    assert outputs["indice_num"].tolist() == [0]
    assert (outputs["indice_pairs"] == -1).all()


def test_spare_rows_are_minus_one_in_the_baseline_and_too_few_are_refused():
    case = make_case("everywhere", {"input_space": (1, 1, 3), "filter_space": ONES})
    room = {"out_indices": np.empty((3, 4), "<i4")}
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))
    np.testing.assert_array_equal(baseline.outputs["out_indices"], case.inputs["indices"])
    room = {"out_indices": np.empty((5, 4), "<i4")}
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))
    assert baseline.outputs["out_indices"][3:].tolist() == [[-1] * 4] * 2
    room = {"out_indices": np.empty((2, 4), "<i4")}
    with pytest.raises(ValueError, match="2 rows for 3 output sites"):
        OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))


def test_theory_counts_every_tensor_once():
    case = make_case("everywhere", {"input_space": (1, 1, 3), "filter_space": (1, 1, 2)})
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs))
    theory = OPERATOR.theory(call_of(OPERATOR.name, case.params, case.inputs, baseline.outputs))
    assert (theory.io_bytes, theory.ops) == (4 * (12 + 8 + 12 + 2), 0)


@pytest.mark.parametrize(
    ("recipe", "arguments", "message"),
    [
        ("listed", {"sites": (0, 0, 0, 5)}, "distinct and inside"),
        ("listed", {"sites": (0, 0, 0, 1, 0, 0, 0, 1)}, "distinct and inside"),
        ("block", {"first": (0, 0, 0, 1), "size": (1, 1, 1, 5)}, "leaves the space"),
        ("cloud", {"layer": "out_5x180x180"}, "brings its own parameters"),
    ],
)
def test_recipes_refuse_what_they_cannot_make(recipe, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_case(recipe, {"input_space": (1, 1, 5), "filter_space": ONES}, **arguments)


def test_a_recipe_without_a_space_says_what_is_missing():
    with pytest.raises(ValueError, match="params must give filter_space and input_space"):
        make_case("everywhere", {})


# Checks that go through the axes of a space, and what each says of some axes alone.
def pick(call, name, axes):
    return [call.param(name)[axis] for axis in axes]


BY_AXIS = {
    **{
        f"{name}_value": lambda call, axes, name=name: len(call.param(name)) == 3 and min(pick(call, name, axes)) >= 1
        for name in ("input_space", "filter_space", "output_space")
    },
    "indices_dim0": lambda call, axes: (
        call.tensor("indices").dims[0] <= call.param("batch") * math.prod(pick(call, "input_space", axes))
    ),
    "out_indices_dim0": lambda call, axes: (
        call.tensor("out_indices").dims[0] <= call.param("batch") * math.prod(pick(call, "output_space", axes))
    ),
    "indice_pairs_dim0": lambda call, axes: (
        call.tensor("indice_pairs").dims[0] == math.prod(pick(call, "filter_space", axes))
    ),
    "offsets_limit": lambda call, axes: math.prod(pick(call, "filter_space", axes)) <= 4096,
    "dilated_stride": lambda call, axes: all(
        1 in steps for steps in zip(pick(call, "stride", axes), pick(call, "dilation", axes), strict=True)
    ),
    "sub_m_space": lambda call, axes: (
        not call.param("sub_m") or pick(call, "input_space", axes) == pick(call, "output_space", axes)
    ),
    "sub_m_stride": lambda call, axes: not call.param("sub_m") or set(pick(call, "stride", axes)) == {1},
    "sub_m_dilation": lambda call, axes: not call.param("sub_m") or set(pick(call, "dilation", axes)) == {1},
}


@pytest.fixture(scope="module")
def stored_calls():
    session = Session()
    catalogue = session.catalogue
    drafts = [one for one in catalogue.drafts_of(OPERATOR.name).values() if catalogue.stored_path(one.id).exists()]
    source = session.source(tuple(Selected(one.id, one.operator, one.tags, draft=one) for one in drafts))
    return [bind_values(source.load(one.id), OPERATOR) for one in drafts]


@pytest.mark.parametrize("check", BY_AXIS)
def test_a_kernel_that_looks_at_some_axes_alone_is_told(stored_calls, check):
    right = [OPERATOR.answer(call) for call in stored_calls]
    for axes in (axes for count in (1, 2) for axes in itertools.combinations(range(3), count)):
        own = replace(OPERATOR.check(check), holds=lambda call, axes=axes: BY_AXIS[check](call, axes))
        wrong = dataclasses.replace(
            OPERATOR, checks=tuple(own if one.name == check else one for one in OPERATOR.checks)
        )
        found = [wrong.answer(call) for call in stored_calls]
        assert [(one.status, one.computes) for one in found] != [(one.status, one.computes) for one in right], axes
