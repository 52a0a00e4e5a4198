"""Cases that cannot be made or verified are the content's fault, and told as such."""

import math
from dataclasses import replace

import pytest

from mluops_gtest.authoring import SizedAxis
from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.casefiles.lock import read_lock, write_lock
from mluops_gtest.catalog.make import lock_entry, make_case, same_values
from mluops_gtest.catalog.produce import verify_case
from mluops_gtest.core.case import Case


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
