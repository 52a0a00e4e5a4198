"""JUnit, CTRF, Markdown and whole documents; what reports say of hosts and --reseed; two sets of results compared."""

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
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Reseeded
from mluops_gtest.core.cause import Leak
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, Perf, Reading, TensorInfo
from mluops_gtest.results.history import CaseTrend, History, Measured, Point, Run
from mluops_gtest.results.records import report_from_json, report_to_json, result_from_json, result_to_json
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.reports.html_payload import payload
from mluops_gtest.results.reports.markdown_summary import code, text
from mluops_gtest.results.reports.words import MARKDOWN_WORDS
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
    # Pages and JUnit tell the host of each case.
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


def test_another_reading_is_a_change_and_nothing_worse_and_another_time_or_two_nan_are_none():
    (row,) = compare(report(result(value=1e-6)), report(result(value=2e-6))).rows
    assert (row.changed, row.worse) == (True, False)
    (reading,) = row.readings
    assert (reading.output, reading.criterion, reading.before, reading.after) == ("y", "diff1", 1e-6, 2e-6)
    (row,) = compare(report(result(seconds=1.0)), report(result(seconds=2.0))).rows
    assert (row.changed, row.seconds) == (False, (1.0, 2.0))
    (row,) = compare(*[report(result("a", F, value=math.nan))] * 2).rows
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


ENGLISH = MARKDOWN_WORDS["en"]
DEVICE = {"device": {"name": "sample-100", "bandwidth": 1e11, "peak": {"float": 2e12}}}


def lines_of(*results, environment=None, **options):
    return "".join(render(report(*results, environment=environment or {}), "markdown", **options)).splitlines()


def row(lines, first):
    """The cells of the only table row that begins so."""
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def item(lines, name):
    """The details of one item of the checklist."""
    (line,) = [line for line in lines if re.match(rf"\| \d \| {name} \|", line)]
    return line.split("|")[3].strip()


def test_criteria_of_cases_are_not_the_standard():
    own = result("own", readings=(Reading("y", "diff3", 0.0, 0.0, True),))
    own = replace(own, info=replace(own.info, own_criteria=("y",)))
    lines = lines_of(result("a"), own)
    assert [line for line in lines if line.startswith("| `op` | `y`")] == [
        "| `op` | `y` | float | diff1 ≤ 0.003 | diff1 1e-06 |"
    ]
    assert "Cases held to criteria of their own, which are not listed: 1." in lines


def test_a_leak_is_told_and_is_no_overrun():
    leak = Leak(24_000_000, 8)
    lines = lines_of(result("a", leak=leak), result("b", Outcome.MEMORY, leak=leak, causes=(leak,)))
    assert "- `op/a`: leaks 24.0 MB per call (8 calls in a fresh worker)" in lines
    assert "- [x] memory: 2/2" in lines
    assert "1. `op`, memory (1): leaks 24.0 MB per call (8 calls in a fresh worker)<br>" in lines


