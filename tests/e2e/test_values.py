"""Looking at values: what a run says of them, `run --save-outputs` and `mluops-test diff`."""

from tests.e2e.conftest import wrong

CASE = "voxel_pooling_forward/bevdepth_twin"


def test_a_wrong_element_stands_out_of_the_rounding(run):
    result = run(CASE, "--backend", wrong("RoundsAndOneWrong"))
    worst = result.results[CASE]["worst"]
    assert worst["beyond"] == 1
    assert worst["bits_unequal"] > 100
    share = f"1 of {worst['compared']} elements beyond tolerance ({worst['bits_unequal']} unequal in their bits)"
    assert share in result.results[CASE]["reason"]
    assert result.out.count(share) == 1
    assert "ulp" not in result.out


def test_in_an_output_within_its_criteria_nothing_is_beyond_tolerance(run):
    result = run(CASE, "--backend", wrong("OneUlpOff"))
    assert result.code == 0
    worst = result.results[CASE]["worst"]
    assert (worst["beyond"], worst["bits_unequal"], worst["max_ulp"]) == (None, 1, 1)
