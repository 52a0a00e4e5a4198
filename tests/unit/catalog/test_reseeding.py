"""Values that miss a case's conditions are drawn again, in the same way everywhere, and not for ever."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, RecipeOutput
from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.source import ATTEMPTS, code_digest, make_reseeded
from mluops_gtest.core.case import Reseed, Reseeded


def with_recipe(toy, recipe):
    return replace(toy.operators["scale_by"], recipes={"noise": recipe})


def test_the_seeds_never_change():
    """They are part of every repro line that somebody kept."""
    assert Reseed(7).seed(20230207) == 18166395585856953904
    assert Reseed(7, 1).seed(20230207) != Reseed(7).seed(20230207) != Reseed(8).seed(20230207)


def test_cases_that_declare_one_seed_share_their_values_under_any():
    first, second = (Draw(5, Reseed(3)).stream("x").lattice(9, 20) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, Draw(5).stream("x").lattice(9, 20))


def test_what_cases_share_varies_with_the_number_alone():
    def shared(seed, reseed):
        return Draw(seed, reseed).shared(99).stream("street").lattice(9, 20).tolist()

    assert shared(1, None) == shared(2, None) == Draw(99).stream("street").lattice(9, 20).tolist()
    assert shared(1, Reseed(4)) == shared(2, Reseed(4)) != shared(1, None)


def test_values_that_miss_the_conditions_are_drawn_again(toy):
    def picky(draw, params, dtype, *, count):
        x = draw.stream("x").lattice(count, 20)
        if x[0] < 0.5:
            raise ValueError("too small")
        return RecipeOutput({"x": x}, {"factor": 2, **params})

    draft, operator = toy.drafts["scale_by/big"], with_recipe(toy, picky)
    cases = [make_reseeded(draft, operator, number) for number in range(12)]
    assert {case.reseeded.redraws > 0 for case in cases} == {True, False}
    assert min(case.inputs[0].values[0] for case in cases) >= 0.5
    again = make_reseeded(draft, operator, 3)
    assert again.reseeded == cases[3].reseeded
    assert np.array_equal(again.inputs[0].values, cases[3].inputs[0].values)


def test_a_constant_baseline_is_drawn_again(toy):
    def coin(draw, params, dtype, *, count):
        return RecipeOutput({"x": draw.stream("x").integers(0, 2, 2).astype("<f4")}, {"factor": 2, **params})

    draft, operator = toy.drafts["scale_by/big"], with_recipe(toy, coin)
    cases = [make_reseeded(draft, operator, number) for number in range(8)]
    assert {tuple(sorted(case.outputs[0].values)) for case in cases} == {(0.0, 2.0)}
    assert any(case.reseeded.redraws for case in cases)


def test_conditions_that_no_values_meet_are_told(toy):
    tries = []

    def never(draw, params, dtype, *, count):
        tries.append(draw.stream("x").lanes(1)[0])
        raise ValueError("no luck")

    with pytest.raises(DeclarationError, match=rf"none of {ATTEMPTS} draws under --reseed 4 .* no luck"):
        make_reseeded(toy.drafts["scale_by/big"], with_recipe(toy, never), 4)
    assert len(set(tries)) == len(tries) == ATTEMPTS


@pytest.mark.parametrize("error", [ValueError("always"), MemoryError("full")])
def test_what_no_draw_can_mend_is_not_tried_again(toy, error):
    tries = []

    def broken(draw, params, dtype, *, count):
        tries.append(1)
        if isinstance(error, MemoryError):
            draw.stream("x")
        raise error

    with pytest.raises(ContentError):
        make_reseeded(toy.drafts["scale_by/big"], with_recipe(toy, broken), 4)
    assert len(tries) == 1


def test_the_expected_status_of_a_negative_case_holds(toy):
    draft, operator = toy.drafts["scale_by/rank_2"], toy.operators["scale_by"]
    for number in range(3):
        case = make_reseeded(draft, operator, number)
        assert case.expect == make_case(draft, operator).expect
        assert case.reseeded == Reseeded(number, fixed=True)


def test_the_cache_knows_when_code_changes(toy):
    generators = toy.roots[0].path / "generators"
    before = code_digest(generators, "scale_by")
    code_digest.cache_clear()
    assert code_digest(generators, "scale_by") == before
    (generators / "scale_by.py").write_text((generators / "scale_by.py").read_text() + "\n")
    code_digest.cache_clear()
    assert code_digest(generators, "scale_by") != before
