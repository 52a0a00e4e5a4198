"""The kit that checks a backend, proved by backends that break one promise each."""

import pytest

from mluops_gtest.backends.doctor import UNKNOWN_OPERATOR, Diagnosis, Verdict, check_behaviour, check_interface
from mluops_gtest.backends.numpy_backend import ReferenceBackend
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.call import Declined, Status
from mluops_gtest.core.case import BackendAdapter, Case, invalid_members
from mluops_gtest.core.cause import ContentError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from tests.support import wrong_backends

# Between them: floats with a tolerance, pure copies, scalar results.
OPERATORS = ("get_indice_pairs", "indice_convolution_backward_data", "masked_im2col_forward")
PROMISES = {
    "operators", "unknown operators", "cases", "empty tensors", "workspace", "inputs", "memory", "refusals", "statuses",
    "calls", "deterministic", "outputs", "values",
}  # fmt: skip


@pytest.fixture(scope="module")
def cases(catalogue):
    """Per operator three smoke cases, and a negative case of every status."""
    chosen = {}
    for draft in catalogue.drafts.values():
        kind = draft.expect.status if "negative" in draft.tags and draft.expect.check else "smoke"
        group = chosen.setdefault((draft.operator, kind), [])
        wanted = kind != "smoke" or "smoke" in draft.tags
        if draft.operator in OPERATORS and wanted and len(group) < (3 if kind == "smoke" else 1):
            group.append(Selected(draft.id, draft.operator, draft.tags, draft=draft))
    selected = [one for group in chosen.values() for one in group]
    source = StoredCases(catalogue, tuple(selected))
    return [(source.load(one.id), catalogue.operators[one.operator]) for one in selected]


def check(backend, cases, **message):
    executor = CaseRun(InlineCaller(backend), Options(repeat=2))
    findings = check_behaviour(cases, executor.run_case, **message)
    assert {finding.name for finding in findings} == PROMISES
    assert len(findings) == len(PROMISES)
    return {finding.name: finding for finding in findings}


def broken(findings):
    return {name for name, finding in findings.items() if finding.verdict is Verdict.PROBLEM}


def test_a_right_backend_keeps_every_promise(cases):
    findings = check(wrong_backends.Exact(), cases)
    assert {finding.verdict for finding in findings.values()} == {Verdict.OK}
    assert findings["operators"].detail == f"offers {', '.join(OPERATORS)}"
    assert findings["outputs"].detail.endswith("(9 cases)")
    refused = [case for case, _ in cases if case.expect.status != Status.SUCCESS]
    assert findings["statuses"].detail.endswith(f"({len(refused) + len(OPERATORS)} cases)")


class SpeaksOfItsWorkspace(wrong_backends.Exact):
    """Its message has a word in it that the harness uses, too: what happened counts."""

    def run(self, call):
        raise RuntimeError("the workspace was never written")


class RaisesForItsSize(wrong_backends.Exact):
    def workspace_size(self, call):
        raise RuntimeError("no idea")


class AcceptsEverything(wrong_backends.Exact):
    """Takes every call that it does not know for one it does."""

    def run(self, call):
        return Status.SUCCESS if call.operator == UNKNOWN_OPERATOR else super().run(call)


class LooksUp(wrong_backends.Exact):
    """Falls over a name that it does not know."""

    def run(self, call):
        return {name: super(LooksUp, self).run for name in OPERATORS}[call.operator](call)


class CrashesOnEmpty(wrong_backends.Exact):
    """Divides by the number of elements."""

    def run(self, call):
        for arg in (*call.inputs.values(), *call.outputs.values()):
            if arg is not None and arg.array is not None:
                _ = 1 // arg.desc.count
        return super().run(call)


ADVICE = "Raise Declined(reason), or offer supports"
# What a backend that answers no call at all breaks beside its calls.
ALL_CALLS = ("empty tensors", "statuses", "unknown operators")


