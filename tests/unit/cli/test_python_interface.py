"""`import mluops_gtest as mt`: the same engine and the same verdicts as the command line, without click and rich."""

import inspect
import json
import re
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import mluops_gtest as mt
from mluops_gtest.base.errors import NothingSelectedError, UsageError
from mluops_gtest.cli.main import cli as commands
from mluops_gtest.core.case import Query
from mluops_gtest.running.options import OPTIONS

TWIN = "voxel_pooling_forward/bevdepth_twin"
NEGATIVE = "voxel_pooling_forward/handle_null"
RESULT = "get_indice_pairs"


class Scaled(mt.NumpyBackend):
    """The last channel is 1 % too large."""

    name = "scaled"

    def run(self, call):
        status = super().run(call)
        if status == mt.Status.SUCCESS:
            call.array("output_features")[..., -1] *= 1.01
        return status


@pytest.fixture
def kernels(tmp_path):
    """A file with a backend that is right."""
    file = tmp_path / "kernels.py"
    file.write_text("import mluops_gtest as mt\n\nbackend = mt.NumpyBackend()\n")
    return file


@pytest.fixture(scope="module")
def twin():
    (case,) = mt.cases(TWIN)
    return case


@pytest.fixture(scope="module")
def scaled_report():
    return mt.run("voxel_pooling_forward", tags=["smoke"], backend=Scaled())


# What programs rely on: a change here is a change for them, and belongs into the changelog.
SIGNATURES = {
    "cases": "(*select: str, operators: Sequence[str] = (), tags: Sequence[str] = (), keyword: str = '', "
    "everything: bool = False, roots: Sequence[str] = ('builtin',)) -> list[CaseHandle]",
    "compare": "(got: Any, expected: Any, criteria: Mapping[str, float] | Sequence[Criterion], *, "
    "dtype: str | None = None) -> ArrayVerdict",
    "decide": "(results: RunReport | str | Path, against: RunReport | str | Path, *, "
    "waivers: str | Path | None = None, subset: bool = False, cross_backend: bool = False, "
    "strict_accuracy: bool = False, strict_perf: bool = False, allow_outliers: bool = False, "
    "require_coverage: str | None = None, require_isolated: bool = False) -> Decision",
    "generate_cases": "(*select: str, out: str | Path | None = None, form: Literal['prototxt', 'pb'] = 'prototxt', "
    "check: bool = False, jobs: int = 1, operators: Sequence[str] = (), tags: Sequence[str] = (), keyword: str = '', "
    "everything: bool = False, roots: Sequence[str] = ('builtin',)) -> list[str]",
    "reference": "(call: OpCall, *, roots: Sequence[str] = ('builtin',)) -> Baseline",
    "run": "(*select: str, backend: str | Backend = 'numpy', operators: Sequence[str] = (), tags: Sequence[str] = (), "
    "keyword: str = '', everything: bool = False, roots: Sequence[str] = ('builtin',), runtime: str | None = "
    "None, serve: bool = False, isolate: bool | None = None, jobs: int = 1, devices: Sequence[int] = (), timeout:"
    " float | None = None, memory_limit: int | None = None, fresh_workers: bool = False, guard_pages: bool = "
    "False, fail_on_leak: bool = False, repeat: int = 1, reruns: int = 0, stress: str | None = None, elementwise:"
    " bool | None = None, bitwise: bool = False, arbitrate: bool = False, stop_at_first: bool = False, reseed: "
    "int | None = None, strict: bool = False, allow_outside_paths: bool = False, perf: bool = False, warmup: int "
    "= 3, samples: int | None = None, cold_cache: bool = False, device_spec: str | Path | None = None, "
    "save_outputs: Optional[Literal['failed', 'all']] = None, labels: Mapping[str, str] | None = None, "
    "require_coverage: str | None = None, shard: str | None = None, allow_empty_shard: bool = False, failed: str "
    "| Path | None = None, times: str | Path | None = None, cluster: str | None = None, ship: Sequence[str] = (),"
    " judge_here: bool = False, reports: Mapping[Literal['html', 'markdown', 'junit', 'ctrf'], str | Path] | None"
    " = None, settings: str | Path | None = None, out: str | Path | None = None, overwrite: bool = False, "
    "on_result: Callable[[CaseResult], None] | None = None) -> RunReport",
    "fuzz": "(*operators: str, backend: str, tags: Sequence[str] = (), keyword: str = '', valid: bool = False, "
    "seconds: float | None = None, cases: int | None = None, seed: int | None "
    "= None, corpus: str | Path = 'mluops-corpus', stress: str | None = None, roots: Sequence[str] = "
    "('builtin',), runtime: str | None = None, serve: bool = False, isolate: bool | None = None, jobs: int = 1, "
    "devices: Sequence[int] = (), timeout: float | None = None, memory_limit: int | None = None, fresh_workers: bool = "
    "False, guard_pages: bool = False, cluster: str | None = None, ship: Sequence[str] = (), settings: str | Path"
    " | None = None) -> FuzzReport",
    "minimise": "(case: str, *, backend: str, out: str | Path | None = None, calls: int = 300, roots: Sequence[str] = "
    "('builtin',), runtime: str | None = None, serve: bool = False, isolate: bool | None = None, timeout: float |"
    " None = None, guard_pages: bool = False, bitwise: bool = False, elementwise: bool | None = None, reseed: int"
    " | None = None, strict: bool = False, allow_outside_paths: bool = False) -> Minimised",
    "to_json": "(value: RunReport | Decision | Minimised | FuzzReport | Sequence[CauseSummary], **more: Any) -> "
    "dict[str, Any]",
    "explain": "(results: RunReport | str | Path, *, operator: str | None = None) -> tuple[CauseSummary, ...]",
}
MEMBERS = {
    "CaseHandle": "call check check_name computes doc expected id inputs operator params results status tags",
    "CaseResult": "arbitrated attempts bug case causes compared content_error debug device elements expected_status "
    "explained fingerprint host info judged_by notes operator outcome outliers output passed perf profile readings "
    "reason leak repro seconds status stress tags worst",
    "ArrayVerdict": "compared expected got index max_ulp passed readings unequal",
    "RunReport": "backend causes environment exit_code failing failures fixed headlines interrupted is_isolated labels "
    "load looked_at_elements passed render required_coverage reseed results save seconds selection shapes started "
    "summary tally timing tool_version without_commands",
}


