"""Whatever happened to a file, it is read or refused; and what is read can be shown, compared and judged."""

import contextlib
import functools
import json
import re
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import ContentError, NothingSelectedError, UnwritableError, UsageError
from mluops_gtest.base.typed_files import Source, convert, json_bytes
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Perf, Profile, Reading, Worst
from mluops_gtest.results.folder import merge, read_done, read_report, read_request, request_source
from mluops_gtest.results.gate import decide
from mluops_gtest.results.gate_findings import decision_to_json
from mluops_gtest.results.gate_reference import baseline_from_json, baseline_text, is_baseline, load_json, reference_of
from mluops_gtest.results.history import History
from mluops_gtest.results.records import report_to_json
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.run_comparison import compare, comparison_to_json
from mluops_gtest.running.options import RunOptions, RunRecord
from tests.support.examples import examples
from tests.support.mutations import broken_json, result_or_message
from tests.support.reports import golden_report, report, result, written
from tests.unit.results.build import EVERYTHING, MACHINE, TODAY

SMALL = report(
    result(
        "a",
        Outcome.FAILED,
        worst=Worst("y", (3, 64), "1.0", "2.0", 3, 260, 7),
        readings=(Reading("y", "diff1", float("nan"), 3e-3, False), Reading("y", "diff2", 0.5, 1e-3, False)),
        profile=Profile("y", (0, 3), 1, 2, (0.5, float("inf"))),
        fingerprint="v1:0123",
    ),
    result("b", perf=Perf((1000, 1001, 1002, 1003, 1004, 1005), (900, 901), 64), tags=("network", "random")),
    selection={**EVERYTHING, "shard": "1/1"},
    environment={**MACHINE, "device": {"name": "d", "bandwidth": 1e9, "peak": {"float": 1e9}}},
    timing={"load": 0.5},
)
TEXT = json_bytes(report_to_json(SMALL)).decode()
REFUSALS = (ContentError, UsageError, NothingSelectedError)
REQUEST = RunOptions(Query(("op/*",)), ("builtin", "../mine"), "numpy", devices=(0,), timeout=2.5, samples=3)
many = settings(max_examples=examples(100), derandomize=True)


def use(read, folder):
    """Everything that commands do with a report."""
    for form in ("html", "markdown", "junit", "ctrf", "json"):
        "".join(render(read, form, "en", {})).encode()
    json.dumps(comparison_to_json(compare(SMALL, read)), allow_nan=False)
    with History(folder / "history.sqlite", create=True) as history:
        history.add(read)
        for trend in history.trends(history.runs(last=3)):
            json.dumps(trend.to_json(), allow_nan=False)
    for step in (
        lambda: decision_to_json(decide(read, reference_of(SMALL), (), TODAY)),
        lambda: decision_to_json(decide(SMALL, reference_of(read), (), TODAY)),
        lambda: merge({"a": read}),
    ):
        result_or_message(step, *REFUSALS)


def test_what_is_written_is_read_back(tmp_path):
    for whole in (SMALL, golden_report()):
        written(tmp_path, whole)
        read = read_report(tmp_path)
        assert repr(read) == repr(whole)
        use(read, tmp_path)
        done = read_done(tmp_path)
        assert repr(done) == repr({r.case: r for r in whole.results if r.outcome is not Outcome.NOT_RUN})


@pytest.mark.slow
@many
@given(broken_json(TEXT))
def test_a_broken_report(tmp_path, data):
    (tmp_path / "report.json").write_bytes(data)
    read, message = result_or_message(lambda: read_report(tmp_path), ContentError)
    if read is None:
        assert message.startswith(f"{tmp_path / 'report.json'}: ")
        message.encode()
    else:
        use(read, tmp_path)


@pytest.mark.slow
@many
@given(broken_json(json.dumps(report_to_json(SMALL)["results"][0])))
def test_a_broken_line_of_results(tmp_path, data):
    (tmp_path / "results.jsonl").write_bytes(data + b"\n")
    done, message = result_or_message(lambda: read_done(tmp_path), ContentError)
    if done is None:
        assert message.startswith(f"{tmp_path / 'results.jsonl'}:")
    else:
        written(tmp_path / "again", report(*done.values()))
        assert repr(read_done(tmp_path / "again")) == repr(done)


