"""Nothing that a headline says of a wrong implementation is false, and hardly any says nothing."""

import pytest

from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.explanation import TurnedZero
from mluops_gtest.running.caller import BackendChoice, InlineCaller
from mluops_gtest.running.case_run import CaseRun
from tests.conftest import ROOT
from tests.support.c_example import OPERATORS_IN_C, c_example
from tests.support.headline_truth import Truth, kind_of, recorded
from tests.support.native import needs_gcc
from tests.support.planted_run import PlantedRuns, Spoiled
from tests.support.right.operators import VARIANTS

OPERATORS = sorted(path.parent.name for path in (ROOT / "generators").glob("[!_]*/__init__.py"))
# Mistakes of the C example that leave wrong values; the others end the process, or leave right ones.
WRONG_VALUES = ("uninitialised", "tile_edge")


def test_the_page_tells_of_all_operators_and_hardly_of_any_headline_without_law_and_place(operators):
    figures = recorded()
    assert set(figures) == set(operators) == set(OPERATORS)
    sums = {key: sum(row[key] for row in figures.values()) for key in ("headlines", "law", "place", "neither")}
    assert sums["headlines"] == sums["law"] + sums["place"] + sums["neither"]
    assert sums["neither"] <= sums["headlines"] / 10


@pytest.mark.slow(seconds=10)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OPERATORS)
def test_headlines_of_wrong_implementations_are_true(catalogue, name):
    falsehoods, counts = Truth(catalogue).of_mutants(name)
    assert falsehoods == []
    known = recorded()[name]
    assert counts["implementations"] == known["implementations"]
    # `python -m tests.support.headline_truth` writes the page anew.
    assert counts["neither"] <= known["neither"]


@pytest.mark.slow
def test_a_half_kernel_is_told_by_its_mistake_and_not_by_its_rounding(catalogue):
    """It adds in half, as a right one may, and clears the last channel."""
    name, runs, laws = "indice_convolution_forward", PlantedRuns(catalogue), []
    operator = runs.operator(name)
    for case in runs.cases(name, choose=half_sums).values():
        baseline = {tensor.id: tensor.values for tensor in case.outputs}
        in_half = next(one for one in VARIANTS[name](bind_values(case, operator), baseline) if one.in_half)

        def spoil(call, outputs, before, in_half=in_half):
            outputs[in_half.output][...] = in_half.values.reshape(outputs[in_half.output].shape)
            outputs[in_half.output][..., -1] = 0

        result = CaseRun(InlineCaller(Spoiled({name: operator}, spoil)), runs.options).run_case(case, operator)
        laws += [one.law for one in result.explained if one.is_certain]
    assert laws == [TurnedZero()] * 4


def half_sums(ids):
    return [one for one in sorted(ids) if "/precision_" in one and one.endswith("_half")][:4]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return c_example(tmp_path_factory)


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("bug", [pytest.param(bug, marks=needs_gcc) for bug in WRONG_VALUES])
def test_headlines_of_the_c_example_are_true(catalogue, example, bug):
    library = example / "build" / f"libmluops_host_{bug}.so"
    backend = BackendChoice(f"c:{library}", (str(ROOT),)).load(catalogue.operators)
    truth, falsehoods, heads = Truth(catalogue), [], []
    for name in OPERATORS_IN_C:
        heads += truth.hold(name, backend, falsehoods)
    assert falsehoods == []
    # None of the few cases of one ends in the midst of a tile.
    unseen = {"ms_deform_attn_forward"} if bug == "tile_edge" else set()
    assert {head.operator for head in heads} == set(OPERATORS_IN_C) - unseen
    assert sum(kind_of(head) == "neither" for head in heads) <= len(heads) / 5
