"""Draws follow from the seed alone, keep what is defined, and go where nobody was."""

import dataclasses
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from mluops_gtest.authoring.checks import require
from mluops_gtest.base.errors import OperatorError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.catalog.violations import CATEGORIES, Kind
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Choice, Drawn, Sizes, Space
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.tensor import digest_tensors
from mluops_gtest.search.draws import LARGE, Axes, Draws, classes_of
from mluops_gtest.search.fault_search import Aim, Coverage, Features, Shows, aims_of, reached_aims

ROOT = Path(__file__).parents[3]
NAME = "masked_col2im_forward"


@cache
def operators():
    return load_operators(ROOT)


def draws(seed=0, space=None, name=NAME):
    known = operators()
    return Draws(known[name], space or known.part(name, SPACE), seed)


def mark(drawn):
    case = drawn.case
    descs = [tensor.desc for tensor in (*case.inputs, *case.outputs)]
    return drawn.faults, descs, case.params, case.expect, digest_tensors(case.inputs), digest_tensors(case.outputs)


@cache
def sequence_of_three():
    """The first calls of seed 3, and which pairs were seen after half of them."""
    one = draws(3)
    half = [mark(one.draw(n)) for n in range(10)]
    seen = frozenset(one.coverage.seen)
    return half + [mark(one.draw(n)) for n in range(10, 20)], seen


def test_one_seed_gives_one_sequence():
    again, other = draws(3), draws(4)
    assert [mark(again.draw(n)) for n in range(20)] == sequence_of_three()[0]
    assert [mark(other.draw(n)) for n in range(5)] != sequence_of_three()[0][:5]


def test_draws_go_on_from_a_coverage_as_if_they_had_never_stopped():
    whole, seen = sequence_of_three()
    again = draws(3)
    again.coverage.seen = set(seen)
    assert [mark(again.draw(n)) for n in range(10, 20)] == whole[10:]


@pytest.mark.slow
def test_a_case_expects_what_the_checks_say():
    one, known = draws(), operators()[NAME]
    answers = Counter()
    for number in range(150):
        case = one.draw(number).case
        answer = known.answer(bind_values(case, known))
        assert (case.expect.status, case.expect.check) == (answer.status, answer.check)
        answers[answer.check] += 1
        if answer.computes:
            assert known.broken(bind_values(case, known)) is None
            assert all(tensor.data is not None for tensor in (*case.inputs, *case.outputs))
    assert answers[None] > 50
    assert len(answers) > 25, "faults reach many checks"


@pytest.mark.slow
def test_at_most_one_draw_in_fifty_is_large():
    cases = [one.case for one in map(draws().draw, range(200))]
    sizes = [sum(tensor.desc.count for tensor in case.inputs if tensor.data is not None) for case in cases]
    assert sum(size > LARGE for size in sizes) <= 4


@pytest.mark.slow
def test_candidates_with_new_pairs_are_taken():
    steered = draws()
    for number in range(60):
        steered.draw(number)
    blind = draws()
    for number in range(60):
        # With everything seen no candidate is better than another.
        seen = blind.coverage.seen
        blind.coverage.seen = set(range(blind.features.count**2))
        drawn = blind.draw(number)
        blind.coverage.seen = seen | drawn.pairs
    assert len(steered.coverage.seen) > 1.1 * len(blind.coverage.seen)


def small(draw, defined=None):
    return Space(
        axes={"masks": Sizes(1, 4), "dtype": Choice(("float",))},
        draw=draw,
        elements=lambda at: 16 + 2 * at["masks"],
        defined=defined,
    )


def plain(at):
    return Drawn("pixels", {}, {"image": (1, 4, 4), "masks": at["masks"]}, at["dtype"])


def test_values_that_do_not_go_together_are_drawn_again_or_the_number_is_passed_over():
    one = draws(space=small(lambda at: plain(at) if at["masks"] == 3 else None))
    drawn = [one.draw(n) for n in range(49)]
    assert {found.case.inputs[1].desc.dims for found in drawn if not found.faults} == {(3,)}
    assert draws(space=small(lambda _at: None)).draw(0) is None


def test_calls_that_are_none_are_not_drawn():
    one = draws(space=small(plain, defined=lambda call: call.handle is not None))
    assert all(not one.draw(number).case.expect.null_handle for number in range(60))


def test_a_mistake_in_the_operator_is_told():
    operator = dataclasses.replace(operators()[NAME], recipes={"odd": lambda draw, params, dtype: None})
    with pytest.raises(OperatorError, match="the recipe 'odd' returns None"):
        Draws(operator, small(lambda at: Drawn("odd", {}, {}, at["dtype"])), 0).draw(0)


