"""Files without the harness that show a failure: they run, they tell it, and a right backend passes them."""

import os
import shutil
import subprocess
import sys

import pytest

from mluops_gtest.catalog.selection import Session
from mluops_gtest.cli.standalone import describe_failure, standalone_of
from mluops_gtest.core.case import Query
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from tests.conftest import ROOT
from tests.e2e.conftest import SUPPORT
from tests.e2e.test_minimise import CASE, mistake
from tests.support.built_once import built_once
from tests.support.c_example import OPERATORS_IN_C, c_example
from tests.support.native import compile_library, needs_gcc

PAIRS = "get_indice_pairs/network_down_41x1440x1440_twin"
BOUNDS = "voxel_pooling_forward/bounds_4x3x2"
# A package of the same name in front of the installed one: whoever imports more than a stand-in has would see it.
NO_HARNESS = "raise ImportError('the harness is not here')\n"
EXAMPLE = ROOT / "examples" / "c_backend"
OPERATORS, COMMON = ("voxel_pooling_forward", "get_indice_pairs"), ("handle", "descriptors", "checks")
PARTS = (*OPERATORS, *COMMON, "scratch", "parallel", "runtime")


@pytest.fixture
def alone(tmp_path):
    """Run a command where the harness cannot be imported."""
    folder = tmp_path / "without"
    (folder / "mluops_gtest").mkdir(parents=True)
    (folder / "mluops_gtest" / "__init__.py").write_text(NO_HARNESS)
    environment = {**os.environ, "PYTHONPATH": str(folder)}

    def call(*words, shell=False):
        command = words[0] if shell else [str(word) for word in words]
        return subprocess.run(
            command, shell=shell, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    return call


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("LosesZero", "output_features[0, 0, 0, 0]: got 0.0, expected 1.0"),
        pytest.param("Raises", "the backend raised ZeroDivisionError: in my kernel", marks=pytest.mark.slow),
        pytest.param("Overruns", "pos_memo: written past the end of the buffer", marks=pytest.mark.slow),
        pytest.param("Refuses", "answered NOT_SUPPORTED, expected SUCCESS", marks=pytest.mark.slow),
    ],
)
def test_a_python_file_shows_the_failure_without_the_harness(cli, alone, tmp_path, backend, words):
    small = tmp_path / "small.prototxt"
    case = CASE if backend == "LosesZero" else BOUNDS
    cli("minimise", case, "-b", mistake(backend), "--no-isolate", "--out", small, "--standalone", "py").expect_output(
        0, f"alone: {os.path.basename(sys.executable)} {tmp_path / 'small.py'}"
    )
    shown = alone(sys.executable, tmp_path / "small.py")
    assert shown.returncode == 1, shown.stderr
    assert words in shown.stdout
    # The same file says that a repaired backend is right.
    repaired = tmp_path / "repaired.py"
    repaired.write_text((SUPPORT / "pooling_mistakes.py").read_text() + f"\n{backend} = Right\n")
    right = alone(sys.executable, tmp_path / "small.py", repaired)
    assert (right.returncode, right.stdout) == (0, "The failure does not show: the answer is right.\n"), right.stderr


@pytest.mark.slow
def test_a_python_file_of_a_crash_crashes(cli, alone, tmp_path):
    small = tmp_path / "small.prototxt"
    assert cli("minimise", BOUNDS, "-b", mistake("Crashes"), "--out", small, "--standalone", "py").code == 0
    shown = alone(sys.executable, tmp_path / "small.py")
    assert shown.returncode < 0
    assert "Fatal Python error: Segmentation fault" in shown.stderr


