"""`--backend exec:COMMAND` from the command line."""

import shlex
import sys

import pytest

from tests.conftest import ROOT

EXAMPLE = shlex.join([sys.executable, str(ROOT / "examples" / "exec_backend" / "masked_im2col.py")])
SMALL = ("--op", "masked_im2col_forward", "--tag", "smoke")


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param([], marks=pytest.mark.slow),
        ["--serve"],
        pytest.param(["--serve", "-j", "2"], marks=pytest.mark.slow),
        pytest.param(["--no-isolate"], marks=pytest.mark.slow),
    ],
)
def test_a_program_is_tested_like_any_backend(run, extra):
    result = run(*SMALL, "--backend", f"exec:{EXAMPLE}", *extra).expect_code(0)
    assert set(result.report["summary"]) == {"passed"}
    assert result.report["backend"]["name"].startswith("exec:")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "outcome", "words"),
    [
        ("kill -SEGV $$", "crashed", "SIGSEGV"),
        ("sleep 600", "timed_out", "no answer within 1 s"),
        ("echo '{\"status\": 3}' > $1/result.json", "wrong_status", "BAD_PARAM"),
    ],
)
def test_what_goes_wrong_in_a_program_has_its_outcome(run, tmp_path, script, outcome, words):
    path = tmp_path / "program.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    result = run(*SMALL, "--backend", f"exec:{path}", "--timeout", 1 if outcome == "timed_out" else 60)
    for one in result.results.values():
        assert one["outcome"] == outcome, one
        assert words in one["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "extra", "code"),
    [
        ("exec:no_such_program_here", [], 4),
        ("exec:", [], 2),
        ("numpy", ["--serve"], 2),
        ("numpy", ["--runtime", "x"], 2),
    ],
)
def test_wrong_usage(run, backend, extra, code):
    assert run(*SMALL, "--backend", backend, *extra).code == code
