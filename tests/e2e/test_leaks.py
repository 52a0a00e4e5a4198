"""A backend that keeps memory with every call is told so, with the figure; one that caches is not."""

import json
import re
import shlex
import sys

import pytest

import mluops_gtest as mt
from tests.e2e.conftest import backends_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
LEAK = re.compile(r"leaks (\d+\.\d) MB per call \(8 calls in a fresh worker\)")
CASES = ("masked_im2col_forward", "--tag", "smoke")
hoarding = backends_in("leaking_backends")


def leak_figures(result):
    """The figures in notes and reasons, by operator."""
    texts = [(r["operator"], text) for r in result.results.values() for text in (*r["notes"], r["reason"])]
    return [(operator, float(found[1])) for operator, text in texts if (found := LEAK.search(text))]


@pytest.mark.parametrize("name", ["Leaks", pytest.param("LeaksWhatItWrote", marks=pytest.mark.slow)])
def test_a_leak_is_told_once_with_the_figure(run, name):
    result = run(*CASES, "--backend", hoarding(name)).expect_code(0)
    ((_, figure),) = leak_figures(result)
    assert figure == pytest.approx(24, rel=0.1)
    (line,) = (line for line in result.lines if line.startswith("leak "))
    assert LEAK.search(line)[1] == f"{figure:.1f}"
    assert not any(line.startswith("notice") for line in result.lines)


@pytest.mark.parametrize(
    "name", ["CachesOnce", *(pytest.param(name, marks=pytest.mark.slow) for name in ("CachesLazily", "CachesByInput"))]
)
def test_a_cache_is_no_leak(run, name):
    result = run(*CASES, "--backend", hoarding(name), "--fail-on-leak")
    assert (result.code, leak_figures(result)) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("--tag", "smoke", "-k", "masked or voxel"), "LeaksInOneOperator"),
        (("masked_im2col_forward", "-k", "float", "-j", 2), "Leaks"),
    ],
)
def test_a_leak_is_blamed_on_its_operator_once(run, arguments, name):
    result = run(*arguments, "--backend", hoarding(name))
    assert [operator for operator, _ in leak_figures(result)] == ["masked_im2col_forward"]


@pytest.mark.slow
def test_it_fails_where_that_is_asked(run):
    result = run(*CASES, "--backend", hoarding("Leaks"), "--fail-on-leak", "--reruns", 2).expect_code(1)
    (failed,) = (r for r in result.results.values() if r["outcome"] != "passed")
    assert (failed["outcome"], failed["causes"][0]["kind"]) == ("memory", "leak")
    assert failed["causes"][0]["bytes"] == pytest.approx(24e6, rel=0.1)
    assert failed["fingerprint"]
    # One call alone keeps too little to be looked at: the line that is printed makes it often enough.
    assert run(*shlex.split(failed["repro"])[2:]).code == 1
    assert json.loads((result.folder / "run.json").read_text())["fail_on_leak"] is True
    assert "leaks 24" in result.out


@pytest.fixture
def settings(monkeypatch, tmp_path, cli):
    monkeypatch.delenv("MLUOPS_TEST_SETTINGS")
    (tmp_path / "cwd" / "mluops-test.toml").write_text("fail_on_leak = true\n")


def test_it_needs_a_worker(cli):
    cli("run", *CASES, "--fail-on-leak").expect_error(2, "--fail-on-leak needs worker processes")
    with pytest.raises(mt.HarnessError, match="fail_on_leak"):
        mt.run(*CASES[:1], tags=["smoke"], fail_on_leak=True)


def test_a_setting_is_left_out_where_it_does_not_fit(run, settings):
    result = run(*CASES).expect_code(0)
    assert json.loads((result.folder / "run.json").read_text())["fail_on_leak"] is False


@pytest.mark.slow
def test_settings_and_python_ask_for_it_too(run, settings):
    assert run(*CASES, "--backend", hoarding("Leaks")).code == 1
    report = mt.run(CASES[0], tags=["smoke"], backend=hoarding("Leaks"), fail_on_leak=True)
    assert [r.outcome.value for r in report.results].count("memory") == 1
