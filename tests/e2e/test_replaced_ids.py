"""Ids that no case has any more: whoever names one is led to the cases that show now what it showed."""

import json

import pytest

from tests.support.pick_root import write_pick_root

WAIVER = """\
- case: pick/alike
  outcome: wrong_status
  owner: ann
  reason: bug 17
  expires: 2999-01-01
"""
REFUSING = """\
from mluops_gtest import Status


class Refusing:
    name = "refusing"

    def run(self, call):
        return Status.BAD_PARAM
"""


@pytest.fixture
def root(tmp_path, cli):
    root = write_pick_root(tmp_path / "root")
    assert cli("generate", "--all", "--root", root).code == 0
    return root


def rename(root, cli, successors=("pick/square",)):
    """`alike` becomes `square`."""
    path = root / "cases" / "pick.yaml"
    path.write_text(path.read_text().replace("name: alike", "name: square"))
    list_successors(root, {"pick/alike": list(successors)})
    assert cli("generate", "--all", "--root", root).code == 0


def list_successors(root, listed):
    (root / "prototxt" / "pick" / "replaced.json").write_text(json.dumps(listed))


def run(root, cli, out, *more):
    result = cli("run", "pick", "--root", root, "--out", out, *more)
    assert (out / "report.json").exists(), result.err
    return out


def test_an_old_id_runs_and_shows_its_successor(root, cli, tmp_path):
    rename(root, cli)
    result = cli("run", "pick/alike", "--root", root, "--out", tmp_path / "out")
    assert result.code == 0
    assert "pick/alike is now pick/square" in result.err
    assert "1 passed" in result.out
    shown = cli("show", "pick/alike", "--root", root)
    assert shown.code == 0
    assert "pick/square" in shown.lines[0]
    assert "note: pick/alike is now pick/square" in shown.out


def test_the_gate_follows_what_the_baseline_and_waivers_name(root, cli, tmp_path):
    baseline = tmp_path / "baseline.json"
    assert cli("gate", run(root, cli, tmp_path / "before"), "--against", baseline, "--update").code == 0
    rename(root, cli)
    after = run(root, cli, tmp_path / "after")
    passed = cli("gate", after, "--against", baseline)
    assert (passed.code, passed.lines[-1].partition(":")[0]) == (0, "passed")
    assert "replaced" in passed.out
    (root / "prototxt" / "pick" / "replaced.json").unlink()
    assert "1 missing" in cli("gate", after, "--against", baseline).out


def test_a_successor_without_a_verdict_blocks(root, cli, tmp_path):
    baseline = tmp_path / "baseline.json"
    assert cli("gate", run(root, cli, tmp_path / "before"), "--against", baseline, "--update").code == 0
    rename(root, cli, ["pick/square", "pick/one_row"])
    after = run(root, cli, tmp_path / "after", "-k", "not one_row")
    result = cli("gate", after, "--against", baseline)
    assert result.code == 1
    assert "now pick/square, pick/one_row, without a verdict in RESULTS" in result.out


def test_a_waiver_of_an_old_id_covers_its_successor(root, cli, tmp_path):
    rename(root, cli)
    right = run(root, cli, tmp_path / "right", "-k", "square")
    file = tmp_path / "refusing.py"
    file.write_text(REFUSING)
    wrong = run(root, cli, tmp_path / "wrong", "-k", "square", "--backend", f"{file}:Refusing")
    waivers = tmp_path / "waivers.yaml"
    waivers.write_text(WAIVER)
    options = ("--against", right, "--cross-backend")
    assert cli("gate", wrong, *options).code == 1
    assert cli("gate", wrong, *options, "--waivers", waivers).code == 0


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ('{"pick/alike": ["pick/squaer"]}', "pick/alike is replaced by pick/squaer, which is no declared case"),
        ('{"pick/alike": []}', "pick/alike is replaced by nothing"),
        ('{"pick/a": ["pick/b"], "pick/b": ["pick/a"]}', "pick/a → pick/b → pick/a ends nowhere"),
        ('{"pick/valid": ["pick/square"]}', "pick/valid is replaced, but declared all the same"),
        ('{"pick/alike": "pick/square"}', "expected a list"),
        ("{", "not valid JSON"),
    ],
)
def test_a_broken_list_is_told_by_all_who_read_it(root, cli, listed, words):
    rename(root, cli)
    path = root / "prototxt" / "pick" / "replaced.json"
    path.write_text(listed)
    for words_of_command in (("run", "pick/alike"), ("generate", "--all", "--check"), ("audit", "operators")):
        result = cli(*words_of_command, "--root", root)
        assert result.code == 3, result.out
        assert f"{path}:" in result.out + result.err
        assert words in result.out + result.err
    # Whoever names cases that exist does not need it.
    assert cli("run", "pick/square", "--root", root).code == 0


def test_a_replaced_successor_is_followed(root, cli):
    rename(root, cli)
    list_successors(root, {"pick/alike": ["pick/middle"], "pick/middle": ["pick/square", "pick/valid"]})
    assert cli("list", "pick/alike", "--root", root, "--format", "ids").lines == ["pick/square", "pick/valid"]
    several = cli("show", "pick/alike", "--root", root)
    assert several.code == 2
    assert "names 2 cases" in several.err
