"""causes.json: at most 64 KiB whatever the run, and nothing in it steers a terminal."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mluops_gtest.core.cause import LegacyReason
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.writer import causes_of, write_causes
from tests.support.reports import report
from tests.unit.judging.test_groups import failure

FIELDS = {
    "id", "operator", "outcome", "headline", "output", "place", "law", "condition", "samples", "cases", "smallest",
    "repro", "waivable",
}  # fmt: skip


def crash(name, fingerprint, words="died", operator="op"):
    return CaseResult(
        f"{operator}/{name}",
        operator,
        (),
        Outcome.CRASHED,
        fingerprint=fingerprint,
        causes=(LegacyReason(words),),
        repro=words,
    )


def written(folder, *results):
    write_causes(folder, report(*results))
    data = (folder / "causes.json").read_bytes()
    assert len(data) <= 64 * 1024
    return json.loads(data)


def test_the_file_has_its_fields(tmp_path):
    right = np.arange(1.0, 9)
    document = written(tmp_path, failure("a", np.where(np.arange(8) < 6, right, 0), right), crash("b", "v1:b"))
    assert document.keys() == {"format", "causes", "more_causes", "more_cases"}
    assert all(cause.keys() == FIELDS for cause in document["causes"])
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


def test_a_cause_in_python_is_what_the_file_has(tmp_path):
    right = np.arange(1.0, 9)
    whole = report(failure("a", np.where(np.arange(8) < 6, right, 0), right), crash("b", "v1:b"))
    (first, second), stored = causes_of(whole), written(tmp_path, *whole.results)["causes"]
    assert [first.id, second.id] == [cause["id"] for cause in stored]
    assert causes_of(replace(whole, results=())) == ()
