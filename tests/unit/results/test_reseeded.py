"""A run with the values of --reseed N: every report names N, and nothing compares its readings with other values'."""

import json
from xml.etree import ElementTree

import pytest

from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.case import Reseeded
from mluops_gtest.core.result import CaseInfo
from mluops_gtest.results.history import History
from mluops_gtest.results.records import report_from_json, report_to_json
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.reports.html_payload import payload
from mluops_gtest.results.reports.terminal import reseed_words
from mluops_gtest.results.run_comparison import compare, comparison_to_json
from tests.support.reports import report, result


def reseeded(number=7, *, value=1e-6, started="2026-01-01T00:00:00+00:00"):
    told = (Reseeded(number), Reseeded(number, redraws=2), Reseeded(number, fixed=True))
    results = (result(name, value=value, info=CaseInfo(reseeded=one)) for name, one in zip("abc", told, strict=True))
    return report(*results, selection={"reseed": number}, started=started)


def test_the_report_is_read_as_it_was_written():
    read = report_from_json(json.loads(json.dumps(report_to_json(reseeded()))), Source("report.json", ""))
    assert read == reseeded()
    assert (read.reseed, read.fixed) == (7, 1)


def test_a_report_of_the_declared_values_tells_no_seed():
    plain = report(result())
    assert (plain.reseed, plain.fixed) == (None, 0)
    for form in ("junit", "ctrf", "markdown"):
        assert "reseed" not in "".join(render(plain, form))


def test_the_closing_line_names_the_seed_and_what_it_did_not_reach():
    assert reseed_words(reseeded()) == (
        "Values of --reseed 7; 1 case is the same without it; 1 drew more than once to meet their conditions"
    )


@pytest.mark.parametrize(("lang", "words"), [("en", "1 cases have the same values"), ("zh", "其中 1 个用例")])
def test_markdown(lang, words):
    text = "".join(render(reseeded(), "markdown", lang))
    assert "`--reseed 7`" in text
    assert words in text


def test_junit_and_ctrf_and_html():
    properties = ElementTree.fromstring("".join(render(reseeded(), "junit"))).iterfind("testsuite/properties/property")
    assert {p.get("name"): p.get("value") for p in properties}["reseed"] == "7"
    extra = json.loads("".join(render(reseeded(), "ctrf")))["results"]["environment"]["extra"]
    assert (extra["reseed"], extra["fixed"]) == (7, 1)
    facts = dict(payload(reseeded(0), None, None)[0]["run"]["selection"])
    assert facts == {"reseed": "0", "fixed": "1"}


@pytest.mark.parametrize(("number", "changed"), [(7, 3), (8, 0)])
def test_compare_reads_across_no_seeds(number, changed):
    both = compare(reseeded(7), reseeded(number, value=1e-4))
    assert len(both.changed) == changed
    assert comparison_to_json(both)["same_values"] is (number == 7)


def test_the_history_keeps_outcomes_and_times_of_other_values_but_no_readings(tmp_path):
    with History(tmp_path / "history.sqlite", create=True) as history:
        for day, one in enumerate((report(result("a")), reseeded(value=2e-3)), 1):
            history.add(report(*one.results, selection=one.selection, started=f"2026-01-0{day}T00:00:00+00:00"))
        trend = next(trend for trend in history.trends(history.runs()) if trend.case == "op/a")
    assert [len(point.measured) for point in trend.points] == [1, 0]
    assert trend.pass_rate == 1.0
    assert [drift.values for drift in trend.drifts] == [(1e-6,)]
