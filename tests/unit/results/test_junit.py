"""JUnit: which element each outcome becomes, counts, and text that XML has no way to write."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt
from mluops_gtest.results.reports.files import render
from tests.support.examples import examples
from tests.support.reports import golden_report, legacy_reasons, report, result

EXPECTED = {
    "failure": {"failed", "wrong_status", "memory", "suspect", "xpassed", "flaky"},
    "error": {"crashed", "timed_out", "error", "not_run"},
    "skipped": {"skipped", "xfailed"},
    None: {"passed"},
}
# XML 1.0 allows these alone.
ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def parse(*results, **options):
    return ElementTree.fromstring("".join(render(report(*results), "junit", **options)).encode())


def properties(case):
    return {p.get("name"): p.get("value") for p in case.iterfind("properties/property")}


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_becomes_one_element(outcome):
    (case,) = parse(result(outcome=outcome, reason="why")).iter("testcase")
    elements = [child for child in case if child.tag in ("failure", "error", "skipped")]
    wanted = next(tag for tag, words in EXPECTED.items() if outcome.value in words)
    assert [element.tag for element in elements] == ([] if wanted is None else [wanted])
    assert [element.get("type") for element in elements] == ([] if wanted is None else [outcome.value])


def test_one_testcase_per_result_and_counts_that_add_up():
    golden = golden_report()
    root = ElementTree.fromstring("".join(render(golden, "junit")).encode())
    assert len(list(root.iter("testcase"))) == len(golden.results)
    for suite in (root, *root.iterfind("testsuite")):
        cases = list(suite.iter("testcase"))
        assert int(suite.get("tests")) == len(cases)
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == sum(case.find(tag) is not None for case in cases)
    assert {suite.get("name") for suite in root.iterfind("testsuite")} == {r.operator for r in golden.results}


def test_readings_and_thresholds_are_properties():
    (case,) = parse(result(value=0.25, outcome=Outcome.FAILED)).iter("testcase")
    found = properties(case)
    assert (found["y.diff1"], found["y.diff1.threshold"], found["outcome"]) == ("0.25", "0.003", "failed")


def test_properties_come_first_as_readers_expect():
    (case,) = parse(result(outcome=Outcome.FAILED, reason="r", output="printed")).iter("testcase")
    assert [child.tag for child in case] == ["properties", "failure", "system-out"]


def test_a_flaky_case_tells_its_attempts():
    attempts = (Attempt(Outcome.FAILED, legacy_reasons("off by one")), Attempt(Outcome.PASSED))
    (case,) = parse(result(outcome=Outcome.FLAKY, attempts=attempts)).iter("testcase")
    assert "attempt 1: failed off by one\nattempt 2: passed" in case.find("failure").text


def test_a_transition_is_a_property():
    (case,) = parse(result("a"), transitions={"op/a": "regressed"}).iter("testcase")
    assert properties(case)["transition"] == "regressed"


def test_colours_are_removed_and_control_characters_written_out():
    (case,) = parse(result(output="\x1b[1;31mred\x1b[0m\x00\x07 a ]]> & <b>\r\n\ud800end")).iter("testcase")
    assert case.find("system-out").text == "red\\x00\\x07 a ]]> & <b>\n\\ud800end"


@settings(max_examples=examples(60))
@given(st.text(), st.text(), st.text())
def test_any_text_gives_a_document(name, reason, output):
    hostile = replace(result(outcome=Outcome.FAILED, reason=reason, output=output), case=name, operator=name)
    text = "".join(render(report(hostile), "junit"))
    assert ALLOWED.fullmatch(text)
    (case,) = ElementTree.fromstring(text.encode()).iter("testcase")
    assert case.find("failure").get("type") == "failed"
