"""`mluops-test minimise`: the smallest case that fails for the same cause, from the command line."""

import os
import re
import signal

import pytest

from tests.e2e.conftest import SUPPORT, called

CASE = "voxel_pooling_forward/bevdepth_twin"


def mistake(name):
    return f"{SUPPORT / 'pooling_mistakes.py'}:{name}"


def elements(out):
    """Before and after."""
    found = re.search(r"^(\d+) → (\d+) elements in (\d+) calls", out, re.MULTILINE)
    assert found, out
    return tuple(map(int, found.groups()))


def values(text):
    return [line for line in text.splitlines() if line.startswith("value_")]


@pytest.fixture(scope="module")
def smallest(tmp_path_factory):
    """What the search for wrong values prints, and the file that it writes."""
    file = tmp_path_factory.mktemp("smallest") / "small.prototxt"
    result = called("minimise", CASE, "--backend", mistake("LosesZero"), "--no-isolate", "--out", file).expect_code(0)
    result.file = file
    return result


def test_wrong_values_become_a_case_that_a_person_can_read(cli, smallest, tmp_path):
    small, result = smallest.file, smallest
    before, after, calls = elements(result.out)
    assert (before, after) == (2752, 8)
    assert calls <= 300
    assert "points 96 → 1, batches 2 → 1, channels 5 → 1, width 8 → 1, height 8 → 1; fails with: failed: " in result.out
    assert f"repro: mluops-test run {small} --backend {mistake('LosesZero')} --no-isolate" in result.out
    assert len(values(small.read_text())) <= 10
    assert {line.partition(": ")[2] for line in values(small.read_text())} == {"0", "1.0"}
    # What it says can be had again, and a right backend passes the case although its baseline is constant.
    assert cli("run", small, "--backend", mistake("LosesZero"), "--no-isolate", "--out", tmp_path / "wrong").code == 1
    cli("run", small, "--backend", mistake("Right"), "--no-isolate", "--out", tmp_path / "right").expect_code(0)


def test_the_same_search_gives_the_same_file(cli, smallest, tmp_path):
    again = tmp_path / "small.prototxt"
    assert cli("minimise", CASE, "-b", mistake("LosesZero"), "--no-isolate", "--out", again).code == 0
    assert again.read_bytes() == smallest.file.read_bytes()


def test_a_minimal_case_says_so(cli, smallest):
    cli("minimise", smallest.file, "-b", mistake("LosesZero"), "--no-isolate").expect_output(
        0, "The case is minimal already: nothing can be taken away", "small_minimised.prototxt"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("Crashes", "crashed: "),
        ("Overruns", "memory: wrote past the end of pos_memo, first at byte 1 behind it"),
        ("Raises", "error: ZeroDivisionError: in my kernel"),
        ("Refuses", "wrong status: answered NOT_SUPPORTED, expected SUCCESS"),
    ],
)
def test_every_kind_of_failure_becomes_small(cli, backend, words):
    result = cli("minimise", "voxel_pooling_forward/bounds_4x3x2", "--backend", mistake(backend)).expect_code(0)
    before, after, _ = elements(result.out)
    assert after <= before / 10
    assert words in result.out


@pytest.mark.slow
@pytest.mark.slow(seconds=12)
def test_a_hang_becomes_small_without_a_wait_for_every_call(cli):
    result = cli(
        "minimise", "voxel_pooling_forward/bounds_4x3x2", "-b", mistake("Hangs"), "--timeout", "2"
    ).expect_code(0)
    before, after, _ = elements(result.out)
    assert after <= before / 10
    assert "timed out" in result.out


def test_a_refused_call_loses_its_second_mistake_and_its_dims(cli, tmp_path):
    small = tmp_path / "small.prototxt"
    negative = next(
        line.split()[0] for line in cli("list", "--op", "voxel_pooling_forward", "--tag", "negative").lines
        if "pos_memo" in line and "dim" in line
    )  # fmt: skip
    cli("minimise", negative, "--backend", mistake("Accepts"), "--no-isolate", "--out", small).expect_output(
        0, "wrong status: answered SUCCESS, expected BAD_PARAM"
    )
    assert not values(small.read_text())
    dims = [int(number) for number in re.findall(r"dims: (\d+)", small.read_text())]
    assert max(dims) <= 4
    assert cli("run", small, "-b", mistake("Accepts"), "--no-isolate", "--out", tmp_path / "r").code == 1


def test_a_case_that_passes_has_nothing_to_minimise(cli):
    cli("minimise", CASE, "--backend", "numpy").expect_error(
        5, f"{CASE} passes on numpy (output_features: diff1 ", "pos_memo: diff3 0 ≤ 0): there is nothing to minimise."
    )
    assert not os.listdir()


def test_a_file_whose_baseline_is_wrong_is_told_apart(cli, smallest, tmp_path):
    wrong = tmp_path / "wrong.prototxt"
    head, found, tail = smallest.file.read_text().partition('id: "output_features"')
    wrong.write_text(head + found + re.sub(r"(value_\w+: )\S+", r"\g<1>5.0", tail, count=1))
    cli("minimise", wrong, "--backend", "numpy").expect_error(
        3, "with a baseline by the reference the case does not fail so"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("voxel_pooling_forward/bevdep_twin", "-b", "numpy"), 5, "Did you mean"),
        (("voxel_pooling_forward", "-b", "numpy"), 2, "names "),
        ((CASE, "-b", "no_such_backend"), 2, "Unknown backend"),
        ((CASE, "-b", "missing.py"), 4, "does not exist"),
        ((CASE, "-b", "numpy", "--out", "case.txt"), 2, "the name must end in .prototxt or .pb"),
        ((CASE, "-b", "numpy", "--out", "no/such/case.prototxt"), 2, "there is no folder no/such"),
        ((CASE, "-b", "numpy", "--timeout", "3"), 2, "add --isolate"),
    ],
)
def test_what_cannot_be_is_refused_before_the_search(cli, arguments, code, words):
    cli("minimise", *arguments).expect_error(code, words)


def test_a_file_that_cannot_be_written_is_told(cli):
    cli("minimise", CASE, "-b", mistake("LosesZero"), "--no-isolate", "--out", "/proc/small.prototxt").expect_error(
        74, "/proc/small.prototxt: cannot be written"
    )


def test_ctrl_c_leaves_the_best_case_so_far(cli, tmp_path, monkeypatch):
    from mluops_gtest.search import minimise as trials

    calls, call = [], trials.Trials.__call__

    def interrupted(self, case):
        calls.append(case)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return call(self, case)

    monkeypatch.setattr(trials.Trials, "__call__", interrupted)
    small = tmp_path / "small.prototxt"
    result = cli("minimise", CASE, "-b", mistake("LosesZero"), "--no-isolate", "--out", small).expect_code(130)
    assert re.search(r"Interrupted after 3 calls; the best case so far has \d+ of 2752 elements\.", result.out)
    assert small.exists()


def test_calls_that_are_used_up_are_told(cli):
    cli("minimise", CASE, "-b", mistake("LosesZero"), "--no-isolate", "--calls", "3").expect_output(
        0, "All 3 calls are used up; --calls 12 goes on looking."
    )
