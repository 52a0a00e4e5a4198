"""Readers that leave early, and terminals that are narrow."""

import io
import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Table

from mluops_gtest.cli.terminal import whole_table
from mluops_gtest.core.report import RunReport
from mluops_gtest.results.reports.terminal import slowest_table


def left_alone(*arguments):
    """The command with a stdout that nobody reads any more; its exit code and stderr."""
    command = [sys.executable, "-m", "mluops_gtest", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        return process.wait(), process.stderr.read().decode()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["list", "list --format json", "show scale_by/ramp_3", "verify", "generate --check"])
def test_a_reader_that_left_changes_no_exit_code(toy, words):
    assert left_alone(*words.split(), "--root", toy) == (0, "")


@pytest.mark.slow
def test_what_was_found_counts_though_nobody_reads_it(toy, tmp_path):
    for path in (toy / "prototxt").rglob("*.prototxt"):
        (tmp_path / path.name).write_text(path.read_text().replace('value_h: "40', 'value_h: "41', 1))
    assert left_alone("verify", tmp_path, "--root", toy) == (3, "")
    stored = next((toy / "prototxt").rglob("ramp_2.prototxt"))
    stored.write_text(stored.read_text() + "# edited\n")
    assert left_alone("generate", "--check", "--root", toy) == (3, "")


@pytest.mark.slow
def test_a_run_goes_on_without_its_reader(toy, tmp_path):
    code, _ = left_alone("run", "-v", "--root", toy, "--out", tmp_path / "out")
    assert code == 0
    assert (tmp_path / "out" / "report.json").exists()


def test_the_slowest_cases_are_named_whole_on_a_narrow_terminal(run):
    report = RunReport.load(run("ball_query:B=2").expect_code(0).folder)
    console = Console(file=io.StringIO(), width=44, force_terminal=True, color_system=None)
    console.print(slowest_table(report.results, 1))
    heading, *lines = console.file.getvalue().splitlines()
    assert heading.split() == ["backend", "ms", "slowest", "cases"]
    (case,) = report.results
    assert case.case in "".join(line[12:].strip() for line in lines)


def test_tables_are_not_cut_on_a_narrow_terminal():
    console = Console(file=io.StringIO(), width=20, force_terminal=True, color_system=None)
    table = Table("tensor", "value", box=None)
    table.add_row("indice_pairs_of_a_layer", "-0.9949721")
    whole_table(console, table)
    assert console.width == 20
    assert "indice_pairs_of_a_layer  -0.9949721" in console.file.getvalue()
