"""Draws follow from the seed alone, keep what is defined, and go where nobody was."""

import dataclasses
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from mluops_gtest.authoring.checks import require
from mluops_gtest.base.errors import OperatorError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Choice, Drawn, Sizes, Space
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.tensor import digest_tensors
from mluops_gtest.search.draws import LARGE, Draws
from mluops_gtest.search.faults import faults_of

ROOT = Path(__file__).parents[3]
NAME = "masked_col2im_forward"


@cache
def operators():
    return load_operators(ROOT)


def draws(seed=0, space=None):
    known = operators()
    return Draws(known[NAME], space or known.part(NAME, SPACE), seed)


def mark(drawn):
    case = drawn.case
    descs = [tensor.desc for tensor in (*case.inputs, *case.outputs)]
    return drawn.faults, descs, case.params, case.expect, digest_tensors(case.inputs), digest_tensors(case.outputs)


@cache
def sequence_of_three():
    """The first calls of seed 3, and which pairs were seen after half of them."""
    one = draws(3)
    half = [mark(one.draw(n)) for n in range(20)]
    seen = frozenset(one.coverage.seen)
    return half + [mark(one.draw(n)) for n in range(20, 40)], seen


def test_one_seed_gives_one_sequence():
    again = draws(3)
    assert [mark(again.draw(n)) for n in range(40)] == sequence_of_three()[0]


def test_another_seed_gives_other_calls():
    other = draws(4)
    assert [mark(other.draw(n)) for n in range(10)] != sequence_of_three()[0][:10]


def test_draws_go_on_from_a_coverage_as_if_they_had_never_stopped():
    whole, seen = sequence_of_three()
    again = draws(3)
    again.coverage.seen = set(seen)
    assert [mark(again.draw(n)) for n in range(20, 40)] == whole[20:]


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
    one = draws()
    sizes = [
        sum(tensor.desc.count for tensor in one.draw(n).case.inputs if tensor.data is not None) for n in range(200)
    ]
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


def test_values_that_do_not_go_together_are_drawn_again():
    one = draws(space=small(lambda at: plain(at) if at["masks"] == 3 else None))
    drawn = [one.draw(n) for n in range(49)]
    assert {found.case.inputs[1].desc.dims for found in drawn if not found.faults} == {(3,)}


def test_where_nothing_can_be_drawn_the_number_is_passed_over():
    assert draws(space=small(lambda _at: None)).draw(0) is None


def test_calls_that_are_none_are_not_drawn():
    one = draws(space=small(plain, defined=lambda call: call.handle is not None))
    assert all(not one.draw(number).case.expect.null_handle for number in range(60))


def test_a_mistake_in_the_operator_is_told():
    def odd(at):
        return Drawn("odd", {}, {}, at["dtype"])

    def broken(draw, params, dtype):
        return None

    operator = dataclasses.replace(operators()[NAME], recipes={"odd": broken})
    with pytest.raises(OperatorError, match="the recipe 'odd' returns None"):
        Draws(operator, small(odd), 0).draw(0)


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
    where = rf"{NAME}/reference\.py:\d+: {NAME} fails on a drawn call: {error}: .*raised by the check own \(.*:\d+\)"
    with pytest.raises(OperatorError, match=rf"{where}\. Checks answer every call, in their order"):
        list(map(one.draw, range(20)))


def test_faults_of_an_operator_have_names_of_their_own_and_reach_every_tensor():
    operator = operators()["indice_convolution_backward_data"]
    faults = faults_of(operator, operators().part(operator.name, SPACE))
    assert len(faults) > 100
    for spec in operator.tensors:
        assert {f"null descriptor of {spec.id}", f"{spec.id}: dtype", f"{spec.id}: strides"} <= faults.keys()
    others = {"null handle", "arch", "null workspace", "null pointer of indice_num"}
    assert others | {"L everywhere: 1000000", "L everywhere: 1000001"} <= faults.keys()


def test_an_output_that_is_owed_has_a_buffer_in_every_draw():
    """Without masks the operator clears the image before it looks at pointers: a null one leaves that undefined."""
    hunt, faults = draws(), faults_of(operators()[NAME], operators().part(NAME, SPACE))
    nulls = [faults["null pointer of im"], faults["null pointer of col"]]
    drawn = next(one for one in map(hunt.draw, range(50)) if one is not None and not one.faults)
    rng = Random(0)
    empty = faults["m everywhere: 0"].apply(drawn.case, rng)
    assert hunt._broken(empty).checks[0] == "mask_h_idx_empty"
    im, col = (hunt._broken(fault.apply(empty, rng)) for fault in nulls)
    assert im is None
    assert col.checks[0] == "mask_h_idx_empty"