class TestClaims:
    def test_what_no_case_shows_is_not_tested(self):
        lines = lines_of(result())
        assert item(lines, "zero elements") == "not tested"
        assert "- [ ] nan / inf: not tested" in lines
        assert "- [ ] stability: not tested" in lines
        assert any(
            line.startswith("- Not tested: zero elements, stability, device levels, nan / inf") for line in lines
        )

    def test_a_crash_speaks_against_stability_even_without_repetition(self):
        assert "- [ ] stability: 1/2" in lines_of(result("a"), result("b", Outcome.CRASHED))

    def test_zero_elements_are_taken_or_refused(self):
        info = CaseInfo((TensorInfo("x", "float", "ARRAY", (0, 4)),), (TensorInfo("y", "float", "ARRAY", (0, 4)),))
        taken = result("taken", info=info)
        refused = result("refused", info=info, status=Status.BAD_PARAM, expected_status=Status.BAD_PARAM)
        assert item(lines_of(taken), "zero elements") == "supported"
        assert item(lines_of(refused), "zero elements") == "refused, as the document asks"
        assert item(lines_of(replace(refused, outcome=Outcome.WRONG_STATUS)), "zero elements") == "fails"

    def test_zero_elements_that_are_refused_are_not_called_supported(self):
        empty = (TensorInfo("x", "float", "ARRAY", (0, 4)),)
        bad = {"status": Status.BAD_PARAM, "expected_status": Status.BAD_PARAM}
        taken = result("taken", info=CaseInfo(empty, check="index_empty"))
        refused = result("refused", info=CaseInfo(empty, check="x_empty"), **bad)
        # Whatever else is wrong with a call, that it is refused says nothing of tensors without elements.
        other = result("other", info=CaseInfo(empty, check="y_rank"), **bad)
        assert item(lines_of(taken, other), "zero elements") == "supported"
        lines = lines_of(taken, refused, other)
        assert item(lines, "zero elements") == "supported, except for what is refused as the document asks (`x_empty`)"
        assert "- [x] zero elements: 2/2" in lines

    def test_levels_of_the_device_are_supported_or_refused(self):
        old = {"status": Status.ARCH_MISMATCH, "expected_status": Status.ARCH_MISMATCH}
        results = [
            result("a"),
            result("b", info=CaseInfo(arch=370)),
            result("c", info=CaseInfo(arch=200), **old),
            result("d", info=CaseInfo(arch=290), **old),
        ]
        lines = lines_of(*results)
        levels = "; device levels: MLU370; refused, as the document asks: MLU200, MLU290"
        assert item(lines, "platform").endswith(levels)
        assert "- [x] device levels: 3/3" in lines
        assert row(lines, "device levels")[1:4] == ["MLU200 (1), MLU290 (1), MLU370 (1)", "3", "passed"]
        lines = lines_of(*results[:3], replace(results[3], outcome=Outcome.WRONG_STATUS, status=Status.SUCCESS))
        assert item(lines, "platform").endswith("MLU290 (fails), MLU370; refused, as the document asks: MLU200")
        assert "device levels" not in item(lines_of(result("a")), "platform")

    def test_the_job_type_is_a_label_of_the_run(self):
        assert "--label job_type=U1" in item(lines_of(result()), "job type")
        labelled = replace(report(result()), labels={"job_type": "block, U1"})
        assert item("".join(render(labelled, "markdown")).splitlines(), "job type") == "block, U1"

    def test_what_is_printed_at_a_refusal_is_its_message(self):
        refused = {"status": Status.BAD_PARAM, "expected_status": Status.BAD_PARAM}
        printed = ["[op] x must have rank 3\nat line 7\n", "[op] x | y\n", "[op] x must have rank 3\n", ""]
        results = [result(f"r{n}", output=words, **refused) for n, words in enumerate(printed)]
        wrong = result("w", Outcome.WRONG_STATUS, output="no refusal", **(refused | {"status": Status.SUCCESS}))
        (line,) = [line for line in lines_of(*results, wrong) if line.startswith("| `op` | BAD_PARAM |")]
        assert "| 5 | 4 | `[op] x must have rank 3`; `[op] x \\| y` | `op/w`: SUCCESS |" in line

    def test_nothing_compared_proves_nothing(self):
        skipped = result(outcome=Outcome.SKIPPED, readings=(), compared=False, reason="declined")
        document = "\n".join(lines_of(skipped))
        assert "Nothing was compared on numpy" in document
        assert "- Skipped (1): declined" in document

    def test_a_tensor_that_is_never_computed_is_no_limit(self):
        """A call that returns early may describe a tensor that nobody has room for; its scalars are still read."""
        huge = (TensorInfo("x", "float", "ARRAY", (2**31 - 1,)), TensorInfo("empty", "float", "ARRAY", (0,)))
        early = result("early", info=CaseInfo(huge, ()), readings=(Reading("count", "exact", 0.0, 0.0, True),))
        assert item(lines_of(early, result()), "size limits") == "largest tensor computed: `x[4,65]`"
        assert item(lines_of(early), "size limits") == "not tested"

    def test_layouts_and_dimensions_are_those_of_values_not_of_masks(self):
        image, mask = TensorInfo("x", "float", "NCHW", (1, 2, 3, 4)), TensorInfo("mask", "int32", "ARRAY", (7,))
        lines = lines_of(result(info=CaseInfo((image, mask), (TensorInfo("y", "float", "NHWC", (1, 2, 3, 4)),))))
        assert item(lines, "layouts") == "NCHW, NHWC"
        assert item(lines, "multi-dimensional tensors") == "4 dimensions"

    def test_an_operator_of_integers_has_their_layouts(self):
        sites = TensorInfo("sites", "int32", "NTC", (7, 4, 1))
        assert item(lines_of(result(info=CaseInfo((sites,), (sites,)))), "layouts") == "NTC"

    def test_limits_are_the_largest_tensor_and_what_is_refused(self):
        info = CaseInfo((TensorInfo("x", "float", "ARRAY", (2, 1 << 30)),), check="x_large")
        refusal = {"status": Status.NOT_SUPPORTED, "expected_status": Status.NOT_SUPPORTED}
        large = result("large", info=info, **refusal)
        # As large, and refused for its strides.
        strided = result("strided", info=replace(info, check="x_strided"), **refusal)
        computed = "largest tensor computed: `x[4,65]`"
        limits = item(lines_of(result(), large, strided), "size limits")
        assert limits == f"{computed}; larger tensors than allowed are refused (1 tested)"
        taken = replace(large, case="op/taken", outcome=Outcome.WRONG_STATUS, status=Status.SUCCESS)
        limits = item(lines_of(result(), large, taken), "size limits")
        assert limits == f"{computed}; larger tensors than allowed are not all refused (1 taken)"


