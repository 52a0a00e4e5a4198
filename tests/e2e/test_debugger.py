"""A crash comes with the command that shows it in a debugger."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import backends_in, wrong
from tests.support.native import compile_library, needs_gcc

pytestmark = pytest.mark.slow
crashing = backends_in("crashing_backends")
FAKE = Path(__file__).parents[1] / "unit" / "backends" / "fake_mluops.c"
CASE = "masked_im2col_forward/edge_top_float"
CRASHES = """
static int read_null(const int *pointer) { return *pointer; }
int mluOpMaskedIm2colForward(void) { return read_null(0); }
"""
# A machine that must run everything fails in the call instead of skipping.
NO_GDB = shutil.which("gdb") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1"


@pytest.fixture
def library(tmp_path):
    """A C library whose masked_im2col_forward crashes."""
    source = tmp_path / "crashes.c"
    source.write_text(CRASHES)
    return compile_library(tmp_path / "libcrashes.so", FAKE, source, flags=("-DNO_IM2COL", "-O0"))


def debug_lines(result):
    return [line.strip().removeprefix("debug:  ") for line in result.lines if line.startswith("  debug:")]


@pytest.fixture(autouse=True)
def _support_is_importable(monkeypatch):
    """Workers start fresh: they find the tests' modules by PYTHONPATH alone."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_a_group_of_crashes_has_one_line_for_the_debugger(run):
    limits = ("--timeout", 60, "--memory-limit", "2G", "--fresh-workers")
    result = run("masked_im2col_forward", "--tag", "smoke", "--backend", crashing("Segfaults"), *limits)
    crashed = [one for one in result.results.values() if one["outcome"] == "crashed"]
    assert len(crashed) > 1
    first = next(line.split()[1] for line in result.lines if line.startswith("crashed "))
    # What only worker processes can keep is left out: gdb sees the process that it starts.
    python = shlex.join([sys.executable, "-m", "mluops_gtest", "run", first, "--backend", crashing("Segfaults")])
    expected = f"gdb -ex run -ex 'backtrace 12' --args {python} --no-isolate"
    assert debug_lines(result) == [expected]
    assert result.results[first]["debug"] == expected
    assert {one["debug"] == "" for one in crashed} == {False}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--backend", wrong("Transposed")),
        ("--backend", crashing("Hangs"), "--timeout", 1),
        ("--backend", "exec:false"),
    ],
    ids=["wrong values", "hang", "another program"],
)
def test_where_a_debugger_shows_no_crash_there_is_no_line(run, arguments):
    result = run(CASE, *arguments).expect_code(1)
    assert debug_lines(result) == []
    assert result.results[CASE]["debug"] == ""


def test_reports_have_the_command_as_well(run, cli):
    result = run(CASE, "--backend", crashing("Aborts"))
    command = result.results[CASE]["debug"]
    assert command.startswith("gdb ")
    assert f"debug: {command}" in cli("report", result.folder, "--format", "junit").out.replace("&apos;", "'")
    assert f"  debug:  {command}" in cli("report", result.folder, "--format", "text").lines


@pytest.mark.needs_gcc
@pytest.mark.needs_gdb
@pytest.mark.skipif(NO_GDB, reason="gdb is not installed")
@needs_gcc[1]
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "killed by SIGSEGV"),
        (("--guard-pages",), "SIGSEGV, read at address 0x0, a null pointer, in read_null+0x"),
    ],
    ids=["in gdb's own process", "in a worker"],
)
def test_the_line_shows_the_function_that_crashed(run, library, tmp_path, arguments, reason):
    result = run(CASE, "--backend", f"c:{library}", *arguments)
    assert result.results[CASE]["reason"].startswith(reason)
    gdb, *arguments = shlex.split(result.results[CASE]["debug"])
    done = subprocess.run(
        [gdb, "-batch", "-nx", *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert "received signal SIGSEGV" in done.stdout, done.stderr
    assert "read_null (pointer=0x0) at" in done.stdout
    assert "mluOpMaskedIm2colForward () at" in done.stdout