def test_what_is_public_is_listed():
    functions = {name for name in mt.__all__ if inspect.isfunction(getattr(mt, name))}
    assert functions == SIGNATURES.keys()
    classes = {name for name in mt.__all__ if inspect.isclass(getattr(mt, name))}
    others = {"Backend", "Baseline", "Decision", "Declined", "HarnessError", "NumpyBackend", "OpCall", "Outcome"}
    assert classes == MEMBERS.keys() | others | {"Status"}
    assert dir(mt) == sorted(mt.__all__)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_change_of_a_signature_is_noticed(name):
    # As it is written, without the modules of the types.
    written = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", str(inspect.signature(getattr(mt, name))))
    assert written == SIGNATURES[name]


@pytest.mark.parametrize("name", MEMBERS)
def test_a_change_of_the_members_is_noticed(name):
    public = {member for member in dir(getattr(mt, name)) if not member.startswith("_")}
    assert public == set(MEMBERS[name].split())


def test_every_option_of_a_run_is_an_argument_and_an_option():
    """The table of options, the keywords of `run` and the words of the command line are one set."""
    parameters = inspect.signature(mt.run).parameters
    selection = set(Query.__struct_fields__)
    assert parameters.keys() - selection - {"on_result"} == OPTIONS.keys()
    empty = {"labels": None, "reports": None}
    assert {name: parameters[name].default for name in OPTIONS} == {
        name: empty.get(name, one.default) for name, one in OPTIONS.items()
    }
    typed = {parameter.name for parameter in commands.get_command(None, "run").params}
    reports = {"html", "markdown", "junit", "ctrf"}
    about_the_terminal = {"resume", "quiet", "verbose", "durations", "form"}
    assert typed - selection - reports - about_the_terminal == OPTIONS.keys() - {"reports", "settings"}


