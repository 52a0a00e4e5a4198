"""Broken files through the command line: exit 3 (2 where the file is not there), one sentence, never a traceback."""

import json
import os

import pytest

from mluops_gtest.results.history import History
from tests.support.reports import report, result, written

DEEP = "[" * 100_000
BROKEN = {
    "empty": "",
    "cut off": '{"format": 1, "results": [',
    "a list": "[1, 2]",
    "deep": DEEP,
    "surrogate": '{"format": 1, "tool_version": "\\ud800 is half a pair", "results": []}',
    "many digits": '{"format": 1, "seconds": ' + "9" * 5000 + ', "results": []}',
    "no text": b'{"format": 1, "tool_version": "\xff", "results": []}',
}


@pytest.fixture(params=BROKEN, ids=lambda word: word.replace(" ", "_"))
def broken(request, tmp_path):
    content = BROKEN[request.param]
    path = tmp_path / "report.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def good(tmp_path):
    return written(tmp_path / "good", report(result("a"), result("b")))


def refused(told, path, code=3):
    assert (told.code, told.out) == (code, "")
    (line,) = told.err.splitlines()
    assert line.startswith("error: ")
    assert str(path) in line
    assert len(line) < 600


def test_reports(cli, broken, good):
    for arguments in (
        ("report", broken),
        ("report", good, "--against", broken),
        ("gate", broken, "--against", good),
        ("gate", good, "--against", broken),
        ("gate", good, "--against", good, "--aa", broken),
        ("gate", good, "--against", broken, "--update"),
        ("merge", good, broken, "--out", "merged"),
        ("compare", good, broken),
        ("compare", broken, good),
        ("history", "add", broken),
    ):
        told = cli(*arguments)
        if "--update" in arguments and told.code == 2:
            # Valid JSON that is no baseline is not overwritten.
            assert "not a baseline" in told.err
        else:
            refused(told, broken)


def test_what_is_no_plain_file(cli, tmp_path, good):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        refused(cli("report", path), path)
        refused(cli("gate", good, "--against", path), path)
    refused(cli("gate", good, "--against", good, "--waivers", tmp_path / "pipe"), tmp_path / "pipe")
    refused(cli("report", tmp_path), tmp_path, 2)


