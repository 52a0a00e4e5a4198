"""Verdicts of workers judged again: which are drawn, and what is found on their outputs."""

import itertools

import pytest
from msgspec.structs import replace

import mluops_gtest as mt
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.cluster import answers as auditing
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BadAnswerError,
    CallOutputs,
    OutputAudit,
    Unit,
    UnitAnswered,
    digest_of,
    encode,
    outputs_bytes,
)
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import NotReproducible
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, Reading
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation

NAME = "voxel_pooling_forward"
PASSED = CaseResult("op/a", "op", (), Outcome.PASSED, Status.SUCCESS, Status.SUCCESS, compared=True)


@pytest.fixture(scope="module")
def session():
    return Session()


@pytest.fixture(scope="module")
def cases(session):
    """A case that computes, and one that is refused."""
    drafts = session.catalogue.drafts_of(NAME).values()
    computing = next(one for one in drafts if "smoke" in one.tags and one.expect.status is Status.SUCCESS)
    refused = next(one for one in drafts if one.expect.null_handle)
    selected = tuple(Selected(one.id, one.operator, one.tags, draft=one) for one in (computing, refused))
    return session.source(selected), computing.id, refused.id


def audit_of(session, source=None, *, draw=lambda: 1.0, everything=False):
    operators = session.catalogue.operators
    load = lambda one: source.load(one.unit.id)  # noqa: E731
    return OutputAudit(load, operators, Options(), BackendTrial("mine"), everything=everything, draw=draw)


def answered(result, digest=""):
    return UnitAnswered(Unit(result.case, result.operator, result.tags), result, None, digest)


def answer(session, source, case_id, factor=1):
    """What an honest worker answers: the result, the digest, the outputs."""
    operator, right, kept = session.catalogue.operators[NAME], mt.NumpyBackend(), []

    def run(call):
        status = right.run(call)
        if status is Status.SUCCESS:
            call.array("output_features")[...] *= factor
        return status

    case = source.load(case_id)
    keep = lambda outputs: kept.append(outputs_bytes(outputs, 1))  # noqa: E731
    result = CaseRun(InlineCaller(Implementation("mine", run)), Options(), keep).run_case(case, operator)
    data = kept[0] if kept else b""
    return result, digest_of(data) if data else "", data


@pytest.mark.parametrize(("factor", "outcome"), [(1, Outcome.PASSED), (2, Outcome.FAILED)])
def test_an_honest_verdict_agrees(session, cases, factor, outcome):
    source, computing, _ = cases
    result, digest, data = answer(session, source, computing, factor)
    assert (result.outcome, bool(digest)) == (outcome, True)
    assert audit_of(session, source).agrees(answered(result, digest), data, 1)


def test_a_refused_call_is_judged_by_its_status(session, cases):
    source, _, refused = cases
    result, digest, data = answer(session, source, refused)
    assert (result.outcome, digest) == (Outcome.PASSED, "")
    assert audit_of(session, source).agrees(answered(result, digest), data, 1)
    lie = replace(result, status=Status.SUCCESS, expected_status=Status.SUCCESS)
    with pytest.raises(BadAnswerError, match="wrong_status here"):
        audit_of(session, source).agrees(answered(lie, digest), data, 1)


def test_a_scalar_result_of_a_call_that_computes_nothing_needs_no_outputs(session):
    """An honest worker has none to hand over, and must not be accused."""
    draft = session.catalogue.draft("get_indice_pairs/indice_pairs_large_limit")
    audit = audit_of(session, session.source((Selected(draft.id, draft.operator, draft.tags, draft=draft),)))
    right = CaseResult(
        draft.id, draft.operator, draft.tags, Outcome.PASSED, Status.SUCCESS, Status.SUCCESS, compared=True
    )
    assert audit.agrees(answered(right), b"", 1)
    assert not audit.agrees(answered(replace(right, outcome=Outcome.FAILED)), b"", 1)
    refused = replace(right, status=Status.BAD_PARAM, expected_status=Status.BAD_PARAM)
    with pytest.raises(BadAnswerError, match="wrong_status here"):
        audit.agrees(answered(refused), b"", 1)


