"""JUnit, CTRF and whole documents; what each report says of hosts and of --reseed; two sets of results side by side."""

import json
import math
import os
import re
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.case import Reseeded
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, Perf
from mluops_gtest.results.history import History
from mluops_gtest.results.records import report_from_json, report_to_json, result_from_json, result_to_json
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.reports.html_payload import payload
from mluops_gtest.results.run_comparison import compare, comparison_to_json
from tests.support.examples import examples
from tests.support.npm import install, needs_npm
from tests.support.reports import GOLDEN, golden_report, report, result

# XML 1.0 allows these alone.
ALLOWED = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def text_of(whole, form, lang="en"):
    return "".join(render(whole, form, lang))


def elements_of(whole, name):
    return list(ElementTree.fromstring(text_of(whole, "junit").encode()).iter(name))


def test_colours_are_removed_and_control_characters_written_out():
    hostile = report(result(output="\x1b[1;31mred\x1b[0m\x00\x07 a ]]> & <b>\r\n\ud800end"))
    (case,) = elements_of(hostile, "testcase")
    assert case.find("system-out").text == "red\\x00\\x07 a ]]> & <b>\n\\ud800end"


@settings(max_examples=examples(60))
@given(st.text(), st.text(), st.text())
def test_any_text_gives_a_document(name, reason, output):
    hostile = report(replace(result(outcome=Outcome.FAILED, reason=reason, output=output), case=name, operator=name))
    assert ALLOWED.fullmatch(text_of(hostile, "junit"))
    (case,) = elements_of(hostile, "testcase")
    assert case.find("failure").get("type") == "failed"


VALIDATE = """
const {readFileSync} = require("fs");
const Ajv = require("ajv").default, formats = require("ajv-formats").default;
const [schema, ...documents] = process.argv.slice(1).map((path) => JSON.parse(readFileSync(path, "utf8")));
const ajv = new Ajv({allErrors: true, strict: false});
formats(ajv);
const validate = ajv.compile(schema);
console.log(JSON.stringify(documents.map((document) => validate(document) ? [] : validate.errors)));
"""


def test_the_same_report_has_the_same_id_and_another_has_another():
    first, again, other = (text_of(report(result(value=value)), "ctrf") for value in (1e-6, 1e-6, 1e-7))
    assert first == again
    assert json.loads(first)["reportId"] != json.loads(other)["reportId"]


