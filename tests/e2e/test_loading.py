"""Whatever goes wrong while one case is loaded is that case's outcome; the run goes on."""

import errno
import re

import pytest

from mluops_gtest.catalog.source import StoredCases

LONG = "x" * 5000
OTHERS = ("scale_by/ramp_2", "scale_by/ramp_4")


@pytest.fixture
def failing(monkeypatch):
    """Let the loading of one case raise."""

    def arrange(error, case="scale_by/ramp_3"):
        load = StoredCases._load

        def fail(self, selected):
            if selected.id == case:
                raise error
            return load(self, selected)

        monkeypatch.setattr(StoredCases, "_load", fail)

    return arrange


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (KeyError("nobody thought of that"), 70, "a bug of mluops-test: KeyError"),
        (RecursionError("maximum recursion depth exceeded"), 70, "a bug of mluops-test: RecursionError"),
        (MemoryError(), 3, "does not fit into memory"),
        (OSError(errno.EIO, "Input/output error"), 3, "cannot be read: Input/output error"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--isolate", "-j", "2")])
def test_the_run_goes_on_and_the_exit_code_says_so(run, toy, failing, error, code, reason, options):
    failing(error)
    result = run("--root", toy, *options).expect_code(code)
    broken = result.results["scale_by/ramp_3"]
    assert (broken["outcome"], broken["bug"], broken["content_error"]) == ("error", code == 70, code == 3)
    assert reason in broken["reason"]
    assert broken["fingerprint"]
    if code == 70:
        assert "Traceback" in broken["notes"][0]
        assert type(error).__name__ in result.out
    assert {result.results[case]["outcome"] for case in OTHERS} == {"passed"}


def test_a_bug_outweighs_a_full_disk(toy, failing, cli, monkeypatch, tmp_path):
    from mluops_gtest.base.errors import UnwritableError
    from mluops_gtest.results.writer import ResultFiles

    def full(self, report, cases):
        raise UnwritableError("report.json: cannot be written: No space left on device.")

    failing(KeyError("nobody thought of that"))
    monkeypatch.setattr(ResultFiles, "write_report", full)
    cli("run", "--root", toy, "--out", tmp_path / "out").expect_error(70, "No space left on device")
    assert cli("run", "--root", toy, *OTHERS, "--out", tmp_path / "others").code == 74


def test_bench_goes_on_too(cli, toy, failing):
    failing(KeyError("nobody thought of that"))
    ids = [f"scale_by/ramp_{n}" for n in (2, 3)]
    cli(
        "bench", *ids, "--root", toy, "-b", "numpy", "-b", "reference", "--samples", "2", "--warmup", "0"
    ).expect_output(70, "scale_by/ramp_3: error on 1: a bug of mluops-test", "scale_by/ramp_2")


@pytest.mark.parametrize("command", ["run", "list", "show", "verify", "generate"])
def test_a_word_that_can_be_no_file_selects_nothing(cli, command):
    result = cli(command, LONG).expect_error(5, "is not a case id")
    assert len(result.err) < 1000
    assert cli(command, f"{LONG}/{LONG}/*.pb").code == 5


def test_a_case_that_names_a_file_of_5000_characters(run, toy, tmp_path):
    text = (toy / "prototxt" / "scale_by" / "ramp_3.prototxt").read_text()
    without = re.sub(r"( *value_h: .*\n)+", f'  path: "{LONG}"\n', text, count=1)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "long.prototxt").write_text(without)
    (tmp_path / "cases" / "right.prototxt").write_text(text)
    result = run(tmp_path / "cases", "--root", toy).expect_code(3)
    outcomes = {case.rpartition("/")[2]: r["outcome"] for case, r in result.results.items()}
    assert outcomes == {"long.prototxt": "error", "right.prototxt": "passed"}
    (broken,) = [r for r in result.results.values() if r["outcome"] == "error"]
    assert "is not the name of a file: File name too long" in broken["reason"]
    assert len(broken["reason"]) < 1000


def test_a_loop_of_links_is_one_broken_case(run, toy, tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "loop.prototxt").symlink_to(tmp_path / "cases" / "loop.prototxt")
    (tmp_path / "cases" / "right.prototxt").write_text((toy / "prototxt" / "scale_by" / "ramp_3.prototxt").read_text())
    for options in ((), ("--shard", "1/1")):
        result = run(tmp_path / "cases", "--root", toy, *options).expect_code(3)
        assert sorted(r["outcome"] for r in result.results.values()) == ["error", "passed"]