def test_a_wrong_verdict_is_found(session, cases):
    source, computing, _ = cases
    right, _, _ = answer(session, source, computing)
    wrong, digest, data = answer(session, source, computing, factor=2)
    for lie, outputs in ((right, data), (wrong, answer(session, source, computing)[2])):
        with pytest.raises(BadAnswerError, match=f"it calls {computing} {lie.outcome.value}"):
            audit_of(session, source).agrees(answered(lie, digest_of(outputs)), outputs, 1)
    for other in (data + b"\0", b""):
        with pytest.raises(BadAnswerError, match="not those that it named before"):
            audit_of(session, source).agrees(answered(right, digest), other, 1)


def test_outputs_of_another_shape_or_kind_are_no_proof(session, cases):
    source, computing, _ = cases
    result, _, _ = answer(session, source, computing)
    short = encode(CallOutputs({"output_features": b"\0" * 4}, {}))
    unknown = encode(CallOutputs({"none": b"\0" * 4}, {}))
    huge = encode(CallOutputs({}, {"n": "9" * 5000}))
    for data in (short, unknown, huge, b"noise"):
        with pytest.raises(BadAnswerError):
            audit_of(session, source).agrees(answered(result, digest_of(data)), data, 1)


def test_a_computing_call_without_outputs_is_a_lie_unless_they_are_too_large(session, cases, monkeypatch):
    source, computing, _ = cases
    result, _, _ = answer(session, source, computing)
    with pytest.raises(BadAnswerError, match="its outputs are failed here"):
        audit_of(session, source).agrees(answered(result, ""), b"", 1)
    monkeypatch.setattr(auditing, "MAX_BATCH", 8)
    assert not audit_of(session, source).agrees(answered(result, ""), b"", 1)
    assert answer(session, source, computing)[1:] == ("", b"")


def test_the_first_of_every_worker_and_operator_is_drawn_and_2_percent_of_the_others(session):
    draws = itertools.cycle(number / 100 for number in range(100))
    audit = audit_of(session, draw=lambda: next(draws))
    for address in ("a", "b"):
        assert audit.draws(address, answered(PASSED, "x"))
        assert audit.draws(address, answered(replace(PASSED, operator="other"), "x"))
        assert audit.draws(address, answered(PASSED, ""))
    assert sum(audit.draws("a", answered(PASSED, "x")) for _ in range(1000)) == 20


def test_a_verdict_on_values_without_values_is_always_drawn(session):
    audit = audit_of(session)
    odd = replace(PASSED, readings=(Reading("y", "diff1", 0.0, 0.0, True),))
    assert [audit.draws("a", answered(one, "")) for one in (odd, odd, PASSED)] == [True, True, False]
    everything = audit_of(session, everything=True)
    assert all(everything.draws("a", answered(PASSED, "x")) for _ in range(10))


@pytest.mark.parametrize(
    "result",
    [
        replace(PASSED, outcome=Outcome.CRASHED),
        replace(PASSED, outcome=Outcome.FLAKY),
        replace(PASSED, outcome=Outcome.FAILED, causes=(NotReproducible(2, ("y",)),)),
    ],
)
def test_what_no_outputs_can_show_is_not_drawn(session, result):
    assert not audit_of(session, everything=True).draws("a", answered(result, "x"))


def test_nothing_is_asked_for_beyond_a_gigabyte(session, cases, monkeypatch):
    source, computing, _ = cases
    result, digest, data = answer(session, source, computing)
    monkeypatch.setattr(auditing, "_MAX_BYTES", len(data))
    audit = audit_of(session, source, draw=lambda: 0.0)
    assert audit.draws("a", answered(PASSED, "x"))
    assert audit.agrees(answered(result, digest), data, 1)
    assert not audit.draws("b", answered(PASSED, "x"))