class TestSchema:
    """With the schema that the format's own package publishes."""

    pytestmark = needs_npm

    @pytest.mark.slow
    def test_documents_are_valid_and_a_wrong_one_is_not(self, tmp_path):
        modules = install(tmp_path, "ctrf", "ajv@8", "ajv-formats@3")
        (schema,) = (modules / "ctrf" / "dist").glob("ctrf-schema-*.json")
        odd = result(name="é\ud800", outcome=Outcome.FAILED, value=float("nan"), reason="\ud800", output="a\x00\nb")
        (tmp_path / "odd.json").write_text(text_of(report(odd), "ctrf"), encoding="utf-8")
        (tmp_path / "empty.json").write_text(text_of(report(), "ctrf"), encoding="utf-8")
        wrong = json.loads((GOLDEN / "ctrf.json").read_text())
        wrong["results"]["tests"][0]["status"] = "flaky"
        (tmp_path / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
        documents = [GOLDEN / "ctrf.json", tmp_path / "odd.json", tmp_path / "empty.json", tmp_path / "wrong.json"]
        command = ["node", "-e", VALIDATE, "--", str(schema), *map(str, documents)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        golden, odd_one, empty, refused = json.loads(done.stdout)
        assert (golden, odd_one, empty) == ([], [], [])
        assert [error["instancePath"] for error in refused] == ["/results/tests/0/status"]


REPORT = golden_report()


def test_the_golden_report_has_everything():
    assert {result.outcome for result in REPORT.results} == set(Outcome)
    for field in ("readings", "worst", "perf", "profile", "attempts", "output", "notes", "fingerprint"):
        assert any(getattr(result, field) for result in REPORT.results), field


@pytest.mark.parametrize(
    ("name", "form", "lang"),
    [
        ("report.en.md", "markdown", "en"),
        ("report.zh.md", "markdown", "zh"),
        ("junit.xml", "junit", "en"),
        ("ctrf.json", "ctrf", "en"),
    ],
)
def test_the_document_is_the_golden_one(name, form, lang):
    text = text_of(REPORT, form, lang)
    path = GOLDEN / name
    if os.environ.get("MLUOPS_TEST_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="")
    assert text == path.read_bytes().decode()


TWO = (
    result("a", host="node1", device=0),
    result("b", host="node2", device=1),
    result("c", Outcome.FAILED, host="node2", reason="why"),
)


def test_the_summary_groups_by_host_where_hosts_differ():
    assert "Hosts: node1: 1 passed; node2: 1 passed, 1 failed" in text_of(report(*TWO), "text")
    for others in (TWO[:1], [result("a")]):
        assert "Hosts:" not in text_of(report(*others), "text")


def test_pages_and_junit_tell_the_host_of_each_case():
    assert '"node2 #1"' in text_of(report(*TWO), "html")
    assert {"node1", "node2"} <= {one.get("value") for one in elements_of(report(*TWO), "property")}


def test_hosts_are_kept_in_files_and_absent_where_there_are_none():
    for one in (*TWO, result("d")):
        record = result_to_json(one)
        assert ("host" in record) == bool(one.host)
        assert ("device" in record) == (one.device is not None)
        assert result_from_json(record, Source("results.jsonl", "")) == one


def reseeded(number=7, *, value=1e-6, started="2026-01-01T00:00:00+00:00"):
    told = (Reseeded(number), Reseeded(number, redraws=2), Reseeded(number, fixed=True))
    results = (result(name, value=value, info=CaseInfo(reseeded=one)) for name, one in zip("abc", told, strict=True))
    return report(*results, selection={"reseed": number}, started=started)


def test_the_report_is_read_as_it_was_written():
    read = report_from_json(json.loads(json.dumps(report_to_json(reseeded()))), Source("report.json", ""))
    assert read == reseeded()
    assert (read.reseed, read.fixed) == (7, 1)


def test_the_closing_line_names_the_seed_and_what_it_did_not_reach():
    words = "Values of --reseed 7; 1 case is the same without it; 1 drew more than once to meet their conditions\n"
    assert words in text_of(reseeded(), "text")


@pytest.mark.parametrize(("lang", "words"), [("en", "1 cases have the same values"), ("zh", "其中 1 个用例")])
def test_markdown(lang, words):
    text = text_of(reseeded(), "markdown", lang)
    assert "`--reseed 7`" in text
    assert words in text


def test_junit_and_ctrf_and_html():
    assert {one.get("name"): one.get("value") for one in elements_of(reseeded(), "property")}["reseed"] == "7"
    extra = json.loads(text_of(reseeded(), "ctrf"))["results"]["environment"]["extra"]
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


P, F, S, X = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.XFAILED


def pair(before, after):
    """The row of one case; None: not there."""
    sides = [report() if outcome is None else report(result(outcome=outcome)) for outcome in (before, after)]
    (row,) = compare(*sides).rows
    return row


def test_what_is_worse():
    worse = [(P, F), (P, S), (S, F), (X, F), (P, None), (F, None), (None, F), (None, Outcome.NOT_RUN)]
    others = [(P, P), (F, P), (F, Outcome.CRASHED), (S, P), (F, S), (None, P), (None, S)]
    assert [sides for sides in worse + others if pair(*sides).worse] == worse


def test_another_reading_is_a_change_and_nothing_worse():
    (row,) = compare(report(result(value=1e-6)), report(result(value=2e-6))).rows
    assert (row.changed, row.worse) == (True, False)
    (reading,) = row.readings
    assert (reading.output, reading.criterion, reading.before, reading.after) == ("y", "diff1", 1e-6, 2e-6)


def test_another_time_is_no_change():
    (row,) = compare(report(result(seconds=1.0)), report(result(seconds=2.0))).rows
    assert (row.changed, row.seconds) == (False, (1.0, 2.0))


def test_two_nan_are_the_same():
    (row,) = compare(report(result("a", F, value=math.nan)), report(result("a", F, value=math.nan))).rows
    assert not row.changed


def test_medians_compare_only_with_medians():
    sampled = result(seconds=1.0, perf=Perf((3_000_000, 1_000_000, 2_000_000)))
    assert compare(report(sampled), report(sampled)).rows[0].seconds == (0.002, 0.002)
    assert compare(report(sampled), report(result(seconds=0.5))).rows[0].seconds == (1.0, 0.5)
    assert compare(report(sampled), report()).rows[0].seconds == (0.002, None)


def test_json_has_both_sides():
    both = compare(report(result("a"), result("b")), report(result("a", F, value=math.nan), result("c")))
    document = json.loads(json.dumps(comparison_to_json(both), allow_nan=False))
    assert document["worse"] == ["op/a", "op/b"]
    cases = {row["case"]: row for row in document["cases"]}
    assert (cases["op/a"]["before"]["outcome"], cases["op/a"]["after"]["outcome"]) == ("passed", "failed")
    assert cases["op/a"]["after"]["readings"][0]["value"] == "nan"
    assert (cases["op/b"]["after"], cases["op/c"]["before"]) == (None, None)
