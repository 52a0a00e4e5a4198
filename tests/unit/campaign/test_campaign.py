"""The campaign itself: it sees what it looks for, draws the same again, and counts right."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.content import calm_ids, case_id
from tests.campaign.faults import everything
from tests.campaign.in_pieces import pieces, try_in_process
from tests.campaign.mutate import mutated_bytes, mutated_tree
from tests.campaign.results import differences, lost_or_doubled
from tests.campaign.sandbox import PIDS, TOKEN, Sandbox, started
from tests.campaign.tally import Tally, Try
from tests.campaign.users import become
from tests.conftest import ROOT


def test_faults_have_names_outcomes_and_families():
    faults = everything()
    assert len(faults) >= 80
    assert all(fault.outcomes for fault in faults.values())
    assert len({case_id(fault) for fault in faults.values()} | set(calm_ids())) == len(faults) + len(calm_ids())


def sleeper(environment):
    return subprocess.Popen(["sleep", "600"], env=environment)


def test_a_process_is_found_by_its_token_and_one_without_by_its_note(tmp_path):
    box = Sandbox(tmp_path / "box")
    other = Sandbox(tmp_path / "other")
    marked, plain = sleeper(box.environment), sleeper({})
    try:
        box.pids.write_text(f"{plain.pid}:{started(plain.pid)}\n")
        assert {pid for pid, _ in box.processes()} == {marked.pid, plain.pid}
        assert list(other.processes()) == []
        assert box.environment[PIDS] == str(box.pids)
        assert TOKEN not in os.environ
    finally:
        for process in (marked, plain):
            process.kill()
            process.wait()
    assert list(box.processes()) == []


def test_what_a_command_leaves_is_counted_and_removed(tmp_path):
    box = Sandbox(tmp_path / "box")
    (box.tmp / "forgotten").mkdir()
    (box.tmp / "forgotten" / "file").touch()
    done = box.run("--version")
    assert done.code == 0
    assert done.files == ("forgotten", "forgotten/file")
    assert done.processes == ()
    assert list(box.tmp.iterdir()) == []


def test_lost_and_doubled_results_are_seen(tmp_path):
    (tmp_path / "report.json").write_text('{"results": [{"case": "a"}, {"case": "b"}]}')
    (tmp_path / "results.jsonl").write_text('{"case": "a"}\n{"case": "a"}\n{"case": "b"}\n')
    assert lost_or_doubled(["a", "b"], tmp_path)[0] == 1
    assert lost_or_doubled(["a", "b", "c"], tmp_path)[0] == 2
    assert lost_or_doubled(["b"], tmp_path)[0] == 1
    assert differences({"a": {"outcome": "passed"}}, {"a": {"outcome": "failed"}}) == [
        "a: outcome was passed, is failed"
    ]


def test_the_same_seed_draws_the_same():
    data, tree = b"value_f: 1 " * 20, {"a": [1, {"b": "c"}], "d": None}
    for seed in range(50):
        assert mutated_bytes(data, data, random.Random(seed)) == mutated_bytes(data, data, random.Random(seed))
        first, second = (repr(mutated_tree(tree, random.Random(seed))) for _ in range(2))
        assert first == second
    assert tree == {"a": [1, {"b": "c"}], "d": None}


def test_a_try_that_takes_its_process_down_costs_itself_alone(tmp_path):
    (tmp_path / "dies.py").write_text(
        "import os, sys\nfrom tests.campaign.in_pieces import tell\n"
        "def attempt(i):\n    if i == 4: os._exit(9)\n    return 'odd' if i == 6 else ''\n"
        "for i in range(*map(int, sys.argv[1:])): tell(i, attempt)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    wrong = try_in_process("dies", (), range(2, 8), environment)
    assert sorted(wrong) == [4, 6]
    assert "ended with 9" in wrong[4]
    assert [i for piece in pieces(range(3, 1000)) for i in piece] == list(range(3, 1000))


def test_the_table_adds_up_and_a_broken_promise_is_a_failure():
    tally = Tally([Try("a", "", count=3), Try("a", "again", lost=2), Try("b", "", broken=("x",))])
    assert tally.rows() == [("a", (4, 3, 2, 0, 0, 0, 0)), ("b", (1, 0, 0, 0, 0, 0, 0)), ("all", (5, 3, 2, 0, 0, 0, 0))]
    assert [one.repro for one in tally.failures()] == ["again", ""]
    assert "| all | 5 | 3 | 2 | 0 | 0 | 0 | 0 |" in tally.markdown()


def test_another_user_is_refused_in_words_where_that_cannot_be(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    for name, words in (("no such user", "there is no user"), ("root", "only root can become")):
        with pytest.raises(SystemExit) as ended:
            become(name)
        assert ended.value.code == 2
        assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_broken_promise_is_exit_1_and_its_repro_is_printed(tmp_path):
    """A harness that loses a case: the campaign's own backend is asked for a fault that may not have this outcome."""
    patched = (
        "import sys, runpy\n"
        "from dataclasses import replace\n"
        "from tests.campaign import faults\n"
        "true = faults.everything\n"
        "changed = {name: replace(f, outcomes=('suspect',)) for name, f in true().items()}\n"
        "import tests.campaign.fault_runs as runs\n"
        "faults.everything = lambda: changed\n"
        "sys.argv = ['campaign', '--only', 'answers_zeros', '--seed', '3']\n"
        "runpy.run_module('tests.campaign', run_name='__main__')\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", patched], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 1, done.stderr
    assert "repro: python -m tests.campaign --only answers_zeros --seed 3" in done.stdout
    assert "may be suspect" in done.stdout
    assert list(Path(tmp_path).iterdir()) == []