class TestPerformance:
    TIMED = Perf((200_000, 100_000, 300_000), (100_000, 90_000, 110_000), 4096)

    def timed(self, *tags, io=4e6, ops=4e7, **changes):
        info = replace(result().info, theory_io_bytes=io, theory_ops=ops)
        return result(tags=tags, info=info, perf=self.TIMED, **changes)

    @pytest.mark.parametrize(("tags", "accepted"), [(("network",), "no"), (("boundary",), "yes")])
    def test_networks_must_reach_more(self, tags, accepted):
        lines = lines_of(self.timed(*tags), environment=DEVICE)
        assert row(lines, "`op` | 100.0")[8:10] == ["IO", accepted]
        problem = "1. `op`, `op/a`: IO efficiency 40.0 %, 60 % is required"
        assert (problem in lines) is (accepted == "no")

    @pytest.mark.parametrize(("io", "ops", "side"), [(4e6, 4e7, "IO"), (4e6, 1e8, "compute"), (4e6, 0.0, "IO")])
    def test_the_bottleneck_is_the_side_of_the_larger_share(self, io, ops, side):
        assert row(lines_of(self.timed(io=io, ops=ops), environment=DEVICE), "`op` | 100.0")[8] == side

    def test_an_operator_that_only_moves_data_has_no_compute_efficiency(self):
        assert row(lines_of(self.timed(ops=0.0), environment=DEVICE), "`op` | 100.0")[3:5] == ["40.0 %", "–"]

    def test_without_a_device_there_is_no_efficiency_and_no_verdict(self):
        lines = lines_of(self.timed("network"))
        assert row(lines, "`op` | 100.0")[3:5] == ["–", "–"]
        assert ENGLISH["no_device"] in lines
        assert "Functions have no open problem. Performance was not judged: the device is not described." in lines
        assert ENGLISH["no_problems"] not in lines

    def test_with_a_device_nothing_open_is_said(self):
        assert ENGLISH["no_problems"] in lines_of(self.timed("boundary"), environment=DEVICE)

    def test_nothing_measured_says_how_to_measure(self):
        lines = lines_of(result())
        assert ENGLISH["no_performance"] in lines
        assert "Functions have no open problem. Performance was not measured." in lines


def test_transitions_name_the_cases_that_are_no_good_news():
    moved = {"op/a": "regressed", "op/gone": "missing", "op/c": "still passing"}
    lines = lines_of(result("a"), result("c"), transitions=moved)
    assert row(lines, "regressed") == ["regressed", "1", "`op/a`"]
    assert row(lines, "missing") == ["missing", "1", "`op/gone`"]
    assert row(lines, "still passing") == ["still passing", "1", ""]


def trend(values, outcomes):
    points = [
        Point(
            Run(n, f"2026-01-0{n + 1}", "numpy", "m", "1", 1.0, {}),
            outcome,
            0.1,
            (Measured("y", "diff1", "float", v, 1),),
        )
        for n, (v, outcome) in enumerate(zip(values, outcomes, strict=True))
    ]
    return CaseTrend("op/a", "op", tuple(points))


def test_history_names_what_flakes_flips_or_drifts():
    good = [Outcome.PASSED] * 4
    grown = lines_of(result("a"), past=[trend([1e-6, 1e-6, 1e-6, 1e-5], good)])
    assert row(grown, "`op/a`") == ["`op/a`", "4", "0 %", "0", "y diff1 ×10"]
    flaky = lines_of(result("a"), past=[trend([1e-6] * 4, [*good[:3], Outcome.FLAKY])])
    assert row(flaky, "`op/a`")[2:4] == ["25 %", "1"]
    assert "No case flakes, flips or drifts (runs: 4)." in lines_of(result("a"), past=[trend([1e-6] * 4, good)])


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("a < b > c | d", r"a \< b \> c \| d"),
        ("indice_pairs _x_ *y* `z`", r"indice_pairs \_x\_ \*y\* \`z\`"),
        ("one\ntwo\x00", r"one two\\x00"),
        ("&#8238;", r"\&#8238;"),
        ("<script>", r"\<script\>"),
    ],
)
def test_text_stays_text(words, written):
    assert text(words) == written


@pytest.mark.parametrize(
    ("words", "written"), [("a|b", r"`a\|b`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("<b>", "`<b>`")]
)
def test_code_holds_anything(words, written):
    assert code(words) == written
