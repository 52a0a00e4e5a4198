"""Cases that cannot be made are the content's fault; values that miss their conditions are drawn again, with an end."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring import Draw, RecipeOutput, SizedAxis
from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.casefiles.lock import lock_entry, read_lock, same_values, write_lock
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.produce import verify_case
from mluops_gtest.catalog.source import ATTEMPTS, code_digest, make_reseeded
from mluops_gtest.core.case import Case, Reseed, Reseeded


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


@pytest.mark.parametrize("error", [ValueError, IndexError, OverflowError, MemoryError])
def test_a_reference_that_cannot_work_with_the_values(toy, error):
    def reference(call):
        raise error("no such row")

    operator, draft = toy.operators["scale_by"], toy.drafts["scale_by/ramp_3"]
    with pytest.raises(DeclarationError, match=r"scale_by.yaml:1: case scale_by/ramp_3 cannot be made .* no such row"):
        make_case(draft, replace(operator, reference=reference))
    case = make_case(draft, operator)
    (found,) = verify_case(case, replace(operator, reference=reference))
    assert found == f"the reference cannot work with the stored inputs: {error.__name__}: no such row"


def test_a_recipe_whose_data_miss_their_conditions(toy):
    def recipe(draw, params, dtype, **arguments):
        raise ContentError("The data are ill-conditioned.")

    operator, draft = toy.operators["scale_by"], toy.drafts["scale_by/ramp_3"]
    with pytest.raises(DeclarationError, match=r"yaml:1: case scale_by/ramp_3: recipe '\w+': The data are ill-cond"):
        make_case(draft, replace(operator, recipes={draft.recipe: recipe}))


def test_a_case_must_have_the_size_that_it_is_declared_for(toy):
    operator = replace(toy.operators["scale_by"], sizes={"count": SizedAxis("x")})
    draft = toy.drafts["scale_by/ramp_3"]
    assert make_case(replace(draft, sizes={"count": 3}), operator).inputs[0].desc.dims == (3,)
    with pytest.raises(DeclarationError, match=r"scale_by.yaml:1: case .*ramp_3 is declared for count 4, but has 3\."):
        make_case(replace(draft, sizes={"count": 4}), operator)
    with pytest.raises(DeclarationError, match=r"case scale_by/rank_2 computes nothing, so no size can matter"):
        make_case(replace(toy.drafts["scale_by/rank_2"], sizes={"count": 4}), operator)


@pytest.mark.parametrize("value", [0.5, -0.0, math.inf, -math.inf, math.nan, (1.0, math.nan), "word", True, None])
def test_a_line_equals_itself_after_it_was_written(tmp_path, value):
    case = Case("toy/a", "toy", (), (), {"radius": value}, ())
    entry = lock_entry(case, "declared")
    write_lock(tmp_path / "baselines.lock", [entry])
    assert read_lock(tmp_path / "baselines.lock") == {"toy/a": entry}
    assert same_values(case, entry)
