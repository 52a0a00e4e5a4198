"""The files of a run while it lasts, its causes in at most 64 KiB, and arrays in .npy files."""

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CasesRetracted
from mluops_gtest.core.tensor import DType, widened
from mluops_gtest.judging.blocks import value_text
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.saved_outputs import write_npy
from mluops_gtest.results.writer import ResultFiles, write_causes
from tests.support.reports import report, result
from tests.unit.judging.test_groups import failure

NAMES = ["op/c", "op/a", "op/b"]


@pytest.fixture
def files(tmp_path):
    with ResultsFolder(tmp_path / "out") as folder, ResultFiles(folder, {}, [result("c")]) as files:
        for case in NAMES[1:]:
            files(CaseFinished(result(case[-1], Outcome.FAILED if case == "op/b" else Outcome.PASSED)))
        yield files


def test_results_come_back_in_any_order(files):
    assert [one.case for one in files] == NAMES
    ordered = files.in_order(sorted(NAMES))
    assert (len(ordered), [one.case for one in ordered]) == (3, sorted(NAMES))
    assert (ordered[-1].case, [one.case for one in ordered[:2]]) == ("op/c", ["op/a", "op/b"])
    assert ordered[0] == result("a")
    assert ("op/a" in files, "op/x" in files) == (True, False)


def test_cases_that_are_retracted_leave_nothing(files, tmp_path):
    files(CasesRetracted(("op/b", "op/c")))
    assert [one.case for one in files] == ["op/a"]
    assert (files.tally.summary, files.tally.failing) == ({"passed": 1}, 0)
    again = result("b")
    files(CaseFinished(again))
    assert list(files.in_order(["op/b", "op/a"])) == [again, result("a")]
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["op/a", "op/b"]


def test_what_all_come_to_is_known_without_reading(files, tmp_path):
    whole = report(*files.in_order(NAMES))
    os.truncate(tmp_path / "out" / "results.jsonl", 0)
    tally = files.in_order(NAMES).tally
    assert (tally.summary, tally.failing, tally.exit_code) == (whole.summary, 1, whole.exit_code)


def test_the_report_is_made_of_the_lines(files, tmp_path):
    whole = report(*files.in_order(sorted(NAMES)))
    files.write_report(whole, sorted(NAMES))
    folder = tmp_path / "out"
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    assert json.loads((folder / "report.json").read_bytes())["results"] == [
        json.loads(lines[NAMES.index(case)]) for case in sorted(NAMES)
    ]


def test_a_file_that_somebody_shortened_is_no_report(files, tmp_path):
    whole = report(*files.in_order(NAMES))
    os.truncate(tmp_path / "out" / "results.jsonl", 100)
    with pytest.raises(UnwritableError, match=r"results\.jsonl: another program has shortened the file; run again\.$"):
        files.write_report(whole, NAMES)
    assert not (tmp_path / "out" / "report.json").exists()


FIELDS = "id operator outcome kinds headline output place law law_kind condition samples cases smallest repro waivable"


def crash(name, fingerprint, words="died", operator="op"):
    return result(name, Outcome.CRASHED, operator=operator, fingerprint=fingerprint, reason=words, repro=words)


def written(folder, *results):
    write_causes(folder, report(*results))
    data = (folder / "causes.json").read_bytes()
    assert len(data) <= 64 * 1024
    return json.loads(data)


def test_the_file_has_its_fields(tmp_path):
    right = np.arange(1.0, 9)
    document = written(tmp_path, failure("a", np.where(np.arange(8) < 6, right, 0), right), crash("b", "v1:b"))
    assert document.keys() == {"format", "causes", "more_causes", "more_cases"}
    assert all(cause.keys() == set(FIELDS.split()) for cause in document["causes"])
    values = next(cause for cause in document["causes"] if cause["outcome"] == "failed")
    assert [sample.keys() for sample in values["samples"]] == [{"index", "got", "expected"}] * 2
    assert values["samples"][0] == {"index": [6], "got": "0.0", "expected": "7.0"}


def test_the_samples_are_those_of_a_case_in_which_the_headline_holds(tmp_path):
    """The smallest case may be one of the few that do not show it."""
    odd = failure("0", np.array([1.0, 2, 7, 1]), np.array([1.0, 2, 3, 4]))
    tails = []
    for n in range(6, 20):
        right = np.arange(1.0, n + 1)
        tails.append(failure(str(n), np.where(np.arange(n) < n - 2, right, 0), right))
    for cause in written(tmp_path, odd, *tails)["causes"]:
        if cause["law"] == "zero":
            assert {sample["got"] for sample in cause["samples"]} == {"0.0"}


