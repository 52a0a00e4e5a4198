"""Operators of one's own beside the built-in ones, and settings that stand in a file."""

import json
import shlex
import shutil

import pytest

from mluops_gtest.content import root as content_root
from tests.support.toy_root import write_other_root

TWIN = "voxel_pooling_forward/bevdepth_twin"


@pytest.fixture
def other(cli, tmp_path):
    """A second generated root, with another operator."""
    root = write_other_root(tmp_path / "other")
    assert cli("generate", "--all", "--root", root).code == 0
    return root


def both(toy, other):
    return ("--root", toy, "--root", other)


def tree(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in (root / "prototxt").rglob("*") if p.is_file()}


class TestRoots:
    def test_own_operators_stand_beside_the_built_in_ones(self, cli, run, toy):
        roots = ("--root", "builtin", "--root", toy)
        names = [line.split()[0] for line in cli("ops", *roots).lines]
        assert "scale_by" in names
        assert "voxel_pooling_forward" in names
        listed = cli("list", "--all", "--format", "ids", *roots).lines
        assert listed == sorted(listed, key=lambda case: case.partition("/")[0])
        assert {"scale_by/ramp_2", TWIN} <= set(listed)
        result = run("scale_by/ramp_2", TWIN, "--backend", "reference", "--isolate", *roots)
        assert result.code == 0, result.out
        assert result.report["summary"] == {"passed": 2}
        assert result.report["selection"]["roots"] == ["builtin", str(toy)]

    def test_the_roots_that_are_named_are_the_roots_that_are_used(self, cli, run, toy):
        assert TWIN not in cli("list", "--all", "--format", "ids", "--root", toy).lines
        assert cli("show", TWIN, "--root", toy).code == 5
        assert run("scale_by/ramp_2").code == 5
        assert run(TWIN).report["selection"]["roots"] == ["builtin"]

    def test_every_command_takes_both(self, cli, toy, other, tmp_path):
        roots = both(toy, other)
        assert "shift_param" in cli("schema", *roots).out
        assert "scale_param" in cli("schema", *roots).out
        shown = cli("show", "shift_by/ramp_2", *roots)
        assert shown.lines[-1] == f"repro: mluops-test run shift_by/ramp_2 --root {toy} --root {other}"
        assert cli("verify", "--all", *roots).lines[-1] == "12 verified, 0 differ, 0 skipped"
        audited = json.loads(cli("audit", "operators", "--seeds", "0", "--format", "json", *roots).out)
        assert audited["operators"] == ["scale_by", "shift_by"]
        assert cli("diff", "shift_by/ramp_2", "-b", "numpy", *roots).code == 0
        exported = cli("export", "--tag", "boundary", "--out", tmp_path / "released", *roots)
        assert exported.lines[-1].startswith("6 cases written")
        assert cli("convert", other / "prototxt" / "shift_by", tmp_path / "binary", *roots).code == 0
        assert cli("bench", "shift_by/ramp_2", "-b", "numpy", "-b", "reference", "--samples", "3", *roots).code == 0

    def test_a_failure_is_repeated_with_the_same_roots(self, cli, run, toy, other):
        backend = write_failing_backend(toy.parent)
        result = run("shift_by/ramp_2", "--backend", backend, *both(toy, other))
        assert result.code == 1
        repro = shlex.split(result.results["shift_by/ramp_2"]["repro"])
        assert repro[-6:] == ["--root", str(toy), "--root", str(other), "--backend", str(backend)]
        assert cli(*repro[1:]).code == 1

    def test_a_run_is_resumed_with_its_roots(self, cli, run, toy, other):
        folder = run("scale_by/ramp_2", "shift_by/ramp_2", *both(toy, other)).folder
        record = json.loads((folder / "run.json").read_text())
        assert record["roots"] == [str(toy), str(other)]
        (folder / "report.json").unlink()
        lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
        (folder / "results.jsonl").write_text(lines[0])
        assert cli("run", "--resume", folder).code == 0
        assert len((folder / "results.jsonl").read_text().splitlines()) == 2

    def test_a_run_of_an_earlier_version_is_resumed(self, cli, run, toy):
        folder = run("scale_by/ramp_2", "--root", toy).folder
        record = json.loads((folder / "run.json").read_text())
        record["root"] = record.pop("roots")[0]
        (folder / "run.json").write_text(json.dumps(record))
        (folder / "report.json").unlink()
        (folder / "results.jsonl").unlink()
        assert cli("run", "--resume", folder).code == 0

    def test_files_of_either_root_are_their_cases(self, cli, toy, other):
        select = (toy / "prototxt" / "scale_by", other / "prototxt" / "shift_by" / "ramp_2.prototxt")
        listed = cli("list", *select, "--format", "ids", *both(toy, other)).lines
        assert "shift_by/ramp_2" in listed
        assert "scale_by/ramp_3" in listed

    def test_the_gate_knows_the_files_of_either_root(self, cli, run, toy, other, tmp_path):
        roots, baseline = both(toy, other), tmp_path / "baseline.json"
        everything = run("--tag", "boundary", *roots).folder
        assert cli("gate", everything, "--against", baseline, "--update").code == 0
        part = run(other / "prototxt" / "shift_by" / "ramp_2.prototxt", *roots).folder
        assert cli("gate", part, "--against", baseline).code == 1
        assert cli("gate", part, "--against", baseline, "--subset").code == 0

    def test_other_values_are_drawn_in_every_root(self, run, toy, other):
        result = run("scale_by/big", "shift_by/big", "--reseed", "7", *both(toy, other))
        assert result.report["summary"] == {"passed": 2}

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_what_is_generated_goes_to_the_root_of_its_operator(self, cli, toy, other, tmp_path, jobs):
        before = tree(toy), tree(other)
        for root in (toy, other):
            shutil.rmtree(root / "prototxt")
        assert cli("generate", "--op", "shift_by", "-j", jobs, *both(toy, other)).code == 0
        assert not (toy / "prototxt").exists()
        assert cli("generate", "--op", "shift_by", "--check", *both(toy, other)).code == 0
        assert cli("generate", "--tag", "undefined", "-j", jobs, "--root", toy).code == 0
        made = cli("generate", "--all", "-j", jobs, *both(toy, other))
        assert made.code == 0, made.err
        assert [line for line in made.lines if str(toy / "prototxt") in line]
        assert [line for line in made.lines if str(other / "prototxt") in line]
        assert {path for path in tree(toy) if "shift_by" in path} == set()
        assert (tree(toy), tree(other)) == before
        assert cli("generate", "--all", "--check", "-j", jobs, *both(toy, other)).code == 0

    def test_what_is_no_longer_declared_goes_from_its_own_root(self, cli, toy, other):
        path = other / "cases" / "shift_by.yaml"
        path.write_text(path.read_text().replace("to: 4", "to: 3"))
        before = tree(toy)
        checked = cli("generate", "--all", "--check", *both(toy, other))
        assert checked.code == 3
        assert checked.lines[-1] == "11 cases compared, 1 differences"
        made = cli("generate", "--all", *both(toy, other))
        assert "removed shift_by/ramp_4: no longer declared" in made.out
        assert tree(toy) == before

    def test_the_installed_content_is_not_written_to(self, cli, toy, other, tmp_path, monkeypatch):
        (tmp_path / "package").mkdir()
        shutil.copytree(toy, tmp_path / "package" / "_content")
        monkeypatch.setattr(content_root, "_PACKAGE", tmp_path / "package")
        roots = ("--root", "builtin", "--root", other)
        refused = cli("generate", "--all", *roots)
        assert refused.code == 2
        assert "not written to" in refused.err
        assert cli("generate", "--all", "--check", *roots).code == 0
        assert cli("generate", "--op", "shift_by", *roots).code == 0
        assert cli("generate", "--all", "--out", tmp_path / "out", *roots).code == 0

    def test_an_operator_in_two_roots_names_both_files(self, cli, toy, tmp_path):
        twin = tmp_path / "twin"
        shutil.copytree(toy, twin)
        result = cli("list", *both(toy, twin))
        assert result.code == 3
        assert "Two operators are called 'scale_by'" in result.err
        for root in (toy, twin):
            assert str(root / "generators" / "scale_by.py") in result.err

    def test_a_released_name_in_two_roots_names_both_files(self, cli, toy, other):
        generator = other / "generators" / "shift_by.py"
        generator.write_text(generator.read_text().replace('"shift"', '"scale"'))
        result = cli("run", *both(toy, other))
        assert result.code == 3
        assert "'scale'" in result.err
        assert str(generator) in result.err
        assert str(toy / "generators" / "scale_by.py") in result.err

    @pytest.mark.parametrize(("old", "new"), [("shift_param", "scale_param"), ("9002", "9001")])
    def test_a_parameter_field_in_two_roots_names_both_operators(self, cli, toy, other, old, new):
        generator = other / "generators" / "shift_by.py"
        generator.write_text(generator.read_text().replace(old, new))
        result = cli("schema", *both(toy, other))
        assert result.code == 3
        assert "shift_by" in result.err
        assert "scale_by" in result.err

    @pytest.mark.parametrize("name", ["cases/scale_by.yaml", "prototxt/scale_by/ramp_2.prototxt"])
    def test_a_file_in_two_roots_names_both_places(self, cli, toy, other, name):
        (other / name).parent.mkdir(exist_ok=True)
        shutil.copy(toy / name, other / name)
        result = cli("run", other / "prototxt", *both(toy, other))
        assert result.code == 3
        assert str(toy / name) in result.err
        assert str(other / name) in result.err

    def test_a_case_locked_in_two_roots_names_both_locks(self, cli, run, toy, other):
        lock = other / "prototxt" / "baselines.lock"
        lock.write_bytes(lock.read_bytes() + (toy / "prototxt" / "baselines.lock").read_bytes())
        result = run("shift_by/ramp_2", *both(toy, other))
        assert result.code == 3
        reason = result.results["shift_by/ramp_2"]["reason"]
        assert str(toy / "prototxt" / "baselines.lock") in reason
        assert str(lock) in reason
        assert cli("generate", "--all", "--root", other).code == 0
        assert run("shift_by/ramp_2", *both(toy, other)).code == 0

    def test_a_root_that_is_none_or_stands_twice(self, cli, toy, tmp_path):
        twice = cli("list", "--root", toy, "--root", toy / "." / "cases" / "..")
        assert twice.code == 2
        assert "named twice" in twice.err
        assert cli("list", "--root", tmp_path / "nowhere").code == 2
        empty = cli("list", "--root", "builtin", "--root", tmp_path / "cwd")
        assert empty.code == 2
        assert "no folder generators/" in empty.err

    def test_a_folder_of_that_name_is_a_path(self, cli, toy, tmp_path):
        shutil.copytree(toy, tmp_path / "cwd" / "builtin")
        assert "scale_by/ramp_2" in cli("list", "--format", "ids", "--root", "./builtin").lines
        assert "scale_by/ramp_2" not in cli("list", "--format", "ids", "--root", "builtin").lines


def write_failing_backend(folder):
    path = folder / "nothing.py"
    path.write_text(
        "from mluops_gtest import Status\n\n\nclass Nothing:\n    name = 'nothing'\n\n"
        "    def run(self, call):\n        return Status.SUCCESS\n\n\nbackend = Nothing()\n"
    )
    return path
