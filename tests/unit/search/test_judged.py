"""The verdict that rules ask for: as in a run, without what only people read."""

from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation, judged
from tests.unit.running.small_operator import DOUBLES, doubling


def triples(call):
    call.array("y")[...] = 3 * call.array("x")
    call.scalars["count"] = call.array("x").size
    return Status.SUCCESS


def test_a_failure_is_judged_as_in_a_run_but_not_explained():
    in_a_run = CaseRun(InlineCaller(Implementation("triples", triples)), Options()).run_case(doubling(), DOUBLES)
    of_a_rule = judged("triples", triples, doubling(), DOUBLES)
    assert in_a_run.outcome is of_a_rule.outcome is Outcome.FAILED
    assert in_a_run.causes == of_a_rule.causes
    assert in_a_run.explained
    assert not of_a_rule.explained
