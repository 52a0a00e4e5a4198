"""What a backend author meets first: the template, the doctor, the plugin."""

import os
import re
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import backends_in

pytestmark = pytest.mark.slow
SMALL = ("--op", "masked_im2col_forward")


def verdicts(result):
    """promise → verdict of the doctor's table."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in result.lines[1:])
    return {row[0]: row[1] for row in rows if len(row) >= 2 and row[1] in ("ok", "problem", "skipped")}


def test_the_template_computes_right_and_says_what_is_missing(cli, run, tmp_path):
    assert cli("new", "backend", "my_kernels").code == 0
    text = (tmp_path / "cwd" / "my_kernels.py").read_text()
    assert "$" not in text
    assert run(*SMALL, "--tag", "smoke", "--backend", "my_kernels.py:backend").code == 0
    result = cli("doctor", "--backend", "my_kernels.py:backend", *SMALL).expect_code(1)
    found = verdicts(result)
    assert found["interface"] == found["unknown operators"] == found["values"] == found["inputs"] == "ok"
    assert found["statuses"] == "problem"
    assert cli("new", "backend", "my_kernels").code == 2
    assert cli("new", "backend", "my_kernels", "--force").code == 0


def test_a_file_alone_means_its_backend(cli, run, tmp_path):
    assert cli("new", "backend", "my_kernels").code == 0
    assert run(*SMALL, "--tag", "smoke", "--backend", "my_kernels.py").code == 0
    (tmp_path / "cwd" / "other.py").write_text("kernels = None\n")
    cli("run", *SMALL, "--tag", "smoke", "--backend", "other.py").expect_error(
        4, "other.py has no attribute 'backend'. Name one that it has: other.py:ATTRIBUTE."
    )


def test_the_doctor_finds_nothing_wrong_with_the_reference(cli):
    result = cli("doctor", "--backend", "reference", *SMALL).expect_code(0)
    assert set(verdicts(result).values()) <= {"ok", "skipped"}
    assert "every promise is kept" in result.out


def test_the_doctor_survives_a_crash(cli):
    cli("doctor", "--backend", backends_in("crashing_backends")("Aborts"), *SMALL).expect_output(1, "SIGABRT")
    assert cli("doctor", "--backend", "no_such_module:x").code == 4


def test_a_plugin_package_is_found_by_its_name(tmp_path):
    """Built, unpacked onto the path: its entry point is what names it."""
    example = ROOT / "examples" / "plugin_package"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=example, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)])}

    def command(*arguments):
        full = [sys.executable, "-m", "mluops_gtest", *arguments]
        return subprocess.run(full, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert "my-accelerator" in command("backends").stdout
    done = command(
        "run", "--op", "voxel_pooling_forward", "-k", "not negative and not network", "--backend", "my-accelerator"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = command("run", "--op", "masked_im2col_forward", "--tag", "smoke", "--backend", "my-accelerator")
    assert skipped.returncode == 5


@pytest.mark.parametrize("isolation", ["--isolate", "--no-isolate"])
def test_a_backend_is_closed_when_the_run_is_over(run, tmp_path, isolation):
    closed = tmp_path / "closed"
    kernels = tmp_path / "closing.py"
    kernels.write_text(
        "from pathlib import Path\n"
        "from tests.support.wrong_backends import Exact\n\n\n"
        "class Closing(Exact):\n"
        "    def close(self):\n"
        f"        with Path({str(closed)!r}).open('a') as file:\n"
        "            file.write('closed')\n\n\n"
        "backend = Closing()\n"
    )
    assert run("masked_im2col_forward", "--tag", "smoke", "--backend", kernels, isolation).code == 0
    assert closed.read_text() == "closed"