def test_a_refused_call_stands_alone_too(cli, alone, tmp_path):
    small = tmp_path / "small.prototxt"
    negative = "voxel_pooling_forward/pos_memo_desc_null"
    cli(
        "minimise", negative, "-b", mistake("Accepts"), "--no-isolate", "--out", small, "--standalone", "py"
    ).expect_code(0)
    shown = alone(sys.executable, tmp_path / "small.py")
    assert (shown.returncode, shown.stdout) == (1, "answered SUCCESS, expected BAD_PARAM\n"), shown.stderr


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Two operators of the C example, right and with one mistake each."""

    def build(folder):
        folder.mkdir()
        for bug in ("none", "uninitialised", "segfault", "past_end", "wrong_status", "query_size"):
            sources = [EXAMPLE / f"{part}.c" for part in PARTS]
            flags = ("-std=c11", "-pthread", f"-DBUG_{bug.upper()}", f"-I{EXAMPLE}", "-lm")
            compile_library(folder / f"{bug}.so", *sources, flags=flags)

    return built_once(tmp_path_factory, "minimise-libraries", build)


def shell(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
class TestLibraries:
    pytestmark = needs_gcc

    @pytest.mark.parametrize(
        ("case", "bug", "words"),
        [
            (PAIRS, "uninitialised", "indice_pairs is wrong: 1 of 2 elements differ"),
            (CASE, "past_end", "written outside of the buffer"),
            (CASE, "wrong_status", "mluOpVoxelPoolingForward answered "),
            ("get_indice_pairs/size_null", "query_size", "mluOpGetIndicePairsWorkspaceSize answered 0, expected 3"),
        ],
    )
    def test_a_c_file_compiles_and_shows_the_failure(self, cli, libraries, tmp_path, case, bug, words):
        small, library = tmp_path / "small.prototxt", libraries / f"{bug}.so"
        result = cli("minimise", case, "-b", f"c:{library}", "--out", small, "--standalone", "c").expect_code(0)
        (command,) = [line.removeprefix("alone: ") for line in result.lines if line.startswith("alone: ")]
        assert command in (tmp_path / "small.c").read_text()
        strict = command.replace("gcc ", "gcc -Wall -Wextra -Werror ", 1)
        shown = shell(strict)
        assert shown.returncode == 1, shown
        assert words in shown.stdout
        repaired = tmp_path / library.name
        shutil.copy(libraries / "none.so", repaired)
        right = shell(strict.replace(str(library), str(repaired)).replace(f"-rpath,{libraries}", f"-rpath,{tmp_path}"))
        assert right.returncode == 0, right
        assert "The failure does not show: the answer is right." in right.stdout

    def test_a_c_file_of_a_crash_crashes(self, cli, libraries, tmp_path):
        small, library = tmp_path / "small.prototxt", libraries / "segfault.so"
        result = cli("minimise", CASE, "-b", f"c:{library}", "--out", small, "--standalone", "c").expect_code(0)
        (command,) = [line.removeprefix("alone: ") for line in result.lines if line.startswith("alone: ")]
        assert shell(command).returncode in (-11, 139)

    @pytest.mark.parametrize(
        ("case", "bug"), [(PAIRS, "uninitialised"), (CASE, "past_end"), ("get_indice_pairs/size_null", "query_size")]
    )
    def test_a_python_file_calls_the_library_by_ctypes(self, cli, alone, libraries, tmp_path, case, bug):
        small, library = tmp_path / "small.prototxt", libraries / f"{bug}.so"
        cli("minimise", case, "-b", f"c:{library}", "--out", small, "--standalone", "py").expect_code(0)
        shown = alone(sys.executable, tmp_path / "small.py")
        assert shown.returncode == 1, shown
        words = {
            "uninitialised": "indice_pairs[0, 1, 0]: got -",
            "past_end": "written past the end",
            "query_size": "mluOpGetIndicePairsWorkspaceSize answered SUCCESS, expected BAD_PARAM",
        }
        assert words[bug] in shown.stdout
        right = alone(sys.executable, tmp_path / "small.py", libraries / "none.so")
        assert right.returncode == 0, right


@pytest.mark.parametrize(
    ("form", "backend", "words"),
    [
        ("py", "numpy", "is a part of mluops-test"),
        ("py", "torch", "is a part of mluops-test"),
        ("py", "exec:./program", "The case file and the repro line show the failure"),
        ("py", "mlu", "on host memory"),
        ("c", "exec:./program", "The case file and the repro line show the failure"),
        ("c", "kernels.py", "use --standalone py"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_search(cli, form, backend, words):
    cli("minimise", CASE, "-b", backend, "--standalone", form).expect_error(2, words)


@pytest.fixture(scope="module")
def right_library(tmp_path_factory):
    """The whole C example, which is right."""
    return c_example(tmp_path_factory) / "libmluops_host.so"


@pytest.mark.slow
class TestEveryOperator:
    pytestmark = needs_gcc

    @pytest.fixture
    def described_failures(self, catalogue):
        """What stands in a file: a small case that computes, and one that is refused."""
        session = Session()
        session.catalogue = catalogue

        def find(operator):
            chosen = session.select(Query((operator,))).cases
            smoke = next(one for one in chosen if "smoke" in one.tags and "negative" not in one.tags)
            refused = next(one for one in chosen if "negative" in one.tags and one.id.endswith("_desc_null"))
            source = session.source((smoke, refused))
            known = catalogue.operators[operator]
            for one in (smoke, refused):
                blank = CaseResult(one.id, operator, (), Outcome.FAILED)
                yield describe_failure(source.load(one.id), blank, known, catalogue.operators)

        return find

    @pytest.mark.parametrize("operator", OPERATORS_IN_C)
    def test_a_right_library_passes_its_files(self, alone, described_failures, right_library, tmp_path, operator):
        for number, one in enumerate(described_failures(operator)):
            c_file, python_file = tmp_path / f"case_{number}.c", tmp_path / f"case_{number}.py"
            in_c = standalone_of("c", f"c:{right_library}", None)
            c_file.write_text(in_c.text(one, c_file))
            done = shell(in_c.command(c_file).replace("gcc ", "gcc -Wall -Wextra -Werror ", 1))
            assert done.returncode == 0, done
            python_file.write_text(standalone_of("py", f"c:{right_library}", None).text(one, python_file))
            done = alone(sys.executable, python_file)
            assert done.returncode == 0, done
