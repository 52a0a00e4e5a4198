"""What a recorded selection means for the cases of a baseline: the same as it meant to the run."""

from pathlib import Path

import pytest

from mluops_gtest.base.errors import ContentError, UsageError
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, select
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.gate_reference import ReferenceCase
from mluops_gtest.results.gate_request import select_required

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue(Root(ROOT))


def selection(**given):
    nothing = {"select": [], "operators": [], "tags": [], "keyword": "", "everything": False, "shard": None}
    return {**nothing, **given}


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"everything": True},
        {"operators": ["voxel_pooling_forward"]},
        {"operators": ["dynamic_point_to_voxel_backward"]},
        {"tags": ["network", "smoke"]},
        {"tags": ["undefined"]},
        {"keyword": "edge and not half"},
        {"select": ["get_indice_pairs/*"], "tags": ["negative"]},
        {"select": ["dynamic_point_to_voxel_backward/*"], "keyword": "voxel and not null"},
        {"select": ["masked_im2col_forward/*", "voxel_pooling_forward/bevdepth_twin"], "operators": []},
        {"select": ["masked_im2col_forward/*"], "operators": ["masked_im2col_forward"], "tags": ["boundary"]},
    ],
)
def test_the_recorded_selection_means_what_it_meant(catalogue, query):
    known = {d.id: ReferenceCase(d.operator, d.tags, Outcome.PASSED) for d in catalogue.drafts.values()}
    given = selection(**query)
    wanted = Query(**{name: tuple(value) if isinstance(value, list) else value for name, value in query.items()})
    ran = {case.id for case in select(catalogue, wanted, lambda path: "").cases}
    assert 0 < len(ran) < len(known) or query in ({}, {"everything": True})
    assert select_required(given, known, catalogue.canonical_id) == ran


def test_an_undefined_case_is_asked_for_by_its_exact_id_alone():
    cases = {"op/odd": ReferenceCase("op", ("undefined",), Outcome.PASSED)}
    assert select_required(selection(select=["op/odd"]), cases, str) == {"op/odd"}
    assert select_required(selection(select=["op/*"]), cases, str) == set()
    assert select_required(selection(everything=True), cases, str) == set()


def test_a_folder_means_the_files_in_it():
    cases = {
        case: ReferenceCase("op", (), Outcome.PASSED)
        for case in ("mine/a.prototxt", "mine/deep/b.pb", "mine2/c.pb", "op/d")
    }
    assert select_required(selection(select=["mine"]), cases, str) == {"mine/a.prototxt", "mine/deep/b.pb"}
    assert select_required(selection(select=["./mine/"]), cases, str) == {"mine/a.prototxt", "mine/deep/b.pb"}
    assert select_required(selection(select=["mine2/c.pb"]), cases, str) == {"mine2/c.pb"}


def test_one_shard_does_not_tell_what_is_missing():
    with pytest.raises(UsageError, match="shard 2/3 of a run; `mluops-test merge`"):
        select_required(selection(shard="2/3"), {}, str)


@pytest.mark.parametrize("given", [{}, {"select": [], "reseed": None}])
def test_results_without_a_selection_are_refused(given):
    with pytest.raises(ContentError, match="does not record what was selected"):
        select_required(given, {}, str)
