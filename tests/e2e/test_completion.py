"""What the shell offers after a press of the tab key."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from mluops_gtest.cli.main import cli
from tests.support.toy_root import write_toy_root


@pytest.fixture
def offered(monkeypatch):
    """What is offered behind these words, in this process."""

    def complete(words):
        line = f"mluops-test {words}"
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        return BashComplete(cli, {}, "mluops-test", "_MLUOPS_TEST_COMPLETE").complete().replace("\n", " ").split()

    return complete


def test_the_shell_asks_the_script():
    asked = {"_MLUOPS_TEST_COMPLETE": "bash_complete", "COMP_WORDS": "mluops-test ops masked_im", "COMP_CWORD": "2"}
    command = [sys.executable, "-c", "from mluops_gtest.cli.main import main; main()"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("plain,masked_im2col_forward\n", "")


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("run --tag bou", "plain,boundary"),
        ("list --op voxel_", "plain,voxel_pooling_forward"),
        ("run get_indice_pairs/one_c", "plain,get_indice_pairs/one_cell"),
        ("show get_indice_pairs/one_c", "plain,get_indice_pairs/one_cell"),
        ("--settings none list --op voxel_", "plain,voxel_pooling_forward"),
        ("run my_cases/", "file,my_cases/"),
        ("ops masked_im", "plain,masked_im2col_forward"),
        ("run ball_query:B=2,cen", "plain,ball_query:B=2,centres="),
    ],
)
def test_what_is_offered(offered, words, offers):
    assert offered(words) == [offers]


BUILT_IN = ["plain,numpy", "plain,reference", "plain,c:", "plain,mlu", "plain,exec:", "plain,torch"]


@pytest.fixture
def kernels(tmp_path):
    """A folder with backends that say so when they are loaded, and a package with an entry point."""
    loud = "import pathlib; pathlib.Path(__file__).with_suffix('.loaded').touch()\n"
    for name in ("kernels.py", "old/kernels_1.py", "old/kernels_2.py", "plugin.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(loud)
    for name in ("libkernels.so", "old/libold.so", "notes.txt"):
        (tmp_path / name).write_text("")
    metadata = tmp_path / "plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[mluops_gtest.backends]\nmy-accelerator = plugin:backend\n")
    yield tmp_path
    assert not list(tmp_path.rglob("*.loaded"))


@pytest.mark.parametrize(
    ("begun", "offers"),
    [
        ("", [*BUILT_IN, "plain,my-accelerator", "plain,kernels.py", "plain,plugin.py"]),
        ("n", ["plain,numpy"]),
        ("m", ["plain,mlu", "plain,my-accelerator"]),
        ("k", ["plain,kernels.py"]),
        ("old/k", ["plain,old/kernels_1.py", "plain,old/kernels_2.py"]),
        ("./k", ["plain,./kernels.py"]),
        ("c", ["plain,c:"]),
        ("c:", ["plain,c:", "plain,c:libkernels.so"]),
        ("c:./old/l", ["plain,c:./old/libold.so"]),
        # The shell itself goes on, with files and folders.
        ("ol", ["file,ol"]),
        ("no/such/folder", ["file,no/such/folder"]),
    ],
)
def test_backends_are_offered_and_never_loaded(offered, kernels, begun, offers, monkeypatch):
    monkeypatch.chdir(kernels)
    monkeypatch.syspath_prepend(str(kernels))
    assert offered(f"run --backend {begun}") == offers


@pytest.mark.parametrize("command", ["run -b", "doctor -b", "diff CASE --backend", "bench -b numpy -b"])
def test_every_command_that_takes_a_backend_offers_them(offered, command):
    assert offered(f"{command} ref") == ["plain,reference"]


def test_operators_of_the_roots_in_the_settings(offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLUOPS_TEST_SETTINGS")
    write_toy_root(tmp_path / "mine")
    (tmp_path / "mluops-test.toml").write_text('roots = ["mine"]')
    assert offered("list --op sca") == ["plain,scale_by"]
    (tmp_path / "mluops-test.toml").write_text("broken")
    assert offered("list --tag bou") == ["plain,boundary"]
