"""A size counts as live only where a kernel that loses an end of it is told wrong."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.authoring import SizedAxis, Status
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.search.audit_declarations import Subject
from mluops_gtest.search.audit_values import sizes_live
from tests.support.toy_root import write_toy_root


@pytest.fixture
def found(tmp_path):
    """What the rule says of ramps of 3 elements that are declared for these sizes."""
    catalogue = Catalogue(Root(write_toy_root(tmp_path)))

    def find(axis, *, x=(1.0, 2.0, 3.0), declared=3, **changes):
        operator = replace(catalogue.operators["scale_by"], sizes={} if axis is None else {"count": axis}, **changes)
        ramp = catalogue.drafts["scale_by/ramp_3"]
        case = make_case(ramp, replace(operator, recipes={"ramp": _listed(operator.recipes["ramp"], x)}))
        draft = ramp if axis is None else replace(ramp, sizes={"count": declared})
        subject = Subject(
            operator=operator,
            generator=tmp_path / "generators" / "scale_by.py",
            declarations=tmp_path / "cases" / "scale_by.yaml",
            drafts=(draft,),
            cases=(),
            mutants=(),
            variants={},
            seeds=0,
            reseeded=lambda case_id, seed: case,
            load=lambda case_id: case,
        )
        return [problem.message for problem in sizes_live(subject)]

    return find


def _listed(ramp, x):
    def recipe(draw, params, dtype, **args):
        return replace(ramp(draw, params, dtype, **args), inputs={"x": np.array(x, "<f4")})

    return recipe


@pytest.mark.parametrize("axis", [SizedAxis("x"), SizedAxis("y"), SizedAxis("x", -1)])
def test_a_size_whose_ends_count_is_live(found, axis):
    assert found(axis) == []


@pytest.mark.parametrize("axis", [SizedAxis("x"), SizedAxis("y")])
def test_an_end_that_changes_nothing_is_told(found, axis):
    passes = "scale_by/ramp_3: an implementation that loses index {} of count, one of 3, passes"
    assert found(axis, x=(0.0, 2.0, 3.0)) == [passes.format(0)]
    assert found(axis, x=(1.0, 2.0, 0.0)) == [passes.format(2)]


def test_an_end_below_every_criterion_is_told(found):
    assert len(found(SizedAxis("x"), x=(1e-9, 2.0, 3.0))) == 1


def test_another_size_than_the_declared_one_is_told(found):
    assert found(SizedAxis("x"), declared=4) == ["scale_by/ramp_3 is declared for count 4, but has 3"]


def test_an_operator_without_sizes_is_told(found):
    assert found(None) == ["no size is declared, so nothing shows that the ends of any axis count"]


def test_inputs_of_another_shape_prove_nothing(found):
    axis = SizedAxis("x", without=lambda call, index: {"x": np.ones(7, "<f4")})
    problems = found(axis)
    assert len(problems) == 2
    assert all("the kernel cannot be run without index" in problem for problem in problems)


def test_a_kernel_that_refuses_the_changed_call_proves_nothing(found):
    problems = found(SizedAxis("x"), kernel=lambda call: Status.BAD_PARAM)
    assert len(problems) == 2
    assert all("the kernel cannot be run without index" in problem for problem in problems)


def test_a_kernel_that_raises_proves_nothing(found):
    def kernel(call):
        raise IndexError("no such row")

    assert [problem.rpartition(": ")[2] for problem in found(SizedAxis("x"), kernel=kernel)] == ["no such row"] * 2
