"""What is supported is what is run: floors become pins, and classifiers name the Pythons of .ci/run."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_core_package_is_pinned_to_its_floor():
    done = subprocess.run([sys.executable, ROOT / ".ci" / "oldest.py"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [line.replace(">=", "==") for line in PROJECT["dependencies"]]


def test_no_installed_package_is_older_than_its_floor():
    for line in PROJECT["dependencies"]:
        name, floor = re.match(r"([\w.-]+)>=([\d.]+)", line).groups()
        found = tuple(map(int, re.findall(r"\d+", importlib.metadata.version(name))[:3]))
        assert found >= tuple(map(int, floor.split("."))), line


def test_the_classifiers_name_no_python_that_is_not_run():
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if line.startswith("Programming Language")]
    # python3 and the distribution's are 3.11; the others are looked for by their names and in pyenv.
    (others,) = re.findall(r"for version in ([\d. ]+);", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert named == ["3", "3.11", *others.split()]
    assert PROJECT["requires-python"] == ">=3.11"
