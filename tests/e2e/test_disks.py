"""Full disks, limits and folders that vanish: one sentence, exit code 74, nothing finished is lost."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mluops_gtest.base.files import DECLARATIONS
from mluops_gtest.results.folder import read_done
from tests.e2e.conftest import called
from tests.support.disks import command, mount, unmount
from tests.support.reports import GOLDEN
from tests.support.toy_root import write_toy_root

pytestmark = pytest.mark.slow

# Passed cases take about 1.3 KB a line; the run description of the operator below about 7 KB.
ROOMY = 24_000
CASES = ("--op", "voxel_pooling_forward", "-k", "not network")


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of its own that a test fills; the size in kilobytes is given by the call."""
    mounted = []

    def make(kilobytes):
        folder = tmp_path / "disk"
        folder.mkdir()
        if not mount(folder, kilobytes):
            pytest.skip("this user may not mount a file system")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        unmount(folder)


MANY = 60
TALKS = """
from mluops_gtest import Status


class Talks:
    name = "talks"

    def run(self, call):
        print("x" * 10_000)
        call.outputs["y"].array[...] = call.inputs["x"].array * call.params["factor"]
        return Status.SUCCESS
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A root with many small cases."""
    cases = "- name: ramp_{n}\n  tags: [random]\n  doc: d\n  each: {n: {from: 2, to: 61}}\n"
    root = write_toy_root(tmp_path_factory.mktemp("many") / "root", cases + '  data: {recipe: ramp, count: "{n}"}\n')
    called("generate", "--all", "--root", root).expect_code(0)
    return root


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


def sentence(done):
    """The one line on stderr of a command that could not write."""
    assert done.returncode == 74, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def outcomes(folder):
    """Case → outcome of a run."""
    return {r["case"]: r["outcome"] for r in json.loads((folder / "report.json").read_text())["results"]}


@pytest.fixture(scope="module")
def undisturbed(run_once):
    """The outcomes of the run that nothing stops."""
    return outcomes(run_once(*CASES))


def test_a_file_that_may_not_grow_ends_the_run_and_resume_completes_it(cli, undisturbed, tmp_path):
    out = tmp_path / "results"
    stopped = command("run", *CASES, "--out", out, most_bytes=ROOMY)
    told = sentence(stopped)
    assert f"{out / 'results.jsonl'}: cannot be written: File too large." in told
    assert f"`mluops-test run --resume {out}` runs the rest" in told
    done = read_done(out)
    assert 0 < len(done) < len(undisturbed)
    assert f"The results of {len(done)} cases are kept there" in told
    assert (out / "results.jsonl").read_bytes().endswith(b"\n"), "half a line was left"
    assert leftovers(out) == []
    cli("run", "--resume", out).expect_code(0)
    assert outcomes(out) == undisturbed


def test_a_full_disk_ends_the_run_and_resume_completes_it(cli, undisturbed, small_disk, tmp_path):
    disk = small_disk(48)
    stopped = command("run", *CASES, "--out", disk / "results")
    assert "No space left on device" in sentence(stopped)
    assert 0 < len(read_done(disk / "results")) < len(undisturbed)
    assert leftovers(disk) == []
    still = command("run", "--resume", disk / "results")
    assert still.returncode == 74, "there is still no room"
    shutil.copytree(disk / "results", tmp_path / "roomy")
    assert cli("run", "--resume", tmp_path / "roomy").code == 0
    assert outcomes(tmp_path / "roomy") == undisturbed


def test_a_report_that_does_not_fit_is_told_and_written_by_resume(cli, tmp_path):
    few = ("--op", "voxel_pooling_forward", "--tag", "smoke")
    whole = command("run", *few, "--out", tmp_path / "whole")
    # Seconds may have a digit more the next time.
    most = 64 + max((tmp_path / "whole" / name).stat().st_size for name in ("run.json", "results.jsonl"))
    assert (tmp_path / "whole" / "report.json").stat().st_size > most
    out = tmp_path / "results"
    stopped = command("run", *few, "--out", out, most_bytes=most)
    told = sentence(stopped)
    assert f"{out / 'report.json'}: cannot be written" in told
    assert "The results of 2 cases are kept there" in told
    assert "2 passed" in stopped.stdout, "what was found is still told"
    assert "2 passed" in whole.stdout
    assert sorted(os.listdir(out)) == ["results.jsonl", "run.json"]
    lines = (out / "results.jsonl").read_bytes()
    assert cli("run", "--resume", out).code == 0
    assert (out / "results.jsonl").read_bytes() == lines, "nothing had to run again"
    assert (out / "report.json").exists()