def test_arguments_that_only_the_command_line_had_reach_the_run(tmp_path, kernels):
    settings = tmp_path / "mluops-test.toml"
    settings.write_text('backend = "./kernels.py"\ntimeout = 30\n[labels]\nteam = "a"\n')
    report = mt.run(
        TWIN,
        NEGATIVE,
        settings=settings,
        fresh_workers=True,
        arbitrate=True,
        shard="1/1",
        save_outputs="all",
        reports={"junit": tmp_path / "junit.xml"},
        out=tmp_path / "results",
        labels={"device": "x"},
    )
    assert report.passed
    assert {name: report.labels[name] for name in ("team", "device")} == {"team": "a", "device": "x"}
    assert (tmp_path / "junit.xml").is_file()
    recorded = json.loads((tmp_path / "results" / "run.json").read_text())
    assert (recorded["fresh_workers"], recorded["timeout"], recorded["shard"]) == (True, 30.0, "1/1")
    assert list((tmp_path / "results").rglob("*.npy"))
    again = mt.run(TWIN, perf=True, warmup=1, samples=2, cold_cache=True, serve=False, allow_outside_paths=True)
    assert len(again[TWIN].perf.samples_ns) == 2


def test_a_fuzz_run_a_minimised_case_and_the_causes_come_as_values(tmp_path, scaled_report):
    file = tmp_path / "wrong.py"
    file.write_text(f"import mluops_gtest as mt\n\n\n{inspect.getsource(Scaled)}\n\nbackend = Scaled()\n")
    how = {"backend": str(file), "isolate": False}
    found = mt.fuzz("voxel_pooling_forward", cases=40, seed=7, corpus=tmp_path / "corpus", **how)
    assert (found.draws, found.interrupted) == (40, False)
    assert found.failed
    assert found.findings[0][0].file.is_file()
    small = mt.minimise(TWIN, calls=60, out=tmp_path / "small.prototxt", **how)
    assert small.fails
    assert small.elements[1] < small.elements[0]
    assert mt.cases(str(tmp_path / "small.prototxt"))[0].operator == "voxel_pooling_forward"
    assert not mt.minimise(TWIN, backend="numpy").fails
    assert mt.explain(scaled_report) == scaled_report.causes
    assert mt.explain(scaled_report, operator="ball_query") == ()
    with pytest.raises(UsageError, match="timeout: this needs worker processes"):
        mt.fuzz(backend="numpy", timeout=3)


def test_a_case_has_its_data(twin):
    assert repr(twin) == f"<case {TWIN}>"
    facts = (twin.operator, twin.status, twin.computes, twin.check_name)
    assert facts == ("voxel_pooling_forward", mt.Status.SUCCESS, True, None)
    shapes = {name: array.shape for name, array in twin.inputs.items()}
    assert shapes == {"geom_xyz": (2, 96, 3), "input_features": (2, 96, 5)}
    assert twin.expected["output_features"].shape == (2, 8, 8, 5)
    assert twin.params["num_channels"] == 5
    assert not twin.inputs["geom_xyz"].flags.writeable


def test_scalar_results_are_told_and_withheld_from_the_call():
    case = mt.cases(f"{RESULT}/*", tags=["smoke"])[0]
    assert case.results.keys() == {"num_act_out"}
    assert "num_act_out" not in case.params


def test_a_case_that_is_refused_expects_a_status():
    (case,) = mt.cases(NEGATIVE)
    assert (case.computes, case.status, case.check_name) == (False, mt.Status.BAD_PARAM, "handle_null")
    assert case.expected == {}
    assert case.check(status=mt.Status.BAD_PARAM).passed
    wrong = case.check(status=mt.Status.SUCCESS)
    assert wrong.outcome is mt.Outcome.WRONG_STATUS


def test_outputs_are_judged_as_a_run_judges_them(twin):
    right = {name: array.copy() for name, array in twin.expected.items()}
    assert twin.check(right).passed
    right["output_features"][0, 0, 0, 0] += 5
    result = twin.check(right)
    assert result.outcome is mt.Outcome.FAILED
    assert "diff1" in repr(result)
    assert result.explained


