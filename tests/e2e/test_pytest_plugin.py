"""Cases as pytest items: collected under their YAML files, selected, run, told and waived as pytest's users expect."""

import importlib
import pkgutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import mluops_gtest
from mluops_gtest.catalog.root import builtin_root

YAML = builtin_root().cases / "voxel_pooling_forward.yaml"
TWO = ("voxel_pooling_forward/order_of_axes", "voxel_pooling_forward/handle_null")
SMOKE = ("--mluops-select", TWO[0], "--mluops-select", TWO[1])
NUMPY = ("--mluops-backend", "numpy")
SCALED = """\
import mluops_gtest as mt


class Scaled(mt.NumpyBackend):
    name = "scaled"

    def run(self, call):
        status = super().run(call)
        if status == mt.Status.SUCCESS:
            call.array("output_features")[..., -1] *= 1.01
        return status


class Half(mt.NumpyBackend):
    name = "half"

    def supports(self, operator):
        return operator != "voxel_pooling_forward"


backend, half = Scaled(), Half()
"""


@pytest.fixture(scope="module")
def everything_imported():
    """pytester forgets what its runs import, and a class that is imported twice is two."""
    for found in pkgutil.walk_packages(mluops_gtest.__path__, "mluops_gtest."):
        if "__main__" not in found.name:
            importlib.import_module(found.name)


@pytest.fixture
def run(pytester, everything_imported):
    """pytest as a user runs it, in an empty folder; in this process, so that it is quick."""
    pytester.makefile(".py", kernels=SCALED)

    def run(*arguments):
        return pytester.runpytest_inprocess("-p", "mluops_gtest.pytest_plugin", "-p", "no:cacheprovider", *arguments)

    return run


def test_cases_are_collected_under_their_file_without_a_path(run):
    result = run(*NUMPY, *SMOKE, "--collect-only", "-q")
    result.stdout.fnmatch_lines(
        ["*voxel_pooling_forward.yaml::order_of_axes", "*voxel_pooling_forward.yaml::handle_null"]
    )
    assert result.ret == 0


def test_own_tests_run_beside_them(run, pytester):
    pytester.makepyfile("def test_mine(): pass")
    run(*NUMPY, *SMOKE).assert_outcomes(passed=3)


@pytest.mark.slow
def test_a_path_names_all_there_is_to_do(run, pytester):
    pytester.makepyfile("def test_mine(): pass")
    run(*NUMPY, *SMOKE, "test_a_path_names_all_there_is_to_do.py").assert_outcomes(passed=1)
    run(*NUMPY, "--mluops-select", "voxel_pooling_forward", f"{YAML}::order_of_axes").assert_outcomes(passed=1)


def test_a_failure_is_explained_without_a_traceback(run):
    result = run("--mluops-backend", "kernels.py", *SMOKE)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*voxel_pooling_forward/order_of_axes*",
            "voxel_pooling_forward/order_of_axes: failed",
            "output_features[[]:, :, :, 1[]] is scaled by 1.01",
            "output_features: diff1 = *",
            "repro: mluops-test run voxel_pooling_forward/order_of_axes --backend kernels.py",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "pytest_plugin.py" not in result.stdout.str()


def test_what_a_backend_does_not_offer_is_skipped(run):
    result = run("--mluops-backend", "kernels.py:half", *SMOKE, "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED * half does not support voxel_pooling_forward*"])


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (("-k", "order_of_axes"), 1),
        (("-k", "voxel_pooling_forward"), 2),
        (("-m", "negative"), 1),
        (("-m", "smoke and not negative"), 1),
    ],
)
def test_keywords_and_markers_select(run, arguments, passed):
    run(*NUMPY, *SMOKE, "--strict-markers", *arguments).assert_outcomes(passed=passed, deselected=2 - passed)


def test_the_first_failure_stops(run):
    run("--mluops-backend", "kernels.py", *SMOKE, "-x").assert_outcomes(failed=1)


@pytest.mark.slow
def test_what_failed_last_runs_again(pytester, everything_imported):
    pytester.makefile(".py", kernels=SCALED)
    arguments = ("-p", "mluops_gtest.pytest_plugin", "--mluops-backend", "kernels.py", *SMOKE)
    pytester.runpytest_inprocess(*arguments).assert_outcomes(failed=1, passed=1)
    pytester.runpytest_inprocess(*arguments, "--lf").assert_outcomes(failed=1)


def test_junit_has_place_reason_and_fingerprint(run, pytester):
    run("--mluops-backend", "kernels.py", *SMOKE, "--junitxml", "junit.xml", "-o", "junit_family=xunit1")
    tests = ElementTree.parse(pytester.path / "junit.xml").getroot().findall(".//testcase")
    failed = next(test for test in tests if test.find("failure") is not None)
    assert failed.get("name") == "order_of_axes"
    assert int(failed.get("line")) > 1
    assert "is scaled by 1.01" in failed.find("failure").text
    assert failed.find("properties/property").get("name") == "fingerprint"


WAIVER = """\
- case: {case}
  outcome: failed
  reason: known
  owner: ann
  expires: {expires}
"""


