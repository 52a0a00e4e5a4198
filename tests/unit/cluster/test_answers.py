"""What a worker answers is read by its types and held to what was ordered."""

import os

import pytest
from msgspec.structs import replace

from mluops_gtest.casefiles.binary import write_binary
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import case_document
from mluops_gtest.catalog.selection import Session
from mluops_gtest.cluster import answers
from mluops_gtest.cluster.answers import (
    BackendTrial,
    BadAnswerError,
    BatchAnswer,
    Checked,
    Unit,
    UnitAnswer,
    UnitAnswered,
    WorkerDescription,
    decode,
    encode,
    line_of,
    read_results,
)
from mluops_gtest.cluster.session import FuzzCall
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
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
