"""What people and CI systems read: few findings, grouped, with nothing that a name could break."""

import json

import numpy as np
import pytest

from mluops_gtest.core.result import CaseInfo, TensorInfo
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.results.gate_findings import decision_to_json, findings, github, gitlab, markdown, verdict
from tests.unit.results.build import gate, outcomes, report, result, waiver


def failing(*fingerprints, word="failed"):
    return report(*(result(f"op/{i}", word, fingerprint=mark) for i, mark in enumerate(fingerprints)))


def passing(count):
    return report(*(result(f"op/{i}") for i in range(count)))


def errors(text, kind="error"):
    return [line for line in text.splitlines() if line.startswith(f"::{kind} ")]


def test_failures_with_one_fingerprint_are_one_finding():
    found = findings(gate(passing(4), failing("v1:a", "v1:b", "v1:b", "v1:b", "v1:a")))
    assert [(f.title, len(f.cases)) for f in found] == [
        ("3 regressed (failed)", 3),
        ("1 new and failing, 1 regressed (failed)", 2),
    ]
    assert "repro: mluops-test run op/1" in found[0].text
    assert "fingerprint: v1:b" in found[0].text


def cleared_tail(name, length, fingerprint):
    """A failure whose last two elements are 0: another fingerprint at every length, and one cause."""
    baseline = np.arange(1.0, length + 1)
    evaluated = np.where(np.arange(length) < length - 2, baseline, 0)
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "equality", epsilon=2.0**-52)
    one = explained(out, "y", lambda index: (str(evaluated[index]), str(baseline[index])))
    return result(f"op/{name}", "failed", fingerprint=fingerprint, explained=(one,))


def test_failures_with_one_cause_are_one_finding_whatever_their_fingerprints():
    now = report(*(cleared_tail(i, length, f"v1:{i}") for i, length in enumerate((4, 6, 9, 40))))
    (found,) = findings(gate(passing(4), now))
    assert len(found.cases) == 4
    assert found.text.splitlines()[0] == "op: y[-2:] is zero"
    assert "fingerprints: v1:0, v1:1, v1:2 and 1 more" in found.text
    assert len(errors(github(gate(passing(4), now)))) == 1
    assert {case["headline"] for case in decision_to_json(gate(passing(4), now))["cases"]} == {"op: y[-2:] is zero"}


def test_a_waiver_with_a_fingerprint_still_covers_its_case():
    now = report(*(cleared_tail(i, length, f"v1:{i}") for i, length in enumerate((4, 6, 9, 40))))
    decision = gate(passing(4), now, waiver("op/2", fingerprint="v1:2"))
    (found,) = findings(decision)
    assert set(found.cases) == {"op/0", "op/1", "op/3"}


def test_the_smallest_case_stands_for_its_group():
    def sized(name, length):
        info = CaseInfo(outputs=(TensorInfo("y", "float", "ARRAY", (length,)),))
        return result(f"op/{name}", "failed", fingerprint="v1:a", reason=f"{name} is wrong", info=info)

    (found,) = findings(gate(passing(1), report(result("op/0"), sized("a_large", 1000), sized("small", 2))))
    assert found.cases == ("op/small", "op/a_large")
    assert "small is wrong\nrepro: mluops-test run op/small" in found.text


def test_what_has_no_fingerprint_is_grouped_by_what_became_of_it():
    found = findings(gate(outcomes(a="passed", b="passed", c="passed"), outcomes(c="skipped")))
    assert [f.title for f in found] == ["2 missing", "1 became skipped (skipped)"]
    assert found[0].cases == ("op/a", "op/b")


@pytest.mark.parametrize("count", [1, 10, 11, 500])
def test_at_most_ten_errors_and_none_is_dropped_in_silence(count):
    decision = gate(passing(count), failing(*(f"v1:{i}" for i in range(count))))
    lines = errors(github(decision))
    assert len(lines) == min(count, 10)
    if count > 10:
        assert f"{count - 9} more findings" in lines[-1]
    assert len(json.loads(gitlab(decision, "baseline.json"))) == min(count, 10)


def test_at_most_ten_warnings_beside_the_errors():
    before = report(*(result(f"op{i}/a", value=1e-6) for i in range(30)), result("op/0"))
    now = report(*(result(f"op{i}/a", value=1e-3) for i in range(30)), result("op/0", "failed"))
    text = github(gate(before, now))
    assert len(errors(text)) == 1
    assert len(errors(text, "warning")) == 10
    assert len(errors(github(gate(before, now, strict_accuracy=True)))) == 10


