"""Results of foreign backends that ran in the process of the harness are told, and block where that is asked."""

import json

import pytest

from mluops_gtest.backends.registry import BUILT_IN
from mluops_gtest.core.report import ISOLATION_OFF, RunReport

SMOKE = ("--op", "voxel_pooling_forward", "--tag", "smoke")
FOREIGN = "import mluops_gtest as mt\n\n\nclass Foreign(mt.NumpyBackend):\n    name = 'foreign'\n"


@pytest.fixture
def foreign(tmp_path):
    (tmp_path / "foreign.py").write_text(FOREIGN)
    return "--backend", f"{tmp_path / 'foreign.py'}:Foreign"


def gate(cli, run, *options):
    return cli("gate", run.folder, "--against", run.folder, *options)


def test_inline_results_are_told_and_block_where_that_is_asked(run, cli, foreign):
    inline = run(*SMOKE, *foreign, "--no-isolate").expect_output(0, ISOLATION_OFF)
    gate(cli, inline).expect_output(0, "isolation was off")
    gate(cli, inline, "--require-isolated").expect_output(1, "blocked: isolation was off", "--isolate")
    as_json = json.loads(gate(cli, inline, "--require-isolated", "--format", "json").out)
    assert (as_json["isolated"], as_json["blocked"]) == (False, True)
    assert ISOLATION_OFF in cli("report", inline.folder, "--format", "markdown").out
    assert "未启用隔离" in cli("report", inline.folder, "--format", "markdown", "--lang", "zh").out


@pytest.mark.slow
def test_workers_and_our_own_backends_pass(run, cli, foreign):
    for options in (foreign, ("--backend", "numpy"), ("--backend", "reference")):
        done = run(*SMOKE, *options)
        assert ISOLATION_OFF not in done.out
        passed = gate(cli, done, "--require-isolated").expect_code(0)
        assert "isolation" not in passed.out


def test_a_report_that_does_not_say_counts_as_not_isolated(run, cli, foreign):
    done = run(*SMOKE, *foreign, "--no-isolate")
    record = json.loads((done.folder / "report.json").read_text())
    del record["backend"]["isolated"]
    (done.folder / "report.json").write_text(json.dumps(record))
    assert gate(cli, done).code == 0
    gate(cli, done, "--require-isolated").expect_output(1, "does not say")


def test_a_settings_file_asks_for_it(run, cli, foreign, tmp_path):
    done = run(*SMOKE, *foreign, "--no-isolate")
    settings = tmp_path / "mluops-test.toml"
    settings.write_text("require_isolated = true\n")
    cli("--settings", settings, "gate", done.folder, "--against", done.folder).expect_code(1)


def test_our_own_backends_are_those_that_are_built_in():
    for spec in BUILT_IN:
        assert RunReport("1", {"name": spec, "spec": spec, "isolated": False}, {}, {}, "", 0.0, ()).is_isolated
