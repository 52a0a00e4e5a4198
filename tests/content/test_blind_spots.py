"""`python -m studies.blind_spots` on a few cases: wrong elements that the criteria let pass are seen one by one."""

import json

import numpy as np
import pytest

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.case import Query
from mluops_gtest.core.tensor import DType
from studies import blind_spots
from studies.blind_spots import Tally, tallies

# float and half, sums, means, copies and products; values that are not finite; one output that is large.
CASES = (
    "voxel_pooling_forward/bevdepth_twin",
    "voxel_pooling_forward/precision_cancelling_long",
    "voxel_pooling_forward/wide_grid",
    "three_interpolate_backward/triples_random_half",
    "indice_convolution_forward/centerpoint_0_twin_half",
    "indice_convolution_backward_filter/centerpoint_0_twin_float",
    "dynamic_point_to_voxel_forward/random_mean_3",
    "dynamic_scatter_backward/channels_4097",
    "masked_col2im_forward/retinanet_twin_half",
    "three_nn_forward/*nan*",
)


@pytest.fixture(scope="module")
def session():
    return Session()


def counted(session, cases, places, verify):
    whole = Tally()
    for _, _, tally in tallies(session, session.select(Query(cases)).cases, places, verify):
        whole.add(tally)
    return whole


@pytest.mark.slow
def test_every_change_beyond_twice_the_bound_is_found_and_the_judge_agrees(session):
    whole = counted(session, CASES, places=40, verify=3)
    assert whole.changed > 1000
    assert whole.large == whole.large_found > 0.9 * whole.changed
    assert whole.verified > 60
    assert whole.by_criteria <= whole.found <= whole.by_float


def test_the_criteria_alone_are_blind_where_outputs_are_large(session):
    whole = counted(session, ("three_interpolate_backward/odd_7x63x127x129_half",), places=200, verify=0)
    assert whole.by_criteria < 0.6 * whole.changed
    assert whole.large == whole.large_found == whole.found


def test_a_prediction_that_the_judge_does_not_share_is_an_error(session, monkeypatch):
    monkeypatch.setattr(blind_spots.Sums, "find_wrong", lambda self, places, changed: np.zeros(places.size, bool))
    with pytest.raises(AssertionError, match=r"bevdepth_twin.* predicted \["):
        counted(session, CASES[:1], places=10, verify=1)


def test_a_share_is_never_rounded_up_to_all():
    table = list(blind_spots.table({("op", "half", "default"): Tally(changed=100_000, found=99_999, by_float=100_000)}))
    assert table[2:] == ["| op | half | 0.00 % | 99.99 % | 100 % | – | – | – |"]


@pytest.mark.slow
def test_the_command_prints_the_table_and_writes_the_counts(tmp_path, capsys):
    counts = tmp_path / "counts.json"
    words = ["--op", "masked_col2im_forward", "--places", "3", "--verify", "0", "--no-network", "--json", str(counts)]
    assert blind_spots.main(words) == 0
    printed, written = capsys.readouterr().out, json.loads(counts.read_text())
    for dtype in ("float", "half"):
        assert f"| masked_col2im_forward | {dtype} | 100 % | 100 % | 100 % | – | – | – |" in printed
        tally = written[f"masked_col2im_forward {dtype} default"]
        assert tally["changed"] == tally["found"] > 100


@pytest.mark.slow
def test_a_large_change_that_nobody_finds_is_an_exit_code(monkeypatch, capsys):
    class Case:
        id, operator = "op/case", "op"

    found = [(Case, DType.FLOAT, Tally(changed=5, large=4, large_found=3))]
    monkeypatch.setattr(blind_spots, "tallies", lambda _session, cases, *_: found if cases else [])
    assert blind_spots.main(["--no-network"]) == 1
    assert "4 of them by more than twice the bound: 3 of these found" in capsys.readouterr().out
