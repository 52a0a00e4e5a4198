"""Where cases of a run on a cluster ran, in every report."""

from xml.etree import ElementTree

from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.records import result_from_json, result_to_json
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.reports.html import render_html
from mluops_gtest.results.reports.terminal import RunFacts, host_words, render_text
from tests.support.reports import report, result

TWO = (
    result("a", host="node1", device=0),
    result("b", host="node2", device=1),
    result("c", Outcome.FAILED, host="node2", reason="why"),
)


def test_the_summary_groups_by_host_where_hosts_differ():
    assert host_words(RunFacts(TWO)) == "Hosts: node1: 1 passed; node2: 1 passed, 1 failed"
    assert "Hosts: node1: 1 passed; node2: 1 passed, 1 failed" in render_text(report(*TWO))[0]
    assert host_words(RunFacts(TWO[:1])) == ""
    assert host_words(RunFacts([result("a")])) == ""


def test_pages_and_junit_tell_the_host_of_each_case():
    assert '"node2 #1"' in render_html(report(*TWO))
    values = {
        p.get("value") for p in ElementTree.fromstring("".join(render(report(*TWO), "junit")).encode()).iter("property")
    }
    assert {"node1", "node2"} <= values


def test_hosts_are_kept_in_files_and_absent_where_there_are_none():
    for one in (*TWO, result("d")):
        record = result_to_json(one)
        assert ("host" in record) == bool(one.host)
        assert ("device" in record) == (one.device is not None)
        assert result_from_json(record, Source("results.jsonl", "")) == one
