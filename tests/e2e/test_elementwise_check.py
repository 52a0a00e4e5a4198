"""Elements that the documents' criteria let pass: seen, told, and failed where that is asked."""

import json
from functools import cache, partial

import pytest

from tests.e2e.conftest import wrong

# 131 074 sums: one that is wrong by half stays below diff1 and diff2 of 3e-3.
LARGE = "voxel_pooling_forward/channels_65537"


@pytest.fixture
def one_off(run):
    def call(*options):
        return run(LARGE, "--backend", wrong("OneElementOfManyOff"), *options)

    return call


@pytest.mark.slow
def test_it_passes_and_is_told(one_off):
    result = one_off().expect_code(0)
    case = result.results[LARGE]
    assert case["outcome"] == "passed"
    (seen,) = case["elements"]
    assert (seen["output"], seen["precision"], seen["beyond"]) == ("output_features", "float", 1)
    assert float(seen["evaluated"]) == pytest.approx(1.5 * float(seen["baseline"]))
    told = "output_features: 1 element is further off than any order of float operations explains"
    assert told in case["notes"]
    assert "beyond 1 case passed with 1 element that no order of float operations explains, the worst in " in result.out
    assert "--elementwise fails such cases" in result.out


@pytest.mark.slow
def test_asked_for_it_fails(one_off):
    result = one_off("--elementwise").expect_code(1)
    case = result.results[LARGE]
    assert case["outcome"] == "failed"
    assert case["reason"].endswith("1 element is further off than any order of float operations explains")
    assert case["repro"].endswith("--elementwise")
    assert [cause["kind"] for cause in case["causes"]] == ["beyond_bound"]


@pytest.mark.slow
def test_nobody_looks_where_that_is_asked(one_off):
    result = one_off("--no-elementwise").expect_code(0)
    assert "elements" not in result.results[LARGE]
    assert "beyond" not in result.out


def test_a_right_backend_has_none(run):
    result = run("voxel_pooling_forward", "--tag", "smoke", "--tag", "precision", "--elementwise").expect_code(0)
    seen = [one for case in result.results.values() for one in case.get("elements", [])]
    assert seen
    assert all(one["beyond"] == 0 and one["ratio"] <= 1 for one in seen)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["--isolate", "--no-isolate"])
def test_a_backend_is_held_to_the_precision_that_it_declares(run, isolation):
    result = run(
        "voxel_pooling_forward/bevdepth_twin", "--backend", wrong("SumsInHalf"), isolation, "--elementwise"
    ).expect_code(0)
    (seen,) = result.results["voxel_pooling_forward/bevdepth_twin"]["elements"]
    assert seen["precision"] == "half"
    assert 0 < seen["ratio"] <= 1