def test_workflow_commands_cannot_be_broken_by_what_a_backend_says():
    wicked = result("op/a", "failed", reason="100 %\n::error::gotcha\r\nend", repro="")
    lines = github(gate(outcomes(a="passed"), report(wicked))).splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("op/a%0A100 %25 ::error::gotcha end%0Afingerprint: v1:0")
    named = github(gate(outcomes(a="passed"), outcomes(a="failed"), waiver("x:y,z%"))).splitlines()
    assert "title=mluops-test gate%3A waiver unused%3A x%3Ay%2Cz%25::" in named[1]


def test_a_rotten_waiver_is_shown_where_it_stands():
    (line,) = errors(github(gate(outcomes(a="passed"), outcomes(a="passed"), waiver("op/a"))))
    assert line.startswith(
        "::error file=waivers.yaml,line=3,title=mluops-test gate%3A waiver xpassed%3A op/a::passes now"
    )


def test_the_code_quality_report_has_what_gitlab_asks_for():
    decision = gate(outcomes(a="passed", b="passed"), outcomes(a="failed", b="passed"), waiver("op/b"))
    entries = json.loads(gitlab(decision, "ci/baseline.json"))
    assert [entry["location"] for entry in entries] == [
        {"path": "ci/baseline.json", "lines": {"begin": 1}},
        {"path": "waivers.yaml", "lines": {"begin": 3}},
    ]
    assert {entry["severity"] for entry in entries} == {"critical"}
    assert len({entry["fingerprint"] for entry in entries}) == 2
    assert all(set(entry) == {"description", "check_name", "fingerprint", "severity", "location"} for entry in entries)


def test_a_finding_keeps_its_fingerprint_from_run_to_run():
    before = passing(3)
    first, second = failing("v1:a", "", ""), failing("v1:a", "v1:a", "")
    prints = [json.loads(gitlab(gate(before, now), "b"))[0]["fingerprint"] for now in (first, second)]
    assert gate(before, first).blocking[0].fingerprint == "v1:a"
    assert prints[1] in {entry["fingerprint"] for entry in json.loads(gitlab(gate(before, first), "b"))}


def test_nothing_found_is_an_empty_report():
    decision = gate(passing(2), passing(2))
    assert github(decision) == "passed: 2 cases compared"
    assert json.loads(gitlab(decision, "b")) == []


def test_markdown_is_a_comment_in_which_everything_stays_text():
    wicked = result("op/a`b|c<script>", "failed", reason="```\n</details><script>alert(1)</script>", fingerprint="v1:q")
    before = report(result("op/a`b|c<script>"), result("op/d"))
    text = markdown(gate(before, report(wicked, result("op/d", "failed", fingerprint="v1:q"))))
    lines = text.splitlines()
    assert lines[0] == "## Gate on `numpy`: blocked: 2 regressed"
    assert "| regressed | 2 | 2 |" in lines
    fence = lines.index("````text")
    assert lines[fence + 1 :][lines[fence + 1 :].index("````") - 1] == "fingerprint: v1:q"
    assert "- ``op/a`b|c<script>``" in lines


def test_the_decision_for_programs():
    times = [1_000_000] * 9
    before = report(result("op/a", times=times), result("op/b", value=1e-6), result("op/c"), result("op/d"))
    now = report(
        result("op/a", times=[2 * t for t in times]),
        result("op/b", value=1e-3),
        result("op/c", "failed", fingerprint="v1:c"),
    )
    decision = gate(before, now, waiver("op/c"), waiver("op/x"), strict_accuracy=True)
    assert verdict(decision) == "blocked: 1 missing, 1 waiver to clear, 1 case by its time, 1 reading that drifted"
    assert verdict(gate(outcomes(), outcomes())).startswith("nothing compared")
    record = json.loads(json.dumps(decision_to_json(decision), allow_nan=False))
    assert (record["verdict"], record["blocked"], record["exit_code"]) == (verdict(decision), True, 1)
    assert record["compared"] == 3
    assert record["transitions"] == {"still passing": 2, "regressed": 1, "missing": 1}
    cases = {case["case"]: case for case in record["cases"]}
    waived = {name: cases["op/c"][name] for name in ("now", "blocks", "waiver")}
    assert waived == {"now": "xfailed", "blocks": False, "waiver": "waivers.yaml:3"}
    assert (cases["op/d"]["now"], cases["op/d"]["transition"]) == (None, "missing")
    assert record["drift"][0]["factor"] == pytest.approx(1000)
    (time,) = record["performance"]["cases"]
    assert (time["answer"], time["ratio"], time["blocks"]) == ("slower", pytest.approx(2.0), True)
