"""`run --stress`: results that vary with the threads are counted, and a race in C code is caught."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.conftest import backends_in, only
from tests.support.c_example import c_example
from tests.support.native import needs_gcc

CASE = "masked_im2col_forward/retinanet_3x3_twin_float"
ROUNDS = "voxel_pooling_forward/precision_full"

backend = backends_in("thread_backends")


@pytest.mark.slow
def test_a_failure_with_two_threads_is_flaky_and_told_with_its_count(run, cli):
    html = "--html", "page.html", "--markdown", "report.md"
    result = run(CASE, "--backend", backend("WrongWithTwoThreads"), "--stress", "6x", "-j", 2, *html).expect_code(1)
    one = only(result)
    assert one["outcome"] == "flaky"
    failed = sum(row["failed"] for row in one["stress"]["by_threads"])
    assert {row["threads"] for row in one["stress"]["by_threads"] if row["failed"]} == {2}
    assert one["stress"]["first_failed"] == 2
    assert one["reason"].startswith(f"failed in {failed} of 6 repetitions, first with OMP_NUM_THREADS=2: data_col: ")
    assert one["repro"].endswith("--stress 6x")
    assert "6 repetitions of 1 case" in result.out
    assert "1 case failed in some" in result.out
    assert '"stress":[[' in Path("page.html").read_text()
    assert "6 repetitions with changing numbers of threads" in Path("report.md").read_text()
    again = cli("report", result.folder, "--format", "text")
    assert "first with OMP_NUM_THREADS=2" in again.out


@pytest.mark.slow
def test_other_bits_within_the_bound_are_a_note(run):
    result = run(ROUNDS, "--backend", backend("OtherBitsWithOneThread"), "--stress", "4x").expect_code(0)
    one = only(result)
    assert one["outcome"] == "passed"
    assert sum(row["differing"] for row in one["stress"]["by_threads"]) > 0
    assert any("left other bits than the first" in note for note in one["notes"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stress", "5"], "--stress needs worker processes"),
        (["--stress", "soon", "--isolate"], "write the seconds for all cases together"),
        (["--stress", "5", "--isolate", "--repeat", "2"], "leave out --repeat"),
        (["--stress", "5", "--isolate", "--reruns", "2", "--perf"], "leave out --reruns and --perf"),
        (["--stress", "5", "--isolate", "--guard-pages"], "leave out --guard-pages"),
    ],
)
def test_what_cannot_be_put_under_stress_is_refused(cli, options, words):
    cli("run", *options).expect_error(2, words)


def test_without_a_selection_it_takes_the_cases_in_which_threads_meet(cli, toy):
    """The toy root has none, and says so instead of repeating anything else."""
    assert cli("run", "--root", toy, "--isolate", "--stress", "1x").code == 5


def test_every_operator_that_adds_has_cases_that_collide(catalogue):
    tagged = {draft.operator for draft in catalogue.drafts.values() if "race" in draft.tags}
    assert tagged == {
        "dynamic_point_to_voxel_forward",
        "dynamic_scatter_backward",
        "indice_convolution_backward_data",
        "indice_convolution_backward_filter",
        "indice_convolution_forward",
        "three_interpolate_backward",
        "voxel_pooling_forward",
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first_failed": 4}, "no repetition failed with that many threads"),
        ({"by_threads": []}, "each number of threads has one row"),
        (
            {"by_threads": [{"threads": 2, "repetitions": 1, "failed": 0, "differing": 2}]},
            "more of them than there are",
        ),
        ({"by_threads": [{"threads": 2, "repetitions": 3, "failed": 1, "differing": 0}], "first_failed": 2}, "passed"),
    ],
)
def test_repetitions_that_cannot_be_are_refused(run, cli, toy, change, words):
    result = run("--root", toy)
    report = json.loads((result.folder / "report.json").read_text())
    one = next(one for one in report["results"] if one["outcome"] == "passed")
    row = {"threads": 2, "repetitions": 3, "failed": 0, "differing": 1}
    one["stress"] = {"by_threads": [row], "first_failed": None}
    (result.folder / "report.json").write_text(json.dumps(report))
    assert cli("report", result.folder, "--format", "text").code == 0
    one["stress"] |= change
    (result.folder / "report.json").write_text(json.dumps(report))
    cli("report", result.folder, "--format", "text").expect_error(3, words)


@pytest.fixture(scope="module")
def racing(tmp_path_factory):
    """The C example whose threads lose additions."""
    return c_example(tmp_path_factory) / "build" / "libmluops_host_race.so"


@pytest.mark.slow
@pytest.mark.needs_gcc
@needs_gcc[1]
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two threads on one core may never meet")
def test_a_race_is_caught_within_20_repetitions_of_one_case(run, racing):
    """Load, yield, store: with one thread nothing is lost, with more of them something is."""
    case = "voxel_pooling_forward/race_one_cell"
    result = run(case, "--backend", f"c:{racing}", "--stress", "20x")
    one = result.results[case]
    assert one["outcome"] == "flaky", result.out
    by_threads = {row["threads"]: row for row in one["stress"]["by_threads"]}
    assert by_threads[1]["failed"] == 0 < by_threads[2]["failed"]
    assert "OMP_NUM_THREADS=" in one["reason"]
