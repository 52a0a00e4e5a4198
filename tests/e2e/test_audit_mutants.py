"""`mluops-test audit mutants` on one operator: what is caught, what is not, and what was not tried."""

import json
import shutil

import pytest

MUTANTS = "generators/row_sum/mutants.py"
# Behind the operator's own.
MORE = """

def _right(call: OpCall) -> Status:
    return _add(call, call.array("segments"), call.array("values"))


def _raising(call: OpCall) -> Status:
    raise ZeroDivisionError("a slip of the mutant's own")


MUTANTS += (
    Mutant("right", "makes no mistake", _right),
    Mutant("raising", "does not even answer", _raising),
    cached_by_shape(_right),
)
"""


@pytest.fixture
def weak(folder_root, tmp_path):
    """The same with mutants that no case can catch, and one that only a second call shows."""
    root = tmp_path / "weak"
    shutil.copytree(folder_root, root, ignore=shutil.ignore_patterns("__pycache__"))
    more = (root / MUTANTS).read_text() + MORE
    imported = "from mluops_gtest.authoring import Array, Mutant, OpCall, Status\n"
    assert imported in more
    mistakes = "from mluops_gtest.authoring.mistakes import cached_by_shape\n"
    (root / MUTANTS).write_text(more.replace(imported, imported + mistakes))
    return root


def test_an_operator_catches_all_of_its_mutants(cli, folder_root):
    page = json.loads(cli("audit", "mutants", "--root", folder_root, "--format", "json").out)
    score = page["operators"]["row_sum"]
    assert score["implementation"]["tried"] == score["implementation"]["caught"] == 5
    assert score["status"]["caught"] > 100
    trials = {trial["name"]: trial for trial in page["trials"]}
    untold = [name for name, one in trials.items() if not (one["caught_by"] or one["idle"])]
    assert all("_behind_" in name for name in untold), "only derived cases show every order of checks"
    assert "row_sum/last_segment_only" not in trials["drops_segment_0"]["caught_by"]
    assert len(trials["half_accumulator"]["caught_by"]) > 1
    alone = [one for one in page["trials"] if len(one["caught_by"]) == 1 and one["kind"] == "implementation"]
    assert score["implementation"]["by_one_alone"] == len(alone)
    assert trials["forgets_handle_null"]["kind"] == "status"
    assert not trials["forgets_handle_null"]["idle"]
    # Without an output there is nothing to write.
    assert trials["writes_before_output_desc_null"]["idle"]


def test_what_is_not_caught_is_named_and_fails_and_a_list_names_all(cli, weak):
    result = cli("audit", "mutants", "--root", weak, "--first-kill").expect_code(1)
    lines = result.lines
    listed = cli("audit", "mutants", "--root", weak, "--first-kill", "--list").lines
    (cached,) = (line for line in listed if line.startswith("row_sum: cached_by_shape ("))
    assert " is caught by row_sum/" in cached
    assert "row_sum: right (makes no mistake) is not caught" in lines
    (raising,) = (line for line in lines if "raising" in line)
    assert "is not caught, and raises: " in raising
    assert "a slip of the mutant's own" in raising
    assert not [line for line in lines if "cached_by_shape" in line]
    assert lines[-1].startswith("1 operator: the cases catch 6 of 8 wrong implementations and ")


def test_what_the_time_does_not_allow_is_not_passed(cli, folder_root):
    result = cli("audit", "mutants", "--root", folder_root, "--budget", "1e-9").expect_output(
        1, "0 of 0 wrong implementations"
    )
    assert result.out.splitlines()[-1].startswith("not passed: the time is up, and ")
    page = json.loads(cli("audit", "mutants", "--root", folder_root, "--budget", "1e-9", "--format", "json").out)
    assert ["row_sum", "drops_segment_0"] in page["not_tried"]
    assert page["trials"] == []


def test_the_table_for_pages_has_what_first_kill_knows(cli, folder_root):
    result = cli("audit", "mutants", "--root", folder_root, "--first-kill", "--format", "markdown")
    header, rule, row = result.out.splitlines()
    assert header == "| operator | wrong | caught | wrong statuses | caught |"
    assert rule == "| --- | ---: | ---: | ---: | ---: |"
    assert row.startswith("| row_sum | 5 | 5 | ")


@pytest.mark.slow
def test_processes_find_what_one_finds(cli, weak):
    """Also where two of them have to share one operator."""

    def trials_and_score(*options):
        page = json.loads(cli("audit", "mutants", "--root", weak, "--format", "json", *options).out)
        return sorted((one["name"], one["caught_by"]) for one in page["trials"]), page["score"]

    assert trials_and_score() == trials_and_score("-j", "2")


def test_two_mutants_of_one_name_are_refused(cli, folder_root, tmp_path):
    root = tmp_path / "twice"
    shutil.copytree(folder_root, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / MUTANTS).write_text((root / MUTANTS).read_text() + "\nMUTANTS += MUTANTS[:1]\n")
    cli("audit", "mutants", "--root", root).expect_error(3, "two mutants are named 'drops_segment_0'")