def test_an_output_that_is_not_given_was_not_written(twin):
    result = twin.check({"pos_memo": twin.expected["pos_memo"]})
    assert (result.outcome, [cause.output for cause in result.causes]) == (mt.Outcome.FAILED, ["output_features"])


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"output": np.zeros(1)}, "there is no output 'output'; it has output_features, pos_memo."),
        (
            {"output_features": np.zeros((2, 8, 8, 5))},
            r"output_features must be float32 \[2, 8, 8, 5\], not float64 \[2, 8, 8, 5\]",
        ),
        ({"output_features": np.zeros((2, 8), np.float32)}, r"not float32 \[2, 8\]"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(twin, outputs, message):
    with pytest.raises(UsageError, match=message):
        twin.check(outputs)


def test_a_call_is_what_a_backend_gets(twin):
    call = twin.call()
    assert mt.NumpyBackend().run(call) == mt.Status.SUCCESS
    assert twin.check({name: call.array(name) for name in call.outputs}).passed
    again = twin.call()
    assert np.isnan(again.array("output_features")).all(), "another call has poison of its own"


def test_the_reference_answers_a_call_and_refuses_what_the_operator_refuses(twin):
    baseline = mt.reference(twin.call())
    assert (baseline.outputs["pos_memo"] == twin.expected["pos_memo"]).all()
    (case,) = mt.cases(NEGATIVE)
    with pytest.raises(UsageError, match="computes nothing for this call: it answers BAD_PARAM"):
        mt.reference(case.call())


def test_a_run_gives_a_report():
    told = []
    report = mt.run(TWIN, NEGATIVE, on_result=told.append)
    assert [result.case for result in report.results] == [TWIN, NEGATIVE]
    assert [result.case for result in told] == [TWIN, NEGATIVE]
    assert report.passed
    assert report[TWIN].passed
    assert repr(report) == "<RunReport of 2 cases on numpy: 2 passed>"


def test_an_object_is_a_backend(scaled_report):
    assert not scaled_report.passed
    assert [result.case for result in scaled_report.failures] == [result.case for result in scaled_report.results]
    assert any("is scaled by 1.01" in headline for headline in scaled_report.headlines)
    assert {result.repro for result in scaled_report.results} == {""}


def test_a_backend_by_name_is_isolated_and_can_have_workers(kernels):
    report = mt.run(TWIN, NEGATIVE, backend=str(kernels), jobs=2, timeout=60)
    assert report.passed
    assert report.backend["isolated"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": Scaled(), "jobs": 2}, "jobs: this needs worker processes"),
        ({"backend": Scaled(), "isolate": True}, "cannot move into another one"),
        ({"backend": object()}, "It has no `name`"),
        ({"backend": "numpy", "timeout": 3.0}, "timeout: this needs worker processes"),
        ({"jobs": 0}, "jobs=0 is too small"),
        ({"jobs": 2, "devices": [0], "isolate": True}, "Use either jobs or devices"),
        ({"jobs": 2, "perf": True, "isolate": True}, "times one call at a time"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, message):
    with pytest.raises(mt.HarnessError, match=message):
        mt.run(TWIN, **arguments)


def test_a_selection_without_cases_is_an_error():
    with pytest.raises(NothingSelectedError):
        mt.cases("no_such_operator")


def test_results_are_written_as_they_come_and_read_back(tmp_path):
    report = mt.run(TWIN, out=tmp_path / "results")
    loaded = mt.RunReport.load(tmp_path / "results")
    assert [result.case for result in loaded.results] == [TWIN]
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {"run.json", "results.jsonl", "report.json"}
    with pytest.raises(UsageError, match="already holds a run"):
        mt.run(TWIN, out=tmp_path / "results")
    saved = report.save(tmp_path / "saved")
    assert mt.RunReport.load(saved).summary == report.summary
    with pytest.raises(UsageError, match="overwrite=True"):
        report.save(saved)
    report.save(saved, overwrite=True)


def test_a_report_is_rendered_in_every_format(scaled_report):
    assert "<html" in scaled_report.render("html")
    assert scaled_report.render("markdown").startswith("#")
    assert json.loads(scaled_report.render("json"))["summary"] == {"failed": len(scaled_report.results)}


def test_the_gate_decides(scaled_report):
    fine = mt.run("voxel_pooling_forward", tags=["smoke"])
    assert mt.decide(scaled_report, fine, cross_backend=True).blocked
    assert not mt.decide(fine, fine).blocked


def test_cases_are_made_and_compared(tmp_path):
    assert mt.generate_cases(TWIN, check=True) == []
    assert mt.generate_cases(TWIN, out=tmp_path) == []
    assert (tmp_path / f"{TWIN}.prototxt").is_file()
    (tmp_path / f"{TWIN}.prototxt").write_text("op_name: 'spoiled'")
    (problem,) = mt.generate_cases(TWIN, out=tmp_path, check=True)
    assert TWIN in problem


def test_arrays_are_compared_without_a_case():
    right = np.arange(1, 9, dtype=np.float32)
    assert mt.compare(right, right, {"diff1": 0.0})
    assert not mt.compare(right[:0], right[:0], {"diff1": 0.0}), "nothing is compared"
    wrong = right.copy()
    wrong[3] = 5
    found = mt.compare(wrong, right, {"diff1": 1e-3, "diff3": 0.5})
    assert not found
    assert (found.index, found.got, found.expected, found.unequal) == ((3,), 5, 4, 1)
    assert repr(found) == (
        "<failed: diff1 0.02778 > 0.001, diff3 0.25 ≤ 0.5; 1 of 8 elements differ; worst at [3]: 5.0, expected 4.0>"
    )


@pytest.mark.parametrize(
    ("got", "expected", "arguments", "message"),
    [
        (np.zeros(2, np.float64), np.zeros(2, np.float32), {}, "both must be float32 of one shape"),
        (np.zeros(3, np.float32), np.zeros(2, np.float32), {}, "both must be float32 of one shape"),
        (np.zeros(2, np.uint16), np.zeros(2, np.uint16), {}, "name the type that it stands for"),
        (np.zeros(2, np.uint16), np.zeros(2, np.uint16), {"dtype": "bf"}, "unknown; known are half"),
        (np.zeros(2, np.float32), np.zeros(2, np.float32), {"criteria": {"diff9": 0}}, "'diff9' is unknown"),
        (np.zeros(2, np.float32), np.zeros(2, np.float32), {"criteria": {}}, "give at least one"),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused(got, expected, arguments, message):
    with pytest.raises(UsageError, match=message):
        mt.compare(got, expected, **({"criteria": {"diff1": 0.0}} | arguments))


def test_bits_of_a_type_that_numpy_lacks_are_compared():
    one, next_to_one = np.uint16([0x3F80]), np.uint16([0x3F81])
    assert mt.compare(one, next_to_one, {"diff3": 0.01}, dtype="bfloat16")
    assert not mt.compare(one, next_to_one, {"diff3": 0.001}, dtype="bfloat16")


def test_a_notebook_shows_the_summary_and_the_pictures(scaled_report, twin):
    page = scaled_report._repr_html_()
    assert "<b>2 cases on scaled</b>" in page
    assert page.count("<svg") >= 2
    (cause,) = re.findall("<summary>(.*?)</summary>", page)
    assert "2 cases" in cause
    assert scaled_report.headlines[0] in cause
    # What is wrong, and where, stands before what the criteria say.
    places = [page.index(words) for words in (cause, "is scaled by 1.01</p>", "<th>evaluated</th>", "diff1 =")]
    assert places == sorted(places)
    assert all(result.case in page for result in scaled_report.failures)
    assert "wrong elements of output_features" in scaled_report.failures[0]._repr_html_()
    assert "2 × 96 × 3" in twin._repr_html_()
    assert "<script" not in page
    # What comes from outside is escaped.
    spoiled = replace(scaled_report, backend={"name": "<script>alert(1)</script>"})
    assert "<script>" not in spoiled._repr_html_()


@pytest.mark.slow
def test_neither_click_nor_rich_is_needed():
    program = f"""
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("click", "rich"):
                    raise ImportError(name)

        sys.meta_path.insert(0, Blocked())
        import mluops_gtest as mt

        assert "numpy" not in sys.modules
        report = mt.run({TWIN!r})
        report._repr_html_()
        report.render("html")
        mt.decide(report, report)
        mt.generate_cases({TWIN!r}, check=True)
        assert report.passed
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
