"""`run --perf`, `device-spec` and `bench`: times come from the backends' own story, never from this machine."""

import pytest

from tests.e2e.conftest import backends_in, replace_in, wrong

ONE = "masked_im2col_forward/retinanet_3x3_twin_float"
REFUSED = "masked_im2col_forward/feature_desc_null"
INLINE = "--no-isolate"
clocked = backends_in("clocked_backends")


@pytest.fixture
def spec(tmp_path):
    """A device on which 100 µs are neither nothing nor everything."""
    path = tmp_path / "device.yaml"
    path.write_text("name: toy-device\nbandwidth_bytes_per_s: 1e9\npeak_ops_per_s: 1e12\n")
    return path


@pytest.mark.parametrize("where", ["--isolate", "--no-isolate"])
def test_a_case_is_timed_and_judged(run, where):
    result = run(ONE, REFUSED, "--backend", clocked("Clocked"), "--perf", where).expect_code(0)
    perf = result.results[ONE]["perf"]
    assert len(perf["samples_ns"]) == len(perf["device_samples_ns"]) == 10
    assert all(ns > 0 for ns in perf["samples_ns"])
    assert set(perf["device_samples_ns"]) == {100_000, 100_400, 99_700, 100_200, 99_900}
    assert perf["workspace_bytes"] == 0
    assert result.results[ONE]["readings"]
    # A refused call computes nothing that could be timed.
    assert result.results[REFUSED]["perf"] is None
    assert result.results[REFUSED]["outcome"] == "passed"
    assert result.report["environment"]["perf"] == {"warmup": 3, "samples": "auto", "cold_cache": False}


@pytest.mark.slow
def test_the_numbers_of_calls_are_as_asked(run):
    for extra in ((), ("--cold-cache",)):
        result = run(ONE, "--backend", clocked("Clocked"), "--perf", "--warmup", 0, "--samples", 7, INLINE, *extra)
        assert len(result.results[ONE]["perf"]["samples_ns"]) == 7


def test_the_workspace_is_told_and_without_a_description_of_the_device_there_is_no_efficiency(run):
    result = run(ONE, "--backend", clocked("AsksForWorkspace"), "--perf", "--samples", 5, INLINE)
    assert result.results[ONE]["perf"]["workspace_bytes"] == 4096
    assert "io_eff" not in result.out
    assert "--device-spec" in result.out


@pytest.mark.slow
@pytest.mark.parametrize("where", ["--isolate", "--no-isolate"])
def test_what_an_empty_call_takes_is_measured(run, where):
    def overhead(backend, *more):
        result = run(ONE, "--backend", clocked(backend), "--perf", "--samples", 5, where, *more)
        assert (result.code, result.results[ONE]["outcome"]) == (0, "passed")
        return result.results[ONE]["perf"].get("overhead_ns")

    assert overhead("Clocked") >= 0
    assert overhead("LongWay") >= 50_000_000
    assert overhead("LostOnTheWay") is None


def test_a_share_of_the_device_is_not_blamed_on_a_call_that_is_mostly_overhead(run, spec):
    result = run(ONE, "--backend", clocked("LongWay"), "--perf", "--samples", 5, INLINE, "--device-spec", spec)
    (row,) = (line for line in result.lines if line.startswith(ONE))
    assert row.endswith("too short to judge")


def test_a_backend_without_device_time_has_interface_times(run):
    result = run(ONE, "--perf", "--samples", 6)
    perf = result.results[ONE]["perf"]
    assert len(perf["samples_ns"]) == 6
    assert perf["device_samples_ns"] == []
    (row,) = (line for line in result.lines if line.startswith(ONE))
    assert row.split()[1] == "interface"


def test_the_table_says_how_long_how_sure_and_how_well(run, spec):
    result = run(ONE, "--backend", clocked("Clocked"), "--perf", "--samples", 10, "--device-spec", spec, INLINE)
    head, row = (next(line for line in result.lines if line.startswith(start)) for start in ("case ", ONE))
    for word in ("median", "interval", "MAD", "cv", "samples", "io_eff", "compute_eff", "bottleneck", "verdict"):
        assert word in head
    assert row.split()[1] == "device"
    assert "100 µs" in row
    one = result.results[ONE]
    share = one["info"]["theory_io_bytes"] / 100e-6 / 1e9
    assert f"{share * 100:.3g}%" in row
    assert "below 30%" in row
    assert result.report["environment"]["device"] == {"name": "toy-device", "bandwidth": 1e9, "peak": 1e12}

    spec.write_text("name: slow\nbandwidth_bytes_per_s: 1.0e+8\npeak_ops_per_s: 1.0e+12\n")
    result = run(ONE, "--backend", clocked("Clocked"), "--perf", "--samples", 10, "--device-spec", spec, INLINE)
    (row,) = (line for line in result.lines if line.startswith(ONE))
    assert row.rstrip().endswith("accepted")


@pytest.mark.parametrize(
    ("backend", "outcome", "words"),
    [
        ("SpoilsTheFourthCall", "failed", "diff3"),
        ("DoesTheWorkOnce", "failed", "never written"),
        ("ChangesAnInputLater", "memory", "changed the input"),
        ("DiesWhenTimed", "crashed", "MemoryError: leaked"),
        ("TellsNonsenseLater", "error", "device_seconds() returned nan"),
    ],
)
def test_what_goes_wrong_only_when_timed_is_seen(run, backend, outcome, words):
    assert run(ONE, "--backend", clocked(backend), INLINE).code == 0
    result = run(ONE, "--backend", clocked(backend), "--perf", "--samples", 6, INLINE)
    one = result.results[ONE]
    assert (one["outcome"], result.code) == (outcome, 1)
    assert "timed calls: " in one["reason"]
    assert words in one["reason"]
    assert one["perf"] is None
    assert one["fingerprint"].startswith("v1:")
    assert "--perf" in one["repro"]


