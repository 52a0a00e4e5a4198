"""What the shell offers after a press of the tab key."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("run --tag bou", "plain,boundary"),
        ("list --op voxel", "plain,voxel_pooling_forward"),
        ("run get_indice_pairs/one_c", "plain,get_indice_pairs/one_cell"),
        ("show get_indice_pairs/one_c", "plain,get_indice_pairs/one_cell"),
        ("run my_cases/", "file,my_cases/"),
        ("ops mask", "plain,masked_im2col_forward"),
    ],
)
def test_what_is_offered(words, offered):
    line = f"mluops-test {words}"
    environment = {
        **os.environ,
        "_MLUOPS_TEST_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    code = "from mluops_gtest.cli.main import main; main()"
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert printed.stdout.split() == [offered]
