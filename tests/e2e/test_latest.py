"""`latest`: the newest finished run, wherever results are asked for."""

import json
import os
from pathlib import Path

import pytest

from mluops_gtest.results.folder import REPORT, RUNS

SMOKE = ("--op", "masked_im2col_forward", "--tag", "smoke")


@pytest.fixture
def runs(cli):
    """Finished, interrupted and unfinished runs in ./mluops-results; the newest finished one is `second`."""
    for name in ("first", "second", "cut"):
        cli("run", *SMOKE, "--out", RUNS / name).expect_code(0)
    cut = json.loads((RUNS / "cut" / REPORT).read_text())
    (RUNS / "cut" / REPORT).write_text(json.dumps(cut | {"interrupted": True}))
    (RUNS / "going_on").mkdir()
    for age, name in enumerate(("cut", "second", "first")):
        os.utime(RUNS / name / REPORT, ns=(0, 10**18 - age))
    return RUNS


@pytest.mark.parametrize(
    "command",
    [
        ("report", "latest", "--format", "text"),
        ("explain", "latest"),
        ("gate", "latest", "--against", RUNS / "second"),
        ("compare", "latest", RUNS / "second"),
        ("history", "add", "latest", "--db", "runs.sqlite"),
        ("run", *SMOKE, "--shard", "1/1", "--times", "latest"),
    ],
    ids=lambda command: command[0],
)
def test_it_is_the_newest_finished_run(cli, runs, command):
    result = cli(*command).expect_code(0)
    assert result.err == f"latest: {runs / 'second'}\n"


def test_a_path_of_that_name_is_written_as_one(cli, runs):
    runs.joinpath("first").rename("latest")
    assert cli("explain", "./latest").expect_code(0).err == ""
    assert "second" in cli("explain", "latest").expect_code(0).err


@pytest.mark.parametrize(
    "command", [("report", "latest"), ("run", "--failed", "latest"), ("diff", "a/b", "--from", "latest")], ids=str
)
def test_without_a_finished_run_it_is_refused(cli, command):
    cli(*command).expect_error(2, "latest: no finished run is in ./mluops-results; name a results folder")


@pytest.mark.parametrize("more", [(), ("--update",)])
def test_it_is_no_baseline_of_the_gate(cli, runs, more):
    cli("gate", runs / "first", "--against", "latest", *more).expect_error(2, "latest is no baseline; name one")
    assert not Path("latest").exists()
