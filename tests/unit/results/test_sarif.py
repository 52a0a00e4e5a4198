"""SARIF: crashes and sanitizers' reports stand at the file and line that their traces name, and nothing else does."""

import json

import pytest

from mluops_gtest.core.cause import Killed, Raised
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.reports.files import render
from tests.support.reports import golden_report, report, result

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/mluops_gtest/running/caller.py", line 125, in reply_of
  File "/team/my kernels.py", line 9, in run
  File "/team/my kernels.py", line 11, in deep
  File "/venv/lib/python3.11/site-packages/numpy/core.py", line 3, in add
ValueError: deep"""
FATAL = """Fatal Python error: Segmentation fault

Current thread 0x00007fd369e03b80 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/team/kernels.py", line 5 in run
  File "/team/kernels.py", line 9 in outer
  File "/venv/lib/python3.11/site-packages/mluops_gtest/core/case.py", line 381 in run"""
ASAN = """==17680==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000015
WRITE of size 1 at 0x602000000015 thread T0
    #0 0x7fc9146b89cf in __interceptor_memcpy ../../../../src/libsanitizer/asan/asan.cpp:69
    #1 0x557bdce2428d in add /team/add.c:3:7
    #2 0x7fc913c45249 in main /team/main.c:58"""
GDB = """Program received signal SIGSEGV, Segmentation fault.
#0  add (n=1, p=0x0) at src/add.c:12
#1  0x00007ffff7d in main () at src/main.c:4"""
UNDEFINED = "add.c:8:5: runtime error: signed integer overflow: 1 + 2147483647"


def failing(case, outcome=Outcome.CRASHED, **fields):
    return result(case, outcome, causes=(Killed("SIGSEGV", 11),), **fields)


def findings(*results):
    document = json.loads("".join(render(report(*results), "sarif")))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == sorted({one["ruleId"] for one in run["results"]})
    return run["results"]


def place(finding):
    (location,) = finding["locations"]
    where = location["physicalLocation"]
    return where["artifactLocation"]["uri"], where["region"]["startLine"]


@pytest.mark.parametrize(
    ("text", "rule", "where"),
    [
        (TRACEBACK, "error", ("file:///team/my%20kernels.py", 11)),
        (FATAL, "crashed", ("file:///team/kernels.py", 5)),
        (ASAN, "heap-buffer-overflow", ("file:///team/add.c", 3)),
        (GDB, "crashed", ("src/add.c", 12)),
        (UNDEFINED, "undefined-behavior", ("add.c", 8)),
    ],
    ids=["traceback", "fatal", "asan", "gdb", "ubsan"],
)
def test_a_trace_names_the_innermost_line_of_the_backend(text, rule, where):
    outcome = Outcome.ERROR if rule == "error" else Outcome.CRASHED
    (finding,) = findings(failing("a/b", outcome, output=text))
    assert (finding["ruleId"], place(finding), finding["level"]) == (rule, where, "error")
    (noted,) = findings(failing("a/b", outcome, notes=(text,)))
    assert noted == finding


def test_what_names_no_line_is_left_out():
    raised = result("a/c", Outcome.ERROR, causes=(Raised("ValueError", "no"),))
    passing = result("a/d", output=TRACEBACK)
    wrong = result("a/e", Outcome.FAILED, output=TRACEBACK)
    ours = failing("a/f", output=FATAL.replace("/team/", "/x/mluops_gtest/"))
    assert findings(failing("a/b"), raised, passing, wrong, ours) == []
    "".join(render(golden_report(), "sarif"))


def test_a_sanitizer_speaks_of_a_case_that_passes_too():
    (finding,) = findings(result("a/b", output=UNDEFINED))
    assert finding["level"] == "warning"
    assert "signed integer overflow" in finding["message"]["text"]


def test_cases_that_end_at_one_line_are_one_finding():
    (one, other) = findings(*(failing(f"a/{name}", output=FATAL) for name in "xyz"), failing("a/w", output=GDB))
    assert one["properties"]["cases"] == ["op/a/x", "op/a/y", "op/a/z"]
    assert one["message"]["text"] == "killed by SIGSEGV (op/a/x and 2 more cases)"
    assert other["properties"]["cases"] == ["op/a/w"]


def test_a_file_below_the_folder_is_named_from_there(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = FATAL.replace("/team/", f"{tmp_path}/src/")
    assert place(findings(failing("a/b", output=text))[0]) == ("src/kernels.py", 5)


def test_nothing_of_a_backend_steers_a_reader():
    (finding,) = findings(failing("a/\x1b[31m", output=FATAL))
    assert "\x1b" not in json.dumps(finding, ensure_ascii=False)