@pytest.mark.parametrize("file", ["run.json", "results.jsonl"])
def test_a_run_that_cannot_even_begin(tmp_path, file):
    stopped = command("run", *CASES, "--out", tmp_path / "out", most_bytes=100 if file == "run.json" else ROOMY // 2)
    assert "cannot be written: File too large" in sentence(stopped)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_workers_end_with_a_run_that_stops(cli, many, tmp_path, jobs):
    import psutil

    out = tmp_path / "results"
    # Shared memory counts as a file for the system, so that the limit must leave room for the tensors.
    (tmp_path / "kernels.py").write_text(TALKS)
    words = ["run", "--root", many, "-b", f"{tmp_path / 'kernels.py'}:Talks", "-j", jobs, "--out", out]
    stopped = command(*words, most_bytes=1 << 18)
    assert "File too large" in sentence(stopped)
    assert 0 < len(read_done(out)) < MANY
    ours = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or ())]
    assert ours == []
    cli("run", "--resume", out).expect_code(0)
    assert len(outcomes(out)) == MANY


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--format", "json"],
        ["ops", "--format", "json"],
        ["show", "voxel_pooling_forward/bevdepth_twin"],
        ["ops"],
        ["backends"],
        ["report", GOLDEN / "report.json", "--format", "html"],
        ["compare", GOLDEN / "report.json", GOLDEN / "report.json"],
    ],
)
def test_a_full_stdout_is_told_in_one_sentence(arguments, tmp_path):
    with Path("/dev/full").open("w") as full:
        told = command(*arguments, stdout=full, cwd=tmp_path)
    expected = "standard output: cannot be written: No space left on device."
    if "json" not in arguments:
        assert sentence(told) == f"error: {expected}"
    else:
        error = json.loads(told.stderr)
        assert (error["error"], error["exit_code"], told.returncode) == (expected, 74, 74)


def test_a_run_with_a_full_stdout_has_all_its_results(undisturbed, tmp_path):
    with Path("/dev/full").open("w") as full:
        told = command("run", *CASES, "-v", "--out", tmp_path / "results", stdout=full)
    assert "standard output: cannot be written" in sentence(told)
    assert outcomes(tmp_path / "results") == undisturbed


def test_a_full_stderr_changes_nothing(tmp_path):
    with Path("/dev/full").open("w") as full:
        told = command("run", "no_such/case", "--out", tmp_path / "results", stderr=full)
    assert (told.returncode, told.stdout) == (5, "")