class TestHalf:
    """Kernels that compute half data in half, as released ones do."""

    HALF = "three_interpolate_forward/precision_full_half"
    FLOAT = "three_interpolate_forward/precision_full_float"

    def test_what_half_arithmetic_gives_is_no_outlier(self, run):
        result = run(self.HALF, "--backend", wrong("HalfInHalf"), "--elementwise").expect_code(0)
        (seen,) = result.results[self.HALF]["elements"]
        assert (seen["precision"], seen["beyond"]) == ("half", 0)
        assert 0 < seen["as_half"] < seen["compared"]
        assert 0 < seen["ratio"] <= 1
        assert f"output: {seen['as_half']} elements as half arithmetic gives" in result.results[self.HALF]["notes"]
        assert "beyond" not in result.out

    def test_a_lost_term_is_an_outlier_that_fails_where_that_is_asked(self, run):
        run(self.HALF, "--backend", wrong("HalfInHalfTermLost")).expect_output(
            0, "1 case passed with 1 element that no order of half operations explains"
        )
        result = run(self.HALF, "--backend", wrong("HalfInHalfTermLost"), "--elementwise").expect_code(1)
        case = result.results[self.HALF]
        assert case["reason"].endswith("output: 1 element is further off than any order of half operations explains")
        (seen,) = case["elements"]
        assert (seen["beyond"], seen["precision"]) == (1, "half")
        assert seen["as_half"] > 0

    @pytest.mark.parametrize("isolation", ["--isolate", "--no-isolate"])
    def test_half_declared_of_half_data_does_not_blind_the_look_at_float_data(self, run, isolation):
        result = run(self.HALF, self.FLOAT, "--backend", wrong("HalfOnAllData"), isolation)
        (half,), (single,) = (result.results[case]["elements"] for case in (self.HALF, self.FLOAT))
        assert (half["precision"], half["beyond"], half.get("as_half", 0)) == ("half", 0, 0)
        assert single["precision"] == "float"
        assert single["beyond"] > 0

    def test_half_data_declared_as_computed_in_float_are_held_to_it(self, run):
        result = run(self.HALF, "--backend", wrong("HalfDeclaredFloat"), "--elementwise").expect_code(1)
        (seen,) = result.results[self.HALF]["elements"]
        assert (seen["precision"], seen.get("as_half", 0)) == ("float", 0)
        assert seen["beyond"] > 0

    def test_a_reading_that_cannot_be_is_refused(self, cli, run):
        path = run(self.HALF, "--backend", wrong("HalfInHalfTermLost")).folder / "report.json"
        report = json.loads(path.read_text())
        (reading,) = report["results"][0]["elements"]
        for change, message in (
            ({"beyond": -1}, "beyond: expected an integer >= 0, got -1"),
            ({"beyond": 10**9}, "more elements are beyond than there are"),
            ({"as_half": 10**9}, "more elements are beyond than there are"),
            ({"precision": "fp8"}, "is not a precision"),
            ({"ratio": 0.5}, "0.5 with 1 beyond"),
            ({"ratio": "nan"}, "ratio and allowed must be ≥ 0"),
        ):
            report["results"][0]["elements"] = [reading | change]
            path.write_text(json.dumps(report))
            cli("report", path, "--format", "text").expect_error(3, message)


@pytest.fixture(scope="module")
def results(run_once):
    """The results of a backend with options, run once."""
    return cache(lambda backend, *options: run_once(LARGE, "--backend", wrong(backend), *options))


class TestGate:
    """A case that had no such element and has some now."""

    @pytest.fixture
    def before(self):
        """The backend of the run that is compared with, and its options."""
        return ["Exact"]

    @pytest.fixture
    def gate(self, cli, results, tmp_path, before, form):
        old = results(*before)
        if form == "baseline":
            written = tmp_path / "baseline.json"
            assert cli("gate", old, "--against", written, "--update", "--cross-backend").code == 0
            old = written
        return partial(cli, "gate", results("OneElementOfManyOff"), "--against", old, "--cross-backend")

    @pytest.mark.slow
    @pytest.mark.parametrize("form", ["report", "baseline"])
    def test_it_blocks_unless_it_is_let_through(self, gate, form):
        gate().expect_output(
            1,
            "new outliers: voxel_pooling_forward, 1 case",
            f"{LARGE}: output_features[",
            "blocked: 1 case with outliers",
        )
        gate("--allow-outliers").expect_output(0, "outliers: voxel_pooling_forward, 1 case")
        decision = json.loads(gate("--format", "json").out)
        assert decision["blocking_outliers"] == [LARGE]
        (case,) = decision["cases"]
        assert (case["outliers"], case["outliers_before"]) == (1, 0)

    @pytest.mark.slow
    @pytest.mark.parametrize("form", ["report", "baseline"])
    @pytest.mark.parametrize("before", [["Exact", "--no-elementwise"], ["OneElementOfManyOff"]])
    def test_a_baseline_whose_run_did_not_look_or_had_some_already_blocks_nothing(self, gate):
        assert gate().code == 0
