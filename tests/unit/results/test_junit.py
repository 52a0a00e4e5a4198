"""JUnit: which element each outcome becomes, counts, and text that XML has no way to write."""

import re
from dataclasses import replace
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.reports.files import render
from tests.support.examples import examples
from tests.support.reports import report, result

# XML 1.0 allows these alone.
ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def parse(*results, **options):
    return ElementTree.fromstring("".join(render(report(*results), "junit", **options)).encode())


def properties(case):
    return {p.get("name"): p.get("value") for p in case.iterfind("properties/property")}


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