@many
@given(broken_json(json.dumps(REQUEST.to_json(["op/a"], 3))))
def test_a_broken_request(tmp_path, data):
    (tmp_path / "run.json").write_bytes(data)

    def read():
        record, source = read_request(tmp_path), request_source(tmp_path)
        return RunOptions.from_json(record, source), convert(record, RunRecord, source)

    found, message = result_or_message(read, ContentError)
    if found is None:
        assert message.startswith(f"{tmp_path / 'run.json'}: ")
    else:
        request, planned = found
        request.repro_options()
        json_bytes(request.to_json(list(planned.cases), planned.left_out))


def test_a_request_of_an_earlier_version_is_read():
    record = {"selection": {}, "root": None, "backend": "numpy", "cases": [], "left_out": 0}
    assert RunOptions.from_json(record, Source("run.json", "")) == RunOptions(Query(), ("builtin",), "numpy")


@many
@given(broken_json(baseline_text(reference_of(SMALL))))
def test_a_broken_baseline(tmp_path, data):
    path = tmp_path / "baseline.json"
    path.write_bytes(data)

    def read():
        record = load_json(path)
        return baseline_from_json(path, record) if is_baseline(record) else "a report"

    reference, message = result_or_message(read, ContentError)
    if reference is None:
        assert message.startswith(f"{path}: ")
    elif reference != "a report":
        baseline_text(reference)
        result_or_message(lambda: decision_to_json(decide(SMALL, reference, (), TODAY)), *REFUSALS)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "history.sqlite"
    with History(path, create=True) as history:
        history.add(SMALL)
        history.add(golden_report())
    return path.read_bytes()


def read_history(path):
    with History(path) as history:
        for trend in history.trends(history.runs()):
            json.dumps(trend.to_json(), allow_nan=False)
        history.names("name")
        history.names("operator")
        history.add(report(result("new")))


@pytest.mark.slow
def test_every_byte_of_the_first_page_may_be_wrong(tmp_path, database):
    for place in range(200):
        path = tmp_path / f"{place}.sqlite"
        path.write_bytes(database[:place] + bytes([database[place] ^ 0xFF]) + database[place + 1 :])
        _, message = result_or_message(functools.partial(read_history, path), ContentError, UsageError, UnwritableError)
        assert not message or str(path) in message


@pytest.mark.slow
def test_a_broken_history(tmp_path, database):
    number = iter(range(10**6))

    @many
    @given(st.lists(st.tuples(st.integers(0, len(database) - 1), st.integers(0, 255)), min_size=1, max_size=5))
    def check(changes):
        path = tmp_path / f"{next(number)}.sqlite"
        data = bytearray(database)
        for place, byte in changes:
            data[place] = byte
        path.write_bytes(data)
        _, message = result_or_message(functools.partial(read_history, path), ContentError, UsageError, UnwritableError)
        assert not message or str(path) in message

    check()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE results SET outcome = 'pased'", r"results\[0\]\[4\]: expected one of passed"),
        ("UPDATE results SET outcome = x'ff'", r"results\[0\]\[4\]: expected one of passed"),
        ("UPDATE results SET seconds = -1", "-1.0 is not a number of seconds"),
        ("UPDATE results SET seconds = 9e999", "inf is not a number of seconds"),
        ("UPDATE runs SET counts = '{'", "runs.counts: not valid JSON"),
        ('UPDATE runs SET counts = \'{"passed": "many"}\'', "runs.counts.*expected an integer"),
        ("UPDATE runs SET seconds = 'long'", "expected a number, got 'long'"),
        ("UPDATE cases SET name = CAST(x'ff' AS TEXT) WHERE id = 1", "not a history of mluops-test"),
        ("INSERT INTO labels VALUES (1, 'device', x'ff')", r"labels\[0\]\[2\]: expected a text"),
        ("DROP TABLE labels", "no such table"),
        ("DROP TABLE readings", "no such table"),
        ("ALTER TABLE runs RENAME COLUMN started TO begun", "no such column"),
    ],
)
def test_what_no_history_holds(tmp_path, database, statement, words):
    path = tmp_path / "history.sqlite"
    path.write_bytes(database)
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute(statement)
    with pytest.raises(ContentError, match=f"{re.escape(str(path))}: .*{words}") as caught:
        read_history(path)
    assert "restore a copy" in str(caught.value)