@pytest.mark.slow
def test_the_fingerprint_does_not_depend_on_when_it_was_seen(run):
    plain = run(ONE, "--backend", wrong("OneElementWrong")).results[ONE]
    timed = run(ONE, "--backend", wrong("OneElementWrong"), "--perf").results[ONE]
    assert plain["fingerprint"] == timed["fingerprint"]
    assert timed["perf"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--samples", "9"], "add --perf"),
        (["--warmup", "1"], "add --perf"),
        (["--cold-cache"], "add --perf"),
        (["--perf", "--samples", "many"], "neither auto nor a number"),
        (["--perf", "--samples", "0"], "neither auto nor a number"),
        (["--perf", "--isolate", "-j", "2"], "leave out -j"),
        (["--perf", "--device-spec", "nowhere.yaml"], "does not exist"),
    ],
)
def test_wrong_usage(cli, arguments, words):
    cli("run", ONE, *arguments).expect_error(2, words)


def test_a_wrong_description_is_told_before_anything_runs(run, spec):
    spec.write_text("name: x\nbandwidth_bytes_per_s: fast\npeak_ops_per_s: 1\n")
    result = run(ONE, "--perf", "--device-spec", spec).expect_error(3, "device.yaml:2: bandwidth_bytes_per_s is 'fast'")
    assert result.report is None


class TestDeviceSpec:
    def test_a_measured_machine_can_be_read_again(self, cli, tmp_path, monkeypatch):
        monkeypatch.setattr("mluops_gtest.results.statistics.measure_bandwidth", lambda: 2.5e10)
        monkeypatch.setattr("mluops_gtest.results.statistics.measure_peak", lambda: 7.5e10)
        path = tmp_path / "host.yaml"
        assert cli("device-spec", "--measure", "-o", path).code == 0
        cli("device-spec", path).expect_output(
            0, "host", "2.5e+10 bytes/s", "7.5e+10 operations/s", "3 operations per byte"
        )
        assert cli("device-spec", "--measure").out == path.read_text()

    def test_several_peaks_are_shown_by_type(self, cli, spec):
        spec.write_text("name: x\nbandwidth_bytes_per_s: 1e9\npeak_ops_per_s: {float: 2e9, half: 4e9}\n")
        assert "4e+09 operations/s (half)" in cli("device-spec", spec).out

    @pytest.mark.parametrize("arguments", [[], ["device.yaml", "--measure"], ["device.yaml", "-o", "x"]])
    def test_wrong_usage(self, cli, spec, monkeypatch, arguments):
        monkeypatch.chdir(spec.parent)
        assert cli("device-spec", *arguments).code == 2


class TestBench:
    def bench(self, cli, first, second, *arguments):
        return cli("bench", ONE, "-b", clocked(first), "-b", clocked(second), *arguments)

    @pytest.mark.parametrize(
        ("first", "second", "samples", "answer", "remark"),
        [
            ("Clocked", "Twin", 20, "inconclusive", "they differ by less than 5%"),
            ("Clocked", "TenPercentSlower", 20, "slower", ""),
            ("Clocked", "TwiceAsFast", 20, "faster", ""),
            ("Clocked", "TwiceAsFast", 3, "inconclusive", "at least 5 samples"),
            ("Clocked", "Noisy", 20, "inconclusive", "samples would tell"),
            ("LongWay", "LongWay", 6, "too short to judge", "use a larger case, or device_seconds()"),
            ("LongWay", "Clocked", 6, "too short to judge", "use a larger case, or device_seconds()"),
        ],
    )
    def test_each_answer(self, cli, first, second, samples, answer, remark):
        result = self.bench(cli, first, second, "--samples", samples, INLINE).expect_code(0)
        (row,) = (line for line in result.lines if line.startswith(ONE))
        assert f" {answer} " in f"{row} "
        assert remark in row
        assert result.lines[-1].endswith(f": 1 {answer}")

    @pytest.mark.slow
    def test_in_worker_processes_too(self, cli):
        result = self.bench(cli, "Clocked", "TenPercentSlower", "--samples", 8)
        assert "1 slower" in result.out

    @pytest.mark.slow
    def test_wrong_results_are_not_compared(self, cli):
        cli("bench", ONE, "-b", "numpy", "-b", wrong("AllZero"), "--samples", 5).expect_output(
            1, "failed on 2: data_col: diff3", "1 not compared"
        )

    def test_wrong_results_while_timed_are_not_compared(self, cli):
        self.bench(cli, "SpoilsTheFourthCall", "Clocked", "--samples", 9, INLINE).expect_output(1, "failed on 1: after")

    def test_a_call_that_computes_nothing_has_no_times(self, cli):
        cli("bench", REFUSED, "-b", "numpy", "-b", "reference").expect_output(5, "computes nothing")

    def test_a_broken_case_is_broken_content(self, cli, toy):
        replace_in(toy / "prototxt" / "scale_by" / "ramp_2.prototxt", '"3f800000"', '"3f800001"')
        ids = ("scale_by/ramp_2", "scale_by/ramp_3")
        result = cli("bench", *ids, "--root", toy, "-b", "numpy", "-b", "reference", "--samples", 5).expect_output(
            3, "differs from the lock"
        )
        assert any(line.startswith("scale_by/ramp_3") for line in result.lines)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([ONE, "-b", "numpy"], "got 1"),
            ([ONE, "-b", "numpy", "-b", "numpy", "-b", "numpy"], "got 3"),
            (["-b", "numpy", "-b", "reference"], "choose cases"),
        ],
    )
    def test_wrong_usage(self, cli, arguments, words):
        cli("bench", *arguments).expect_error(2, words)
