"""What a worker answers is read by its types, held to what was ordered, and judged again where it is drawn."""

import itertools
import os

import pytest
from msgspec.structs import replace

import mluops_gtest as mt
from mluops_gtest.casefiles.binary import write_binary
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import case_document
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.cluster import answers
from mluops_gtest.cluster import answers as auditing
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BadAnswerError,
    BatchAnswer,
    CallOutputs,
    Checked,
    OutputAudit,
    Unit,
    UnitAnswer,
    UnitAnswered,
    WorkerDescription,
    decode,
    digest_of,
    encode,
    line_of,
    outputs_bytes,
    read_results,
)
from mluops_gtest.cluster.session import FuzzCall
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import NotReproducible
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, Reading
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fuzz import FuzzedOperator, Job

UNIT = Unit("op/a", "op", ("smoke",))
RIGHT = CaseResult(
    "op/a", "op", ("smoke",), Outcome.PASSED, Status.SUCCESS, Status.SUCCESS, compared=True, host="node", device=1
)
NAME = "masked_col2im_forward"
WORKER = Checked("node", (0, 1))


def read(*lines, error="", batch=(UNIT,)):
    units = tuple(UnitAnswer(line) for line in lines)
    return read_results(encode(BatchAnswer(units, error, "op/a")), batch, WORKER)


def test_what_was_sent_comes_back():
    assert read(line_of(RIGHT)) == [UnitAnswered(UNIT, RIGHT, None, "")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"case": "op/b"}, "has the case 'op/b'"),
        ({"operator": "other"}, "has the operator 'other'"),
        ({"tags": ()}, "has the tags ()"),
        ({"host": "mars"}, "has the host 'mars'"),
        ({"device": 2}, "has the device 2"),
        ({"device": None}, "has the device None"),
        ({"outcome": Outcome.XFAILED}, "is xfailed, which no worker can say"),
    ],
)
def test_a_result_is_held_to_what_was_ordered(wrong, words):
    with pytest.raises(BadAnswerError) as error:
        read(line_of(replace(RIGHT, **wrong)))
    assert words in str(error.value)


def test_the_operator_of_a_file_is_what_the_file_says():
    unit = Unit("mine.prototxt", "", ())
    result = replace(RIGHT, case="mine.prototxt", tags=())
    assert read(line_of(result), batch=(unit,)) == [UnitAnswered(unit, result, None, "")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seconds":0.0', b'"seconds":NaN'),
        (b'"seconds":0.0', b'"seconds":-1'),
        (b'"seconds":0.0', b'"seconds":"1"'),
        (b'"compared":true', b'"compared":false'),
        (b'"status":"SUCCESS"', b'"status":null'),
        (b'"notes":[]', b'"notes":' + b"[" * 5000 + b"]" * 5000),
        (b'"case":"op/a"', b'"case":"op/\xff"'),
    ],
)
def test_a_line_that_no_results_file_may_hold_is_refused(old, new):
    line = line_of(RIGHT)
    assert old in line
    with pytest.raises(BadAnswerError):
        read(line.replace(old, new))


def test_an_error_names_its_unit_in_words_that_are_cut_and_kept_on_one_line():
    with pytest.raises(BadAnswerError, match="RecursionError: deep") as error:
        read(error="RecursionError: deep\x1b[2J\n" + "x" * 100_000)
    assert error.value.unit == "op/a"
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1100


def test_a_result_has_a_largest_size(monkeypatch):
    line = line_of(replace(RIGHT, output="x" * 1000))
    monkeypatch.setattr(answers, "MAX_LINE", len(line))
    read(line)
    with pytest.raises(BadAnswerError, match=f"its answer to op/a has {len(line) + 1} bytes"):
        read(line + b" ")


@pytest.mark.parametrize("kind", [WorkerDescription("x" * 300, "node", {}, ()), BackendTrial("x" * 300)])
def test_names_have_a_largest_length(kind):
    with pytest.raises(BadAnswerError, match="length <= 200"):
        decode(encode(kind), type(kind))


@pytest.mark.parametrize("lines", [(), (line_of(RIGHT), line_of(RIGHT))])
def test_every_unit_has_one_answer(lines):
    with pytest.raises(BadAnswerError, match=f"it answered {len(lines)} cases instead of 1"):
        read(*lines)


@pytest.mark.parametrize("data", [None, [], "text", b"", b"\xc1", encode(RIGHT)[:9]])
def test_bytes_of_another_kind_are_refused(data):
    with pytest.raises(BadAnswerError):
        read_results(data, (UNIT,), WORKER)


@pytest.fixture(scope="module")
def random_call():
    operators = Session().catalogue.operators
    operator = operators[NAME]
    target = FuzzedOperator(operator, Draws(operator, operators.part(NAME, SPACE), 0), "numpy", {})
    case = next(case for case in (target.draws.draw(number).case for number in range(20)) if case.elements)
    document = case_document(case, operator, Schema.of([operator]))
    call = FuzzCall(case.id, case.operator, case.tags, Job(target, 0, case), case, operators, found=object())
    return FuzzCall.read_smallest, call, b"".join(map(bytes, write_binary(document)))


def test_a_smallest_case_comes_back_as_it_was(random_call):
    read_case, call, data = random_call
    case = read_case(call, data)
    assert (case.id, case.operator, case.params) == (call.case.id, NAME, call.case.params)
    assert [tensor.desc for tensor in case.inputs] == [tensor.desc for tensor in call.case.inputs]


def test_a_smallest_case_is_held_to_what_was_ordered(random_call):
    read_case, call, data = random_call
    for wrong in (b"", data[:-3], b"noise"):
        with pytest.raises(BadAnswerError):
            read_case(call, wrong)
    with pytest.raises(BadAnswerError, match="has a smaller case"):
        read_case(replace(call, found=None), data)


def test_a_smallest_case_reads_no_file(random_call, tmp_path, monkeypatch):
    """Values beside it would be files of this machine."""
    read_case, call, _ = random_call
    monkeypatch.chdir(tmp_path)
    operator = call.job.target.operator
    document = case_document(call.case, operator, Schema.of([operator]))
    tensor = next(one for one in document.inputs if one.values)
    tensor.values.clear()
    tensor.message.path = "secret.bin"
    (tmp_path / "secret.bin").write_bytes(os.urandom(1 << 16))
    with pytest.raises(BadAnswerError):
        read_case(call, b"".join(map(bytes, write_binary(document))))


PASSED = CaseResult("op/a", "op", (), Outcome.PASSED, Status.SUCCESS, Status.SUCCESS, compared=True)


@pytest.fixture(scope="module")
def session():
    return Session()


@pytest.fixture(scope="module")
def cases(session):
    """A case that computes, and one that is refused."""
    drafts = session.catalogue.drafts_of("voxel_pooling_forward").values()
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
    operator, right, kept = session.catalogue.operators["voxel_pooling_forward"], mt.NumpyBackend(), []

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
