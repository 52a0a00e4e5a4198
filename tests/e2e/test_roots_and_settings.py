"""Operators of one's own beside the built-in ones, and settings that stand in a file."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

import mluops_gtest as mt
from mluops_gtest.catalog import root as content_root
from tests.e2e.conftest import replace_in, wrong
from tests.support.toy_root import write_other_root

TWIN = "voxel_pooling_forward/bevdepth_twin"


@pytest.fixture
def other(cli, tmp_path):
    """A second generated root, with another operator."""
    root = write_other_root(tmp_path / "other")
    assert cli("generate", "--all", "--root", root).code == 0
    return root


def roots_of(*roots):
    return tuple(word for root in roots for word in ("--root", root))


def tree(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in (root / "prototxt").rglob("*") if p.is_file()}


class TestRoots:
    @pytest.mark.slow
    def test_own_operators_stand_beside_the_built_in_ones(self, cli, run, toy):
        roots = ("--root", "builtin", "--root", toy)
        names = [line.split()[0] for line in cli("ops", *roots).lines]
        assert "scale_by" in names
        assert "voxel_pooling_forward" in names
        listed = cli("list", "--all", "--format", "ids", *roots).lines
        assert listed == sorted(listed, key=lambda case: case.partition("/")[0])
        assert {"scale_by/ramp_2", TWIN} <= set(listed)
        result = run("scale_by/ramp_2", TWIN, "--backend", "reference", "--isolate", *roots).expect_code(0)
        assert result.report["summary"] == {"passed": 2}
        assert result.report["selection"]["roots"] == ["builtin", str(toy)]

    def test_the_roots_that_are_named_are_the_roots_that_are_used(self, cli, run, toy):
        assert TWIN not in cli("list", "--all", "--format", "ids", "--root", toy).lines
        assert cli("show", TWIN, "--root", toy).code == 5
        assert run("scale_by/ramp_2").code == 5
        assert run(TWIN).report["selection"]["roots"] == ["builtin"]

    def test_every_command_takes_both(self, cli, toy, other, tmp_path):
        roots = roots_of(toy, other)
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

    @pytest.mark.slow
    def test_a_failure_is_repeated_with_the_same_roots(self, cli, run, toy, other):
        backend = write_failing_backend(toy.parent)
        result = run("shift_by/ramp_2", "--backend", backend, *roots_of(toy, other)).expect_code(1)
        repro = shlex.split(result.results["shift_by/ramp_2"]["repro"])
        assert repro[-6:] == ["--root", str(toy), "--root", str(other), "--backend", str(backend)]
        assert cli(*repro[1:]).code == 1

    def test_a_run_is_resumed_with_its_roots(self, cli, run, toy, other):
        folder = run("scale_by/ramp_2", "shift_by/ramp_2", *roots_of(toy, other)).folder
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
        listed = cli("list", *select, "--format", "ids", *roots_of(toy, other)).lines
        assert "shift_by/ramp_2" in listed
        assert "scale_by/ramp_3" in listed

    def test_the_gate_knows_the_files_of_either_root(self, cli, run, toy, other, tmp_path):
        roots, baseline = roots_of(toy, other), tmp_path / "baseline.json"
        everything = run("--tag", "boundary", *roots).folder
        assert cli("gate", everything, "--against", baseline, "--update").code == 0
        part = run(other / "prototxt" / "shift_by" / "ramp_2.prototxt", *roots).folder
        assert cli("gate", part, "--against", baseline).code == 1
        assert cli("gate", part, "--against", baseline, "--subset").code == 0

    def test_other_values_are_drawn_in_every_root(self, run, toy, other):
        result = run("scale_by/big", "shift_by/big", "--reseed", "7", *roots_of(toy, other))
        assert result.report["summary"] == {"passed": 2}

    @pytest.mark.slow
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_what_is_generated_goes_to_the_root_of_its_operator(self, cli, toy, other, tmp_path, jobs):
        before = tree(toy), tree(other)
        for root in (toy, other):
            shutil.rmtree(root / "prototxt")
        assert cli("generate", "--op", "shift_by", "-j", jobs, *roots_of(toy, other)).code == 0
        assert not (toy / "prototxt").exists()
        assert cli("generate", "--op", "shift_by", "--check", *roots_of(toy, other)).code == 0
        assert cli("generate", "--tag", "undefined", "-j", jobs, "--root", toy).code == 0
        made = cli("generate", "--all", "-j", jobs, *roots_of(toy, other)).expect_code(0)
        assert [line for line in made.lines if str(toy / "prototxt") in line]
        assert [line for line in made.lines if str(other / "prototxt") in line]
        assert {path for path in tree(toy) if "shift_by" in path} == set()
        assert (tree(toy), tree(other)) == before
        assert cli("generate", "--all", "--check", "-j", jobs, *roots_of(toy, other)).code == 0

    def test_what_is_no_longer_declared_goes_from_its_own_root(self, cli, toy, other):
        replace_in(other / "cases" / "shift_by.yaml", "to: 4", "to: 3")
        before = tree(toy)
        checked = cli("generate", "--all", "--check", *roots_of(toy, other)).expect_code(3)
        assert checked.lines[-1] == "11 cases compared, 1 difference"
        made = cli("generate", "--all", *roots_of(toy, other))
        assert "removed shift_by/ramp_4: no longer declared" in made.out
        assert tree(toy) == before

    def test_the_installed_content_is_not_written_to(self, cli, toy, other, tmp_path, monkeypatch):
        (tmp_path / "package").mkdir()
        shutil.copytree(toy, tmp_path / "package" / "_content")
        monkeypatch.setattr(content_root, "_PACKAGE", tmp_path / "package")
        roots = ("--root", "builtin", "--root", other)
        cli("generate", "--all", *roots).expect_error(2, "does not write into the installed package")
        assert cli("generate", "--all", "--check", *roots).code == 0
        assert cli("generate", "--op", "shift_by", *roots).code == 0
        assert cli("generate", "--all", "--out", tmp_path / "out", *roots).code == 0

    def test_of_an_operator_in_two_roots_the_last_one_is_taken(self, cli, run, toy, other, tmp_path):
        twin = tmp_path / "twin"
        shutil.copytree(toy, twin)
        replace_in(twin / "cases" / "scale_by.yaml", "ramp_{n}", "slope_{n}")
        replace_in(twin / "generators" / "scale_by.py", 'summary="', 'summary="Mine: ')
        cli("generate", "--all", "--root", twin).expect_code(0)
        files = [root / "generators" / "scale_by.py" for root in (toy, twin)]
        for roots, taken, name in (((toy, other, twin), 1, "slope_2"), ((twin, other, toy), 0, "ramp_2")):
            result = run(f"scale_by/{name}", "shift_by", "-j", "2", "--isolate", *roots_of(*roots)).expect_code(0)
            assert result.err.count(f"warning: scale_by: {files[taken]} is taken") == 1
            assert f"{files[1 - taken]} is not" in result.err
            assert f"scale_by/{name}" in result.results
            other_name = "ramp_2" if taken else "slope_2"
            cli("run", f"scale_by/{other_name}", *roots_of(*roots)).expect_error(5, "is not a case id")
            assert ("Mine: " in cli("ops", *roots_of(*roots)).out) == (taken == 1)
            assert cli("generate", "--all", "--check", *roots_of(*roots)).code == 0
        # A stored file of the hidden one is a file like any other.
        assert run(toy / "prototxt" / "scale_by" / "ramp_2.prototxt", *roots_of(toy, twin)).code == 0
        with pytest.warns(UserWarning, match="scale_by: .* is taken"):
            assert mt.run("scale_by/slope_2", roots=(str(toy), str(twin))).exit_code == 0

    def test_a_released_name_in_two_roots_names_both_files(self, cli, toy, other):
        generator = replace_in(other / "generators" / "shift_by.py", '"shift"', '"scale"')
        cli("run", *roots_of(toy, other)).expect_error(
            3, "'scale'", str(generator), str(toy / "generators" / "scale_by.py")
        )

    @pytest.mark.parametrize(("old", "new"), [("shift_param", "scale_param"), ("9002", "9001")])
    def test_a_parameter_field_in_two_roots_names_both_operators(self, cli, toy, other, old, new):
        replace_in(other / "generators" / "shift_by.py", old, new)
        cli("schema", *roots_of(toy, other)).expect_error(3, "shift_by", "scale_by")

    @pytest.mark.parametrize("name", ["cases/scale_by.yaml", "prototxt/scale_by/ramp_2.prototxt"])
    def test_a_file_in_two_roots_names_both_places(self, cli, toy, other, name):
        (other / name).parent.mkdir(exist_ok=True)
        shutil.copy(toy / name, other / name)
        cli("run", "scale_by/ramp_2", other / "prototxt", *roots_of(toy, other)).expect_error(
            3, str(toy / name), str(other / name)
        )

    def test_a_case_locked_in_two_roots_names_both_locks(self, cli, run, toy, other):
        lock = Path("prototxt", "scale_by", "baselines.lock")
        (other / lock).parent.mkdir()
        shutil.copy(toy / lock, other / lock)
        result = run("scale_by/ramp_2", *roots_of(toy, other)).expect_code(3)
        reason = result.results["scale_by/ramp_2"]["reason"]
        assert str(toy / lock) in reason
        assert str(other / lock) in reason
        assert cli("generate", "--all", "--root", other).code == 0
        assert run("scale_by/ramp_2", *roots_of(toy, other)).code == 0

    def test_a_root_that_is_none_or_stands_twice(self, cli, toy, tmp_path):
        cli("list", "--root", toy, "--root", toy / "." / "cases" / "..").expect_error(2, "named twice")
        assert cli("list", "--root", tmp_path / "nowhere").code == 2
        cli("list", "--root", "builtin", "--root", tmp_path / "cwd").expect_error(2, "no folder generators/")

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


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, in which settings count."""
    monkeypatch.delenv("MLUOPS_TEST_SETTINGS")
    return tmp_path / "cwd"