@pytest.mark.parametrize(
    ("holds", "error"),
    [
        pytest.param(lambda call: call.handle.arch > 0, "AttributeError", id="it relies on a check behind it"),
        pytest.param(lambda call: call.param("mask") > 0, "KeyError", id="it fails on every call"),
    ],
)
def test_a_check_that_fails_on_a_drawn_call_is_told(holds, error):
    known = operators()[NAME]
    own = require("own", holds, "it must be positive", "§1")
    operator = dataclasses.replace(known, checks=(own, *known.checks))
    one = Draws(operator, operators().part(NAME, SPACE), 0)
    where = rf"{NAME}/__init__\.py:\d+: {NAME} fails on a drawn call: {error}: .*raised by the check own \(.*:\d+\)"
    with pytest.raises(OperatorError, match=rf"{where}\. Checks answer every call, in their order"):
        list(map(one.draw, range(60)))


def test_faults_are_the_kinds_that_cases_are_derived_from():
    one = draws(name="indice_convolution_backward_data")
    slugs = {kind.slug for kind in one.ways.kinds}
    for spec in one.operator.tensors:
        assert {f"{spec.id}_desc_null", f"{spec.id}_rank_more", f"{spec.id}_strided_gap"} <= slugs
    assert {"handle_null", "arch_270", "workspace_null", "indice_num_array_null", "all_l_1000001"} <= slugs
    assert {kind.category for kind in one.ways.kinds} <= set(CATEGORIES)


def test_an_output_that_is_owed_has_a_buffer_in_every_draw():
    """Without masks the operator clears the image before it looks at pointers: a null one leaves that undefined."""
    one = draws()
    kinds = {kind.slug: kind for kind in one.ways.kinds}
    drawn = next(draw for draw in map(one.draw, range(50)) if draw is not None and not draw.faults)

    def reached(*slugs):
        return reached_aims(one.ways.look(drawn.case, tuple(kinds[slug] for slug in slugs)), one.operator)

    assert Aim("mask_h_idx_empty") in reached("all_m_0")
    assert reached("all_m_0", "im_ptr_null") is None
    assert Aim("mask_h_idx_empty") in reached("all_m_0", "col_ptr_null")


def names(axis):
    return [one.name for one in classes_of(axis)]


def test_sizes_around_powers_of_two_stand_alone_and_each_choice_is_a_class():
    assert " ".join(names(Sizes(1, 20))) == "1 2 3 4 5 6 7 8 9 10…14 15 16 17 18…19 20"
    assert names(Choice(("float", "half", (1, 2)))) == ["float", "half", "(1, 2)"]


@pytest.mark.parametrize("axis", [Sizes(0, 0), Sizes(0, 1), Sizes(3, 3), Sizes(5, 1025), Sizes(0, 65537)])
def test_every_size_is_in_exactly_one_class(axis):
    classes = classes_of(axis)
    assert [size for one in classes for size in range(one.low, one.high + 1)] == list(range(axis.low, axis.high + 1))


def test_a_value_lies_in_its_class():
    axes, random = Axes({"n": Sizes(1, 1025), "dtype": Choice(("a", "b"))}), Random(1)
    for _ in range(200):
        point = axes.draw(random)
        chosen = axes.classes["n"][point.places["n"]]
        assert chosen.low <= point.values["n"] <= chosen.high
        assert axes.names(point) == {"n": chosen.name, "dtype": point.values["dtype"]}


def test_a_point_shrinks_to_the_smallest_sizes_and_keeps_its_choices():
    axes, random = Axes({"n": Sizes(1, 100), "m": Sizes(2, 50), "dtype": Choice(("a", "b"))}), Random(2)
    point = axes.draw(random)
    dtype = point.values["dtype"]
    while (smaller := axes.smaller(point, random)) is not None:
        assert sum(smaller.values[name] for name in "nm") < sum(point.values[name] for name in "nm")
        point = smaller
    assert dict(point.values) == {"n": 1, "m": 2, "dtype": dtype}


FEATURES = Features({"n": ["1", "2"], "dtype": ["float", "half"]}, ["a", "b"])
NULL, DTYPE = (Kind("x", one, one, lambda case: case) for one in ("null", "dtype"))


def test_the_total_counts_every_pair_once():
    # n × dtype, both × no fault and the categories; both checks together; three things that a call shows of each.
    assert FEATURES.total == 2 * 2 + 2 * (2 * (1 + len(CATEGORIES))) + 1 + 2 * 3


def test_a_draw_covers_its_pairs_once():
    coverage = Coverage(FEATURES)
    classes = {"n": "1", "dtype": "half"}
    pairs = FEATURES.of_classes(classes) | FEATURES.of_faults(classes, (), frozenset())
    assert coverage.new(pairs) == 3
    coverage.add(pairs)
    assert coverage.new(pairs) == 0
    assert coverage.new(FEATURES.of_classes({"n": "2", "dtype": "half"})) == 1


