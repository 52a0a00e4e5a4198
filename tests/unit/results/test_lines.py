"""Reports are read line by line; whatever a file looks like, that comes to the same as reading it as a whole."""

import json
from dataclasses import replace

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import decode_json
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt
from mluops_gtest.results import folder as files
from mluops_gtest.results.folder import read_report
from mluops_gtest.results.records import report_from_json
from tests.support.page_report import failed, report, result, small_report
from tests.support.reports import legacy_reasons, written

LINE = b'{"case":"toy/a",'


@pytest.fixture(params=[False, True], ids=["small", "large"], autouse=True)
def large(request, monkeypatch):
    """Results of a large file stay there until they are asked for."""
    if request.param:
        monkeypatch.setattr(files, "LARGE_BYTES", 0)


def read_whole(path):
    found = read_report(path)
    return replace(found, results=tuple(found.results))


def write(folder, *results):
    return written(folder, report(*results)) / "report.json"


def as_a_whole(data, source):
    return report_from_json(decode_json(data, source), source)


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except ContentError as error:
        return str(error)


@pytest.mark.parametrize(
    "known",
    [
        small_report(),
        report(),
        report(replace(result("toy/a"), attempts=(Attempt(Outcome.FAILED, legacy_reasons("x")),))),
        report(result("toy/a", Outcome.SKIPPED, status=None, expected_status=None, readings=(), compared=False)),
    ],
    ids=["all kinds", "empty", "attempts", "skipped"],
)
def test_what_was_written_is_read(tmp_path, known):
    path = written(tmp_path, known) / "report.json"
    read = read_whole(path)
    # NaN is not equal to itself.
    assert repr(read) == repr(known)
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))
    assert repr(read_whole(path)) == repr(known)


def test_a_line_per_result_is_never_read_as_a_whole(tmp_path, monkeypatch):
    path = write(tmp_path, result("toy/a"), failed("toy/b"))
    monkeypatch.setattr(files, "file_bytes", None)
    found = read_report(path)
    assert [one.case for one in found.results] == ["toy/a", "toy/b"]
    assert found.summary == {"passed": 1, "failed": 1}
    assert [one.case for one in (found.results[1], found.results[-2])] == ["toy/b", "toy/a"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"},\n{", b"}\n{"),
        (b"},\n{", b"},\n\n{"),
        (b"},\n{", b"},{"),
        (b"}\n]", b"},\n]"),
        (b"]\n}", b"]\n"),
        (b"]\n}", b'],\n "seconds": 1}'),
        (b"]\n}", b"]\n}]"),
        (LINE, b'{"case":"toy/b",'),
        (LINE, b'{"case":"toy/a"'),
        (LINE, b'{"case":7,'),
        (b'"status":"SUCCESS"', b'"status":"NONE"'),
        (b'"status":"SUCCESS"', b'"status":0'),
        (b'"outcome":"passed"', b'"outcome":"failed"'),
        (b'"compared":true', b'"compared":false'),
        (b'"seconds":0.00125', b'"seconds":-1'),
        (b'"causes":[]', b'"causes":[{"kind":"of a later version"}],"reason":"words"'),
        (b'"causes":[]', b'"notes":[]'),
        (b'"reason":""', b'"reason":"of an earlier version"'),
        (b'"dims":[64,40]', b'"dims":[64,-40]'),
    ],
)
def test_damage_is_told_as_of_a_whole_report(tmp_path, old, new):
    path = write(tmp_path, result("toy/a"), result("toy/b"))
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    source = files.report_source(path)
    assert repr(outcome(read_whole, path)) == repr(outcome(as_a_whole, path.read_bytes(), source))