def write(folder, text):
    path = folder / "mluops-test.toml"
    path.write_text(text)
    return path


class TestSettings:
    def test_they_are_the_defaults_of_a_run(self, run, here, toy):
        backend = write_failing_backend(here)
        path = write(
            here,
            f'backend = "nothing.py"\nroots = ["builtin", "{toy}"]\ntimeout = 20\njobs = 2\n[labels]\nteam = "a"\n',
        )
        result = run("scale_by/ramp_2", "--label", "night=7").expect_code(1)
        record = json.loads((result.folder / "run.json").read_text())
        assert record["backend"] == backend.name
        assert record["roots"] == ["builtin", str(toy)]
        assert (record["timeout"], record["jobs"]) == (20, 2)
        assert record["settings"] == str(path)
        report = result.report
        assert report["selection"]["roots"] == ["builtin", str(toy)]
        assert report["environment"]["settings"] == str(path)
        assert report["environment"]["content"][1] == str(toy)
        assert (report["labels"]["team"], report["labels"]["night"]) == ("a", "7")
        assert f"Roots: builtin, {toy}; Settings: {path}" in result.lines

    def test_a_run_without_them_says_nothing_of_them(self, run, here):
        result = run(TWIN)
        assert result.report["environment"]["settings"] is None
        assert "Settings" not in result.out
        assert "Roots" not in result.out

    def test_the_command_line_beats_them(self, run, here, toy):
        write(
            here,
            'backend = "nowhere.py"\nroots = ["nowhere"]\njobs = 7\ntimeout = 5\n[labels]\nteam = "a"\nnight = "1"\n',
        )
        typed = ("-b", "reference", "--isolate", "--root", toy, "-j", 1, "--timeout", 30, "--label", "team=b")
        result = run("scale_by/ramp_2", *typed).expect_code(0)
        record = json.loads((result.folder / "run.json").read_text())
        assert (record["backend"], record["roots"], record["jobs"]) == ("reference", [str(toy)], 1)
        assert record["timeout"] == 30
        assert (record["labels"]["team"], record["labels"]["night"]) == ("b", "1")

    @pytest.mark.slow
    def test_those_of_a_folder_above_count_and_their_paths_are_theirs(self, cli, run, here, toy, monkeypatch):
        project = here / "project"
        (project / "deep" / "er").mkdir(parents=True)
        write_failing_backend(project)
        shutil.copytree(toy, project / "mine")
        write(project, 'backend = "nothing.py:backend"\nroots = ["mine"]\n')
        write(here, "this is not read")
        monkeypatch.chdir(project / "deep" / "er")
        result = run("scale_by/ramp_2").expect_code(1)
        repro = shlex.split(result.results["scale_by/ramp_2"]["repro"])
        assert repro == [
            *("mluops-test", "run", "scale_by/ramp_2"),
            *("--root", "../../mine", "--backend", "../../nothing.py:backend"),
        ]
        write(project, 'backend = "numpy"\nroots = ["builtin"]\n')
        assert cli(*repro[1:]).code == 1
        (project / "mluops-test.toml").unlink()
        (here / "mluops-test.toml").unlink()
        assert cli(*repro[1:]).code == 1

    @pytest.mark.slow
    def test_a_repro_line_holds_even_what_the_settings_would_change(self, cli, run, here, toy):
        write_failing_backend(here)
        write(here, f'backend = "nothing.py"\nroots = ["{toy}"]\n')
        result = run(TWIN, "--root", "builtin", "--backend", wrong("AllZero")).expect_code(1)
        repro = shlex.split(result.results[TWIN]["repro"])
        assert repro[3:] == ["--root", "builtin", "--backend", wrong("AllZero")]
        shown = cli("show", TWIN, "--root", "builtin")
        assert shown.lines[-1] == f"repro: mluops-test run {TWIN} --root builtin"

    def test_a_run_is_resumed_as_it_began(self, cli, run, here, toy):
        write(here, f'backend = "reference"\nroots = ["{toy}"]\n')
        folder = run("scale_by/ramp_2").folder
        (folder / "report.json").unlink()
        (folder / "results.jsonl").unlink()
        path = write(here, 'backend = "nowhere.py"\nroots = ["builtin"]\n')
        assert cli("run", "--resume", folder).code == 0
        assert json.loads((folder / "report.json").read_text())["backend"]["spec"] == "reference"
        assert json.loads((folder / "run.json").read_text())["settings"] == str(path)

    @pytest.mark.slow
    def test_what_a_run_cannot_use_is_left_out(self, cli, run, here):
        write(here, "timeout = 20\njobs = 2\n")
        assert run(TWIN, "--backend", "numpy").code == 0
        timed = run(TWIN, "--backend", "reference", "--isolate", "--perf", "--samples", 3).expect_code(0)
        assert json.loads((timed.folder / "run.json").read_text())["jobs"] == 1
        assert run(TWIN, "--backend", "reference", "--isolate", "--devices", "0").code == 0
        assert cli("diff", TWIN, "--backend", "numpy").code == 0
        run(TWIN, "--backend", "numpy", "--timeout", 20).expect_error(2, "--timeout needs worker processes")

    @pytest.mark.slow
    def test_every_command_has_them(self, cli, run, here, toy):
        write(here, f'backend = "numpy"\nroots = ["{toy}"]\ntimeout = 60\njobs = 2\n')
        assert "scale_by/ramp_2" in cli("list", "--format", "ids").lines
        assert "scale_param" in cli("schema").out
        assert cli("generate", "--all", "--check").code == 0
        assert cli("diff", "scale_by/ramp_2").code == 0
        kept = run("scale_by/ramp_2", "--save-outputs", "all").folder
        assert cli("diff", "scale_by/ramp_2", "--from", kept).code == 0
        audited = json.loads(cli("audit", "operators", "--seeds", "0", "--format", "json").out)
        assert audited["operators"] == ["scale_by"]
        write(here, 'backend = "numpy"\n')
        assert cli("doctor", "--op", "voxel_pooling_forward").code == 0

    def test_the_gate_has_its_waivers(self, cli, run, here, toy):
        write_failing_backend(here)
        write(here, f'backend = "nothing.py"\nroots = ["{toy}"]\nwaivers = "known/waivers.yaml"\n')
        failed = run("scale_by/ramp_2").folder
        passed = run("scale_by/ramp_2", "-b", "numpy").folder
        gate = ("gate", failed, "--against", passed, "--cross-backend")
        cli(*gate).expect_error(2, f"The value comes from {here / 'mluops-test.toml'}:3.")
        (here / "known").mkdir()
        (here / "known" / "waivers.yaml").write_text("- pattern: [\n")
        cli(*gate).expect_error(3, "known/waivers.yaml")

    def test_another_file_or_none(self, cli, here, toy, monkeypatch):
        write(here, 'roots = ["nowhere"]\n')
        (here / "ci.toml").write_text(f'roots = ["{toy}"]\n')
        assert "scale_by/ramp_2" in cli("--settings", "ci.toml", "list", "--format", "ids").lines
        assert TWIN in cli("--settings", "none", "list", "--format", "ids").lines
        monkeypatch.setenv("MLUOPS_TEST_SETTINGS", "none")
        assert TWIN in cli("list", "--format", "ids").lines
        monkeypatch.setenv("MLUOPS_TEST_SETTINGS", str(here / "ci.toml"))
        assert "scale_by/ramp_2" in cli("list", "--format", "ids").lines
        cli("--settings", "gone.toml", "list").expect_error(2, "gone.toml: cannot read the settings")

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("jobs = 2\nbakend = 'numpy'\n", ":2", "unknown key 'bakend'. Settings are backend, roots, timeout"),
            ("\njobs = 'many'\n", ":2", "expected an integer, got 'many'"),
            ("timeout = true\n", ":1", "expected a number, got True"),
            ("timeout = nan\n", ":1", "nan is not a number of seconds"),
            ("roots = '../mine'\n", ":1", "expected a list, got '../mine'"),
            ("roots = []\n", ":1", "name at least one root"),
            ("# first\nroots = ['builtin', 3]\n", ":2", "expected a text, got 3"),
            ("jobs = 1\n[labels]\nteam = 3\n", ":2", "labels[...]: expected a text"),
            ("[labels]\n'a b' = 'x'\n", ":1", "a name begins with a letter"),
            ('backend = "a\\u0000b"\n', ":1", "NUL"),
            ("jobs = 2\njobs = 3\n", "", "line 2"),
            ("jobs = \n", "", "not valid TOML: Invalid value (at line 1, column 8)"),
            ("a = " + "[" * 100_000, "", "nested too deeply"),
            (b"# \xff\n", "", "not valid UTF-8"),
        ],
    )
    def test_what_is_wrong_with_them_is_told_with_its_place(self, cli, here, text, line, message):
        path = here / "mluops-test.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        result = cli("list").expect_code(2)
        assert result.err.startswith(f"error: {path}{line}: ")
        assert message in result.err

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("jobs = 0\n", "0 is not in the range"),
            ("timeout = -1\n", "-1.0 is not in the range"),
            ('roots = ["builtin", "nowhere"]\n', "'nowhere' does not exist"),
        ],
    )
    def test_a_value_that_no_option_takes_is_told_with_its_place(self, cli, here, text, message):
        path = write(here, f"# ours\n{text}")
        cli("run", TWIN).expect_error(2, message, f"The value comes from {path}:2.")

    def test_help_and_version_need_none(self, cli, here):
        write(here, "broken")
        assert cli("--help").code == 0
        assert cli("--version").code == 0

    def test_the_reports_name_roots_and_settings(self, cli, run, here, toy):
        path = write(here, f'roots = ["{toy}"]\n')
        folder = run("scale_by/ramp_2").folder
        for form in ("markdown", "html", "text"):
            text = cli("report", folder, "--format", form).out
            assert str(toy) in text, form
            assert str(path) in text, form
        assert "设置文件" in cli("report", folder, "--format", "markdown", "--lang", "zh").out

    @pytest.mark.parametrize("change", [{"settings": 3}, {"content": "builtin"}])
    def test_a_spoiled_report_is_refused(self, cli, run, here, change):
        folder = run(TWIN).folder
        report = json.loads((folder / "report.json").read_text())
        report["environment"] |= change
        (folder / "report.json").write_text(json.dumps(report))
        cli("report", folder).expect_error(3, f"$.environment.{next(iter(change))}: expected")