@pytest.mark.parametrize(
    ("kind", "promises", "message"),
    [
        (wrong_backends.OneElementWrong, ["values"], "mluops-test run CASE"),
        (wrong_backends.AllZero, ["values"], "mluops-test run CASE"),
        (wrong_backends.LeavesOneUnwritten, ["outputs"], "Write in place"),
        (wrong_backends.LeavesOutputUntouched, ["outputs", "empty tensors", "unknown operators"], "Write in place"),
        (wrong_backends.ForgetsScalars, ["outputs", "empty tensors"], "call.scalars[name]"),
        (wrong_backends.WritesPastTheEnd, ["memory"], "past the end"),
        (wrong_backends.WritesBeforeTheStart, ["memory"], "before the start"),
        (wrong_backends.ChangesAnInput, ["inputs"], "work on a copy"),
        (wrong_backends.OverrunsWorkspace, ["workspace"], "no byte beyond call.workspace_size"),
        (wrong_backends.AsksNegativeWorkspace, ["workspace", "unknown operators"], "must return an int ≥ 0"),
        (RaisesForItsSize, ["workspace", "unknown operators"], "no idea"),
        (wrong_backends.WritesOnFailure, ["refusals", "empty tensors"], "Make all checks before the first write"),
        (wrong_backends.WrongStatus, ["statuses", "empty tensors"], "lists the checks"),
        (wrong_backends.ReturnsNonsense, ["calls", "statuses", "empty tensors"], "must return a Status"),
        (wrong_backends.Raises, ["calls", *ALL_CALLS], "ZeroDivisionError"),
        (wrong_backends.NeedsTooMuch, ["calls", *ALL_CALLS], "no NRAM left"),
        (SpeaksOfItsWorkspace, ["calls", *ALL_CALLS], "the workspace was never written"),
        (wrong_backends.NeverTheSame, ["deterministic", "values"], "`deterministic = False`"),
        (wrong_backends.Declines, ["operators"], "not on Mondays"),
        (wrong_backends.SupportsNothing, ["operators"], "does not support"),
        (AcceptsEverything, ["unknown operators"], "came to failed (num_act_out was not reported"),
        (LooksUp, ["unknown operators"], f"KeyError: 'no_such_operator'). {ADVICE}"),
        (CrashesOnEmpty, ["empty tensors"], "ZeroDivisionError"),
    ],
)
def test_a_broken_promise_is_told_with_what_to_do_and_only_that(cases, kind, promises, message):
    findings = check(kind(), cases)
    assert broken(findings) == set(promises)
    assert message in findings[promises[0]].detail


def test_a_backend_may_say_that_it_is_not_deterministic(cases):
    findings = check(wrong_backends.NeverTheSame(), cases, deterministic=False)
    assert findings["deterministic"] == Diagnosis("deterministic", Verdict.SKIPPED, "the backend says that it is not")


class NoNullHandles(wrong_backends.Exact):
    """Looks into the handle before it asks whether there is one."""

    def run(self, call):
        assert call.handle.arch
        return super().run(call)


def test_every_operator_is_called_with_a_null_handle(cases):
    computing = [(case, operator) for case, operator in cases if case.expect.check is None]
    findings = check(NoNullHandles(), computing)
    assert broken(findings) == {"statuses"}
    assert findings["statuses"].detail.count("with a null handle: error, AttributeError") == len(OPERATORS)


def test_what_no_case_shows_is_skipped(cases):
    computing = [(case, operator) for case, operator in cases if case.expect.check is None]
    findings = check(wrong_backends.Exact(), computing)
    assert findings["empty tensors"].verdict is Verdict.SKIPPED
    assert findings["values"].verdict is Verdict.OK


def test_without_cases_nothing_is_claimed():
    findings = check(wrong_backends.Exact(), [])
    assert {finding.verdict for finding in findings.values()} == {Verdict.SKIPPED}


class Masks(ReferenceBackend):
    """Offers one operator."""

    name = "masks"

    def run(self, call):
        if call.operator != "masked_im2col_forward":
            raise Declined("only masks")
        return super().run(call)


def test_a_backend_may_offer_one_operator(cases, operators):
    findings = check(Masks(operators), cases)
    assert broken(findings) == set()
    assert findings["operators"].detail == (
        "offers masked_im2col_forward; declines get_indice_pairs, indice_convolution_backward_data"
    )


def test_a_broken_case_is_not_held_against_the_backend(cases):
    def execute(case: Case, operator) -> CaseResult:
        return CaseResult(
            case.id, case.operator, (), Outcome.ERROR, causes=(ContentError("cut short"),), content_error=True
        )

    findings = {finding.name: finding for finding in check_behaviour(cases, execute)}
    assert broken(findings) == {"cases", "unknown operators"}
    assert "mluops-test verify" in findings["cases"].detail


def test_long_lists_are_cut(cases):
    findings = check(wrong_backends.Raises(), cases)
    assert findings["calls"].detail.count("ZeroDivisionError") == 3
    assert "and 6 more" in findings["calls"].detail


class WithoutRun:
    name = "named"


class WithAttribute(wrong_backends.Exact):
    supports = ("masked_im2col_forward",)


@pytest.mark.parametrize(
    ("backend", "verdict", "message"),
    [
        (wrong_backends.Exact(), Verdict.OK, "offers name, run"),
        (wrong_backends.OverrunsWorkspace(), Verdict.OK, "offers name, run, workspace_size"),
        (wrong_backends.NoName(), Verdict.PROBLEM, "has no `name`"),
        (WithoutRun(), Verdict.PROBLEM, "run(call: OpCall) -> Status"),
        (WithAttribute(), Verdict.PROBLEM, "`supports` does not fit"),
        (42, Verdict.PROBLEM, "has no `name`"),
    ],
)
def test_the_interface(backend, verdict, message):
    finding = check_interface(BackendAdapter(backend).members, tuple(invalid_members(backend)))
    assert (finding.name, finding.verdict) == ("interface", verdict)
    assert message in finding.detail