def test_no_operator_is_blamed_for_others(tmp_path):
    (cause,) = written(tmp_path, crash("a", "v1:a", "boom"), crash("a", "v1:a", "boom", operator="other"))["causes"]
    assert (cause["operator"], cause["headline"]) == ("", "several operators: crashed: boom")


def test_at_most_a_hundred_causes_and_twenty_ids_the_rest_is_counted(tmp_path):
    document = written(tmp_path, *(crash(f"{i}-{j}", f"v1:{i}") for i in range(120) for j in range(1 + (i < 3) * 30)))
    assert len(document["causes"]) == 100
    assert (document["more_causes"], document["more_cases"]) == (20, 20)
    assert [len(cause["smallest"]) for cause in document["causes"][:4]] == [20, 20, 20, 1]
    assert [cause["cases"] for cause in document["causes"][:4]] == [31, 31, 31, 1]


def test_long_names_leave_out_whole_causes_from_the_end(tmp_path):
    document = written(tmp_path, *(crash(f"{'n' * 300}-{i}-{j}", f"v1:{i}") for i in range(100) for j in range(25)))
    assert 5 < len(document["causes"]) < 100
    assert document["more_causes"] == 100 - len(document["causes"])
    assert document["more_cases"] == 25 * document["more_causes"]
    assert all(len(cause["smallest"]) == 20 for cause in document["causes"])


@given(
    st.lists(st.tuples(st.text(), st.sampled_from(["\x1b[1m", "\ud800", "漢", "\U0001f600", '"\\', "\n"])), max_size=4)
)
def test_no_text_is_too_long(tmp_path_factory, texts):
    results = [crash(f"{i}{odd * 1_000}{text}", f"v1:{odd * 500}", odd * 2_000) for i, (text, odd) in enumerate(texts)]
    document = written(tmp_path_factory.mktemp("causes"), *results)
    assert document["more_causes"] == 0
    assert sum(cause["cases"] for cause in document["causes"]) == len(results)
    for cause in document["causes"]:
        assert "\x1b" not in cause["headline"]
        assert "\n" not in cause["headline"]


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["<f4", "<f2", "u1", "<i8", "<c16"])
def test_numpy_reads_what_is_written(tmp_path, shape, dtype):
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    size = write_npy(tmp_path / "new" / "a.npy", array)
    loaded = np.load(tmp_path / "new" / "a.npy", allow_pickle=False)
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert size == (tmp_path / "new" / "a.npy").stat().st_size


def test_a_strided_array_is_written_in_its_order(tmp_path):
    array = np.arange(12, dtype="<i4").reshape(3, 4).T
    write_npy(tmp_path / "a.npy", array)
    assert (np.load(tmp_path / "a.npy") == array).all()


def test_bfloat16_becomes_float32():
    stored = np.array([[0x3F80, 0xC040], [0x7F80, 0x7FA5]], "<u2")
    values = widened(stored, DType.BFLOAT16)
    assert (values.dtype, values.shape) == (np.dtype("<f4"), (2, 2))
    assert values[:, 0].tolist() == [1.0, np.inf]
    assert values[0, 1] == -3.0
    assert np.isnan(values[1, 1])


def test_a_pair_of_halves_becomes_complex64():
    stored = np.array([[1.5, -2.0], [0.25, 8.0]], "<f2").view("<u4").reshape(2)
    assert widened(stored, DType.COMPLEX_HALF).tolist() == [1.5 - 2j, 0.25 + 8j]


@pytest.mark.parametrize(
    ("stored", "dtype", "text"),
    [
        (np.float32(0.1), DType.FLOAT, "0.1"),
        (np.array(0x7FA5A5A5, "<u4").view("<f4"), DType.FLOAT, "nan (0x7fa5a5a5)"),
        (np.uint16(0x3FC0), DType.BFLOAT16, "1.5"),
        (np.uint16(0x7FA5), DType.BFLOAT16, "nan (0x7fa5)"),
        (np.uint32(0xC0003E00), DType.COMPLEX_HALF, "(1.5-2j)"),
        (np.int64(-(2**63)), DType.INT64, "-9223372036854775808"),
    ],
)
def test_an_element_for_people(stored, dtype, text):
    assert value_text(stored, dtype) == text