def test_a_closed_stdout_is_nobody_who_reads(tmp_path):
    line = f"exec '{sys.executable}' -m mluops_gtest list --tag smoke >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_that_write_one_file(run, tmp_path):
    report = run("--op", "voxel_pooling_forward", "--tag", "smoke").folder
    before = "kept"
    for name, arguments in {
        "page.html": ["report", report, "--format", "html", "-o", "page.html"],
        "baseline.json": ["gate", report, "--against", "baseline.json", "--update"],
        "results.jsonl": ["merge", report, "--out", "merged"],
        "mine.py": ["new", "backend", "mine", "--force"],
        "host.yaml": ["device-spec", "--measure", "-o", "host.yaml"],
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        if name in ("page.html", "mine.py", "host.yaml"):
            (folder / name).write_text(before)
        done = command(*arguments, cwd=folder, most_bytes=50)
        path = "merged/results.jsonl" if name == "results.jsonl" else name
        assert f"{path}: cannot be written: File too large." in sentence(done)
        assert leftovers(folder) == []
        assert {path.read_text() for path in folder.rglob("*") if path.is_file()} <= {before}


def test_generate_keeps_and_locks_what_it_wrote(cli, tmp_path, small_disk):
    disk = small_disk(96)
    wanted = ("--op", "voxel_pooling_forward", "--tag", "boundary")
    for jobs in ("1", "2"):
        out = disk / f"jobs{jobs}"
        done = command("generate", *wanted, "--out", out, "-j", jobs)
        assert "cannot be written: No space left on device." in sentence(done)
        assert leftovers(disk) == []
        shutil.rmtree(out)
    roomy = command("generate", *wanted, "--out", tmp_path / "roomy", most_bytes=20_000)
    assert "cases are left" in sentence(roomy)
    (lock,) = (tmp_path / "roomy").rglob("baselines.lock")
    locked = [json.loads(line)["id"] for line in lock.read_text().splitlines()]
    written = [
        p.relative_to(tmp_path / "roomy").with_suffix("").as_posix() for p in (tmp_path / "roomy").rglob("*.pr*")
    ]
    assert sorted(locked) == sorted(written) != []
    assert cli("generate", *wanted, "--out", tmp_path / "roomy").code == 0


def test_convert_keeps_what_it_wrote(tmp_path):
    source = Path(__file__).parents[2] / "prototxt" / "voxel_pooling_forward"
    done = command("convert", source, tmp_path / "binary", most_bytes=8_000)
    assert "cannot be written: File too large." in sentence(done)
    kept = list((tmp_path / "binary").rglob("*.pb"))
    assert kept
    assert leftovers(tmp_path) == []
    assert command("show", kept[0]).returncode == 0


def test_a_history_on_a_full_disk(tmp_path, small_disk):
    disk = small_disk(64)
    (disk / "filler").write_bytes(b"x" * 40_000)
    done = command("history", "add", GOLDEN / "report.json", "--db", disk / "history.sqlite")
    assert f"{disk / 'history.sqlite'}: cannot be written: " in sentence(done)
    limited = command("history", "add", GOLDEN / "report.json", "--db", tmp_path / "h.sqlite", most_bytes=5_000)
    assert f"{tmp_path / 'h.sqlite'}: cannot be written: " in sentence(limited)


def test_a_link_stays_and_a_device_is_never_replaced(cli, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    (tmp_path / "real.json").write_text("old")
    assert cli("report", GOLDEN / "report.json", "--format", "json", "-o", tmp_path / "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["format"] == 1
    cli("report", GOLDEN / "report.json", "--format", "json", "-o", "/dev/full").expect_error(
        74, "/dev/full: cannot be written: No space left on device."
    )
    assert Path("/dev/full").is_char_device()


def test_a_name_as_long_as_the_disk_allows(cli, tmp_path):
    path = tmp_path / ("x" * 250 + ".json")
    assert cli("report", GOLDEN / "report.json", "--format", "json", "-o", path).code == 0
    assert path.exists()


@pytest.mark.parametrize("options", [(), ("--reseed", "7")])
def test_a_cache_on_a_full_disk_costs_only_a_note(run, toy, small_disk, monkeypatch, options):
    disk = small_disk(64)
    monkeypatch.setenv("MLUOPS_TEST_CACHE", str(disk))
    result = run("--root", toy, "--tag", "network", *options).expect_code(0)
    (note,) = result.results["scale_by/big"]["notes"]
    assert "could not be cached" in note
    assert "No space left on device" in note
    # What the declarations expand to is small enough to fit.
    left = {path.relative_to(disk).parts[0] for path in disk.rglob("*") if path.is_file()}
    assert left <= {DECLARATIONS}


@pytest.mark.parametrize("mib", [48, 100, 150, 300])
def test_an_address_limit_that_leaves_no_room_ends_in_a_sentence(tmp_path, mib):
    """Below some 140 MiB numpy does not load: of its libraries one raises, another one ends the process."""
    limit = (mib << 20, mib << 20)
    done = subprocess.run(
        [sys.executable, "-m", "mluops_gtest", "run", "ball_query/nothing_missing_ok", "--out", tmp_path / "r", "-q"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True,
        text=True,
        # Each thread takes some: the same everywhere.
        env={**os.environ, "MLUOPS_TEST_CACHE": str(tmp_path / "cache"), "OPENBLAS_NUM_THREADS": "2"},
    )
    # Of a larger one so much may be left that only the case does not fit.
    assert done.returncode == 74 or (mib > 200 and done.returncode == 3), done.stderr
    assert len((done.stderr or done.stdout).splitlines()) in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