@pytest.mark.parametrize(
    ("case", "expires", "outcomes"),
    [
        ("voxel_pooling_forward/order_of_axes", "2999-01-01", {"xfailed": 1, "passed": 1}),
        ("voxel_pooling_forward/order_of_axes", "2001-01-01", {"failed": 1, "passed": 1}),
        ("voxel_pooling_forward/handle_null", "2999-01-01", {"failed": 2}),
    ],
    ids=["waived", "expired", "waived, but passes"],
)
def test_waivers_are_expected_failures(run, pytester, case, expires, outcomes):
    (pytester.path / "waivers.yaml").write_text(WAIVER.format(case=case, expires=expires))
    result = run("--mluops-backend", "kernels.py", *SMOKE, "--mluops-waivers", "waivers.yaml")
    result.assert_outcomes(**outcomes)
    if outcomes == {"failed": 2}:
        result.stdout.fnmatch_lines(["it passes, although waivers.yaml:1 waives it; *"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mluops-select", "x"), "*--mluops-select needs --mluops-backend*"),
        ((*NUMPY, "--mluops-select", "no_such"), "*'no_such' is not a case id*"),
        ((*NUMPY, "--mluops-root", "nowhere"), "*Root nowhere: it has no folder generators/*"),
        (("--mluops-backend", "no_file.py", *SMOKE), "*the file no_file.py does not exist*"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(run, arguments, message):
    result = run(*arguments)
    assert result.ret != 0
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    (result.stderr if "*needs*" in message or "ERROR" in result.stderr.str() else result.stdout).fnmatch_lines(
        [message]
    )


OWN_BODY = """\
import numpy as np
import pytest


@pytest.mark.mluops("voxel_pooling_forward/order_of_axes", "voxel_pooling_forward/depths_fold")
def test_pooling(mluops_case):
    sums = np.zeros_like(mluops_case.expected["output_features"])
    points = mluops_case.inputs["geom_xyz"]
    for batch, row in np.ndindex(points.shape[:2]):
        x, y, z = points[batch, row]
        if z not in range(mluops_case.params["num_voxel_z"]):
            continue
        sums[batch, y, x] += FACTOR * mluops_case.inputs["input_features"][batch, row]
    mluops_case.check({"output_features": sums, "pos_memo": mluops_case.expected["pos_memo"]})
"""


def test_an_own_body_is_judged_by_the_case(run, pytester):
    pytester.makepyfile(OWN_BODY.replace("FACTOR", "1"))
    result = run("-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_pooling[[]voxel_pooling_forward/order_of_axes[]] PASSED*"])


def test_an_own_body_that_is_wrong_is_explained(run, pytester):
    pytester.makepyfile(OWN_BODY.replace("FACTOR", "2"))
    result = run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["E * voxel_pooling_forward/order_of_axes: failed", "E * all of output_features is scaled by 2"]
    )
    assert "in check" not in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("", "*say which cases with @pytest.mark.mluops*"),
        ("@pytest.mark.mluops('no_such')\n", "*'no_such' is not a case id*"),
        ("@pytest.mark.mluops('ball_query', tag='smoke')\n", "*unexpected keyword argument 'tag'*"),
    ],
)
def test_an_own_body_must_say_which_cases(run, pytester, marker, message):
    pytester.makepyfile(f"import pytest\n\n{marker}def test_it(mluops_case): pass\n")
    result = run()
    assert result.ret != 0
    assert "Traceback" not in result.stdout.str()
    result.stdout.fnmatch_lines([message])


@pytest.mark.slow
def test_cases_run_side_by_side(pytester):
    """xdist hands the items to its workers by their ids: the same everywhere."""
    pytester.makefile(".py", kernels=SCALED)
    arguments = ("-n", "2", "--mluops-backend", "kernels.py", *SMOKE)
    result = pytester.runpytest_subprocess("-p", "mluops_gtest.pytest_plugin", *arguments)
    result.assert_outcomes(failed=1, passed=1)


@pytest.mark.slow
def test_a_crash_costs_one_case(pytester):
    text = "import os\nimport mluops_gtest as mt\n\n\nclass Crash(mt.NumpyBackend):\n    name = 'crash'\n\n"
    text += "    def run(self, call):\n        if call.handle is None:\n            os.abort()\n"
    pytester.makefile(".py", kernels=text + "        return super().run(call)\n\n\nbackend = Crash()\n")
    result = pytester.runpytest_subprocess("-p", "mluops_gtest.pytest_plugin", "--mluops-backend", "kernels.py", *SMOKE)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["voxel_pooling_forward/handle_null: crashed"])


@pytest.mark.slow
def test_whoever_does_not_ask_pays_nothing(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import sys\n\n\ndef test_it():\n    ours = {name for name in sys.modules if name.startswith('mluops_gtest')}\n"
        "    assert ours == {'mluops_gtest', 'mluops_gtest.version', 'mluops_gtest.pytest_plugin'}\n"
        "    assert 'numpy' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mluops_gtest.pytest_plugin", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", "-p", "no:hypothesispytest"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
