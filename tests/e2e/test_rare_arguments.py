"""What few operators have: a toy operator with all of it, its library in C under two names, one mistake at a time."""

import subprocess
import sys

import pytest

from tests.support.blended_root import LIBRARY, write_blended_root
from tests.support.native import compile_library, needs_gcc

NEW = ("-DOPERATOR=mluOpBlended", "-DQUERY=mluOpGetBlendedWorkspaceSize")
OLD = ("-DOPERATOR=mluOpBlend", "-DQUERY=mluOpGetBlendWorkspaceSize")
MIXED = ("-DOPERATOR=mluOpBlended", "-DQUERY=mluOpGetBlendWorkspaceSize")


@pytest.fixture
def root(cli, tmp_path):
    folder = write_blended_root(tmp_path / "root")
    cli("generate", "--all", "--root", folder).expect_code(0)
    return folder


@pytest.fixture
def library(cli, root, tmp_path):
    (tmp_path / "api.h").write_text(cli("ops", "--c", "--root", root).out)
    (tmp_path / "blended.c").write_text(LIBRARY)

    def build(*flags):
        return compile_library(tmp_path / "libblended.so", tmp_path / "blended.c", flags=("-Wall", "-Werror", *flags))

    return build


def failing(run, root, backend, *options):
    found = run("--all", "--root", root, "--backend", backend, *options).results.items()
    return {
        case.partition("/")[2]: (one["outcome"], one["reason"]) for case, one in found if one["outcome"] != "passed"
    }


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_it_runs_and_is_verified(cli, root, run, backend):
    assert failing(run, root, backend) == {}
    assert cli("verify", "--all", "--root", root).code == 0
    assert cli("generate", "--all", "--check", "--root", root).code == 0


class TestWithACompiler:
    pytestmark = needs_gcc

    @pytest.mark.parametrize("names", [NEW, OLD], ids=["new", "old"])
    def test_a_library_of_either_name_is_called_with_all_arguments(self, root, run, library, names):
        assert failing(run, root, f"c:{library(*names)}") == {}

    def test_half_a_pair_is_no_library_of_the_operator(self, root, run, library):
        (reason,) = {one[1] for one in failing(run, root, f"c:{library(*MIXED)}").values()}
        assert reason.endswith("does not export mluOpGetBlendedWorkspaceSize or mluOpBlend")

    @pytest.mark.parametrize("names", [NEW, OLD], ids=["new", "old"])
    def test_a_query_is_held_to_the_checks_that_it_makes_alone(self, root, run, library, names):
        ((case, (outcome, reason)),) = failing(run, root, f"c:{library(*names, '-DQUERY_IS_SMALL')}").items()
        assert (case, outcome) == ("large_for_the_query", "wrong_status")
        query = names[1].removeprefix("-DQUERY=")
        assert reason.startswith(f"{query} answered SUCCESS, expected NOT_SUPPORTED (check x_large: ")

    @pytest.mark.parametrize("form", ["py", "c"])
    @pytest.mark.slow
    def test_a_file_without_the_harness_passes_the_same_arguments(self, cli, root, library, tmp_path, form):
        wrong = library(*NEW, "-DFORGETS_THE_SIGN")
        small = tmp_path / "small.prototxt"
        backend = ("--root", root, "--backend", f"c:{wrong}")
        cli("minimise", "blended/negated", *backend, "--out", small, "--standalone", form).expect_code(0)
        assert self.exit_code(small, form, wrong) == 1
        assert self.exit_code(small, form, library(*NEW)) == 0

    @staticmethod
    def exit_code(small, form, built):
        if form == "py":
            return subprocess.run([sys.executable, small.with_suffix(".py"), built], check=False).returncode
        program = small.with_suffix("")
        link = [built, f"-Wl,-rpath,{built.parent}", "-lm", "-o", program]
        subprocess.run(["gcc", small.with_suffix(".c"), *link], check=True)
        return subprocess.run([program], check=False).returncode