def test_every_aim_that_a_draw_reaches_is_a_pair_of_its_own():
    classes = {"n": "1", "dtype": "half"}
    aims = {Aim("a"), Aim("a", Shows.TOLD), Aim("a", later="b")}
    more = FEATURES.of_faults(classes, (NULL,), frozenset(aims)) - FEATURES.of_faults(classes, (NULL,), frozenset())
    assert {FEATURES.of_aim(aim) for aim in aims} == more
    assert len(more) == 3
    assert FEATURES.of_aim(Aim("a", Shows.WRITTEN)) not in more


def test_everything_that_can_be_drawn_makes_the_total():
    coverage, categories = Coverage(FEATURES), [(), *((replace(NULL, category=one),) for one in CATEGORIES)]
    aims = [frozenset(Aim(check, shows) for shows in Shows) for check in "ab"]
    every = [frozenset(), *aims, aims[0] | {Aim("a", later="b")}]
    for n, dtype, kinds, reached in product("12", ("float", "half"), categories, every):
        classes = {"n": n, "dtype": dtype}
        coverage.add(FEATURES.of_classes(classes))
        coverage.add(FEATURES.of_faults(classes, kinds, reached))
    assert len(coverage.seen) == FEATURES.total


def test_the_text_gives_the_same_coverage_back():
    coverage = Coverage(FEATURES)
    coverage.add(FEATURES.of_faults({"n": "2", "dtype": "float"}, (DTYPE,), frozenset({Aim("b")})))
    assert Coverage.from_text(FEATURES, coverage.to_text()).seen == coverage.seen
    assert Coverage.from_text(FEATURES, "").seen == set()


prepared_draws = cache(lambda name: draws(name=name))


def reached(name, aim):
    """Some call with the changes of a way to the aim, and what the checks say of it."""
    one, random = prepared_draws(name), Random(0)
    for _ in range(20):
        kinds = one.ways.together(aim, random)
        for call in one.ways.search.bases.values():
            look = one.ways.look(call, kinds)
            aims = None if look is None else reached_aims(look, one.operator)
            if aims is not None and aim in aims:
                return look.case, aims
    pytest.fail(f"no call reaches {aim}")


def test_neighbours_of_two_statuses_come_first():
    first, others = aims_of(operators()["voxel_pooling_forward"])
    assert Aim("pos_memo_ptr_null", later="arch") in first
    assert Aim("handle_null", later="arch") in others
    assert Aim("handle_null", later="geom_xyz_desc_null") not in first, "both answer alike"
    assert Aim("num_points", Shows.WRITTEN) in first


def test_what_no_call_shows_has_no_way():
    """Without batches there is no output to write to, and what is beyond 2^31 in one tensor another check refuses."""
    ways = prepared_draws("voxel_pooling_forward").ways
    assert not ways.to("batch_size", Shows.WRITTEN)
    assert not ways.to("geom_xyz_large", Shows.TOLD)
    assert ways.to("geom_xyz_large", Shows.ANSWERED)
    assert ways.together(Aim("batch_size", Shows.WRITTEN), Random(0)) is None


def test_what_must_change_in_step_does():
    """The kernel, every table that has a row per offset, and nothing that another check refuses."""
    case, aims = reached("get_indice_pairs", Aim("offsets_limit", Shows.TOLD))
    dims = {tensor.id: tensor.desc.dims for tensor in case.outputs}
    assert dims["indice_pairs"][0] == dims["indice_num"][0] == case.params["filter_space"][0] > 4096
    assert not any(aim.later for aim in aims)


@pytest.mark.parametrize("check", ["batch_value", "sites_limit", "indice_pairs_large"])
def test_several_faults_together_leave_one_check_to_answer(check):
    _, aims = reached("get_indice_pairs", Aim(check, Shows.TOLD))
    assert {aim.check for aim in aims} == {check}


@pytest.mark.slow
def test_filters_of_any_layout_change_in_step():
    case, _ = reached("indice_convolution_backward_data", Aim("indice_pairs_large", Shows.WRITTEN))
    (output,) = case.outputs
    assert output.desc.nbytes <= 1 << 20
    assert all(tensor.data is None for tensor in case.inputs if tensor.desc.is_large), "a descriptor alone"


def test_two_checks_are_broken_together():
    case, _ = reached("dynamic_scatter_backward", Aim("arch", later="grad_voxel_feats_desc_null"))
    operator = operators()["dynamic_scatter_backward"]
    assert operator.answer(bind_values(case, operator)).check == "arch"


def test_ways_follow_from_the_seed_alone():
    name, check = "get_indice_pairs", "batch_value"
    one, other = (each.ways.to(check, Shows.TOLD) for each in (draws(name=name), prepared_draws(name)))
    assert [look.slug for look in one] == [look.slug for look in other] != []