READING = {"output": "y", "criterion": "diff1", "value": 0.0, "threshold": 0.003, "within": True}
OUTSIDE = {"output": "y", "index": [4, 0], "evaluated": "1", "baseline": "2", "unequal": 1, "compared": 260}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcome": "pased"}, "case 'op/a': $.results[0].outcome: expected one of passed, failed"),
        ({"seconds": -1}, "case 'op/a': $.results[0].seconds: -1.0 is not a number of seconds"),
        ({"seconds": "1"}, "$.results[0].seconds: expected a number, got '1'"),
        ({"status": "FINE"}, "$.results[0].status: expected one of SUCCESS, NOT_INITIALIZED"),
        ({"status": 0}, "$.results[0].status: expected one of SUCCESS, NOT_INITIALIZED"),
        ({"case": "op/b"}, "$.results[1]: 'op/b' occurs twice"),
        ({"case": None}, "$.results[0].case: expected a text, got None"),
        ({"readings": [], "status": None}, "case 'op/a': $.results[0]: op/a cannot have passed: "),
        ({"outcome": "failed"}, "$.summary: it says {'passed': 2}"),
        ({"readings": [["y"]]}, "$.results[0].readings[0]: expected an object, got ['y']"),
        ({"perf": {"samples_ns": [10**30]}}, "perf.samples_ns[0]: expected an integer <= 9223372036854775807"),
        ({"perf": {"samples_ns": [-1]}}, "perf.samples_ns[0]: expected an integer >= 0, got -1"),
        ({"worst": {"output": "y", "index": [9, 9]}}, "the key 'evaluated' is missing"),
        ({"worst": OUTSIDE}, "worst.index: [4, 0] is outside of y[4, 65]"),
        ({"readings": [READING | {"value": 1.0}]}, "readings[0].within: 1.0 is not within 0.003"),
        ({"readings": [READING | {"value": "nan"}]}, "readings[0].within: nan is not within 0.003"),
        (
            {"readings": [READING | {"value": 1.0, "within": False}]},
            "case 'op/a': $.results[0]: op/a cannot have passed: ",
        ),
        ({"readings": [READING | {"threshold": "nan"}]}, "readings[0].threshold: a threshold cannot be NaN"),
    ],
)
def test_the_place_and_the_expectation_are_told(cli, good, change, words):
    record = json.loads((good / "report.json").read_text())
    record["results"][0].update(change)
    (good / "report.json").write_text(json.dumps(record))
    for arguments in (("report", good), ("gate", good, "--against", good)):
        told = cli(*arguments)
        refused(told, good)
        assert words in told.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", "", "the file ends too early"),
        ("run.json", "[]", "expected an object"),
        ("run.json", DEEP, "nested too deeply"),
        ("run.json", {"jobs": "many"}, "$.jobs: expected an integer, got 'many'"),
        ("run.json", {"jobs": 0}, "$.jobs: 0 is too small; it must be at least 1"),
        ("run.json", {"timeout": -1}, "$.timeout: -1.0 is too small"),
        ("run.json", {"backend": None}, "$.backend: expected a text, got None"),
        ("run.json", {"roots": ["builtin", "a\0b"]}, "$.roots: 'a\\x00b' is not a valid name"),
        ("run.json", {"cases": [1]}, "$.cases[0]: expected a text, got 1"),
        ("run.json", {"selection": {"tags": 3}}, "$.selection.tags: expected a list, got 3"),
        ("results.jsonl", "{}\n", "results.jsonl:1: the key 'case' is missing"),
        ("results.jsonl", "\n[\n", "results.jsonl:2: not valid JSON"),
        ("results.jsonl", DEEP + "\n", "results.jsonl:1: nested too deeply"),
        ("report.json", '{"format": 1}', "not a report"),
    ],
)
def test_a_run_that_is_resumed(cli, run, toy, name, content, words):
    folder = run("scale_by/ramp_2", "--root", toy).folder
    (folder / "report.json").unlink()
    if isinstance(content, dict):
        content = json.dumps(json.loads((folder / name).read_text()) | content)
    (folder / name).write_text(content)
    told = cli("run", "--resume", folder)
    refused(told, folder)
    assert words in told.err


def test_a_torn_last_line_is_run_again(cli, run, toy):
    folder = run("scale_by/ramp_*", "--root", toy).folder
    (folder / "report.json").unlink()
    lines = (folder / "results.jsonl").read_bytes()
    (folder / "results.jsonl").write_bytes(lines[:-30])
    assert cli("run", "--resume", folder).code == 0
    assert len((folder / "results.jsonl").read_bytes().splitlines()) == 3


@pytest.mark.parametrize("damage", ["text", "header", "schema", "rows", "cut"])
def test_a_history(cli, tmp_path, good, damage):
    path = tmp_path / "history.sqlite"
    with History(path, create=True) as history:
        history.add(report(result("a")))
    data = path.read_bytes()
    broken = {
        "text": b"not a database" * 100,
        "header": data[:16] + b"\xff" * 80 + data[96:],
        "schema": data.replace(b"CREATE TABLE runs", b"CREATE TABL\xff runs"),
        "rows": data.replace(b"passed", b"pa\xffsed"),
        "cut": data[:4096],
    }
    path.write_bytes(broken[damage])
    for arguments in (
        ("history", "show", "--db", path),
        ("history", "show", "op/a", "--db", path),
        ("history", "trend", "--op", "op", "--db", path),
        ("report", good, "--history", path),
    ):
        refused(cli(*arguments), path)


@pytest.mark.parametrize("text", [DEEP, "- &a [*a]", "name: !!int x", "name: 0x" + "f" * 9000, "\0", "a: 1\na: 2"])
def test_yaml(cli, toy, tmp_path, good, text):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    refused(cli("gate", good, "--against", good, "--waivers", path), path)
    refused(cli("run", "--root", toy, "--perf", "--device-spec", path), path)
    declared = toy / "cases" / "scale_by.yaml"
    declared.write_text(text)
    refused(cli("list", "--root", toy), declared)
