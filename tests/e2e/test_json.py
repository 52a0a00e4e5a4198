"""`--format json`: one object per command, as its schema says, the same as Python gets; errors are objects, too."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mluops_gtest as mt
from mluops_gtest.documents import history_to_json
from mluops_gtest.results.history import History
from mluops_gtest.search.audit_values import RULES
from tests.e2e.conftest import called, wrong
from tests.support.json_schemas import problems, refuse_wrong, schemas_of_shapes, written_schemas

BACKEND = """
import numpy as np
import mluops_gtest as mt


class Wrong(mt.NumpyBackend):
    name = "wrong"

    def run(self, call):
        status = super().run(call)
        if status == mt.Status.SUCCESS and call.array("y").size > 2:
            call.array("y")[-1] = np.nan
        print("a word of the backend's")
        return status


backend = Wrong(roots=[ROOT])
"""
CASE = "scale_by/ramp_4"
SPACE = """
from mluops_gtest.authoring.space import Drawn, Sizes, Space

SPACE = Space(
    axes={"count": Sizes(1, 30)},
    draw=lambda at: Drawn("noise", {}, {"count": at["count"]}),
    elements=lambda at: 2 * at["count"],
    defined=lambda call: all(
        arg is None or arg.dtype.value == "float" for arg in (*call.inputs.values(), *call.outputs.values())
    ),
)
"""
# Command → its exit code; {results} and {case} are those of the run.
COMMANDS = {
    "run scale_by": 1,
    "run scale_by/ramp_2 scale_by/rank_2": 0,
    "run scale_by -q -j 2 --isolate": 1,
    "explain {results}": 0,
    "diff {case} --backend {backend} --no-isolate --save values": 1,
    "diff {case} --from {results}": 1,
    "minimise {case} --backend {backend} --no-isolate": 0,
    "minimise {case} --backend numpy": 5,
    "fuzz --backend {backend} --no-isolate --cases 12 --corpus corpus": 1,
    "doctor --backend {backend}": 0,
    "doctor --self": 0,
    "show {case}": 0,
    "show scale_by/big --reseed 3": 0,
    "history show": 0,
    "history show {case}": 0,
    "history trend --op scale_by": 0,
    "history causes": 0,
    "audit operators --seeds 0": 1,
    "audit mutants": 1,
    "audit outputs": 1,
    "verify": 0,
    "ops": 0,
    "ops scale_by": 0,
    "gate {results} --against {results}": 1,
    "compare {results} {results}": 0,
    "check-submission {claim}": 0,
}


@pytest.fixture(scope="module")
def place(generated_toy, tmp_path_factory):
    """A root with a wrong backend, a run on it and a history of that."""
    folder = tmp_path_factory.mktemp("json")
    root = shutil.copytree(generated_toy(space=SPACE), folder / "root")
    backend = folder / "backend.py"
    backend.write_text(BACKEND.replace("ROOT", repr(str(root))))
    results = folder / "results"
    where = ("--root", root, "--backend", f"{backend}:backend", "--no-isolate")
    called("run", *where, "--save-outputs", "failed", "--out", results).expect_code(1)
    called("history", "add", results, "--db", folder / "history.sqlite").expect_code(0)
    called("submit", results, "--out", folder / "claim.zip").expect_code(0)
    return folder


@pytest.fixture
def ask(cli, place, monkeypatch):
    """What a command prints with --format json: the whole of stdout is one object, valid by its schema."""
    monkeypatch.setenv("MLUOPS_TEST_HISTORY", str(place / "history.sqlite"))

    def call(words, code):
        names = {
            "results": place / "results",
            "claim": place / "claim.zip",
            "case": CASE,
            "backend": f"{place / 'backend.py'}:backend",
        }
        arguments = [word.format(**names) for word in words.split()]
        if arguments[0] == "run":
            arguments += ["--backend", names["backend"], *(["--no-isolate"] * ("--isolate" not in words))]
        if not {"explain", "gate", "compare", "history", "--self", "--from"} & {*arguments}:
            arguments += ["--root", str(place / "root")]
        result = cli(*arguments, "--format", "json").expect_code(code)
        return refuse_wrong(json.loads(result.out)), result

    return call


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize(("words", "code"), COMMANDS.items())
def test_a_command_prints_one_object_as_its_schema_says(ask, words, code):
    document, _ = ask(words, code)
    command, *rest = words.split()
    assert document["kind"] == (f"audit_{rest[0]}" if command == "audit" else command.replace("-", "_"))
    assert document["format"] == 1
    assert document.get("exit_code", code) == code


def test_every_document_is_tried():
    commands = {words.split()[0].partition("-")[0] for words in COMMANDS}
    kinds = {kind.partition("_")[0] for kind in written_schemas()} - {"common", "error"}
    assert commands == kinds


def test_the_schemas_are_those_of_the_types():
    """`python -m tests.support.json_schemas` writes them anew; a key that goes is another version."""
    assert written_schemas() == schemas_of_shapes()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "explain", "format": 1, "cases": 0}, "$: causes is missing"),
        ({"kind": "explain", "format": 1, "cases": "0", "causes": []}, "$.cases: '0' is no integer"),
        ({"kind": "explain", "format": 1, "cases": True, "causes": []}, "$.cases: True is no integer"),
        ({"kind": "explain", "format": 2, "cases": 0, "causes": []}, "$.format: 2 is none of [1]"),
        ({"kind": "explain", "format": 1, "cases": 0, "causes": [], "more": 1}, "$: more is not described"),
        ({"kind": "explain", "format": 1, "cases": 0, "causes": [[]]}, "$.causes[0]: [] is no object"),
    ],
)
def test_the_judge_of_documents_tells_wrong_ones(document, message):
    schemas = written_schemas()
    assert message in list(problems(document, schemas["explain"], schemas))


def test_a_run_tells_people_on_stderr_and_programs_on_stdout(ask, place):
    document, result = ask("run scale_by --out again", 1)
    assert "Results: again" in result.err
    assert "y[-1] is NaN" in result.err
    assert document["results"] == "again"
    assert document["summary"] == {"passed": 7, "failed": 3} | document["summary"]
    (cause,) = document["causes"]
    assert (cause["operator"], cause["law"], cause["kinds"][0], cause["law_kind"]) == (
        "scale_by",
        "NaN",
        "non_finite",
        "turned_nan",
    )
    assert cause["smallest"][0] == "scale_by/ramp_3"
    assert json.loads((place / "results" / "causes.json").read_text())["causes"][0]["id"] == cause["id"]


def test_what_cannot_be_written_is_told_in_the_object(ask):
    document, result = ask("run scale_by/ramp_2 --junit /dev/full", 74)
    assert "cannot be written" in document["errors"][0]
    assert document["errors"][0] in result.err


def test_nothing_to_run_is_an_object_too(ask):
    assert ask("run scale_by/ramp_2 --shard 2/2 --allow-empty-shard", 0)[0]["cases"] == 0
    ask("run scale_by --out whole", 1)
    finished = json.loads(called("run", "--resume", "whole", "--format", "json").expect_code(1).out)
    assert refuse_wrong(finished)["summary"]["failed"] == 3


def test_numbers_that_json_has_not_are_words(ask):
    document, _ = ask(f"diff {CASE} --from {{results}}", 1)
    (output,) = document["outputs"]
    assert output["elements"][0]["error"] == "inf"
    assert document["result"]["readings"][0]["value"] in ("nan", "inf", 0.0)


@pytest.mark.slow
def test_python_gets_the_same(ask, place):
    results, untimed = place / "results", {"seconds": 0, "timing": {}}
    report = mt.RunReport.load(results)
    assert mt.to_json(mt.explain(report)) == ask("explain {results}", 0)[0]
    assert mt.to_json(mt.decide(results, results)) == ask("gate {results} --against {results}", 1)[0]
    run, _ = ask("run scale_by --out again", 1)
    assert mt.to_json(mt.RunReport.load("again"), folder="again") | untimed == run | untimed
    with History(place / "history.sqlite") as history:
        assert history_to_json(history.runs()) == ask("history show", 0)[0]
    smallest, _ = ask("minimise {case} --backend {backend} --no-isolate", 0)
    fuzzed, _ = ask("fuzz --backend {backend} --no-isolate --cases 12 --corpus one", 1)
    # From here on the backend prints: it runs in this process.
    where = {"roots": [str(place / "root")], "backend": f"{place / 'backend.py'}:backend", "isolate": False}
    again = mt.to_json(mt.minimise(CASE, **where))
    of_the_command = {"file": "", "repro": "", "result": None}
    assert again | of_the_command == smallest | of_the_command
    assert again["result"]["causes"] == smallest["result"]["causes"]
    again = mt.to_json(mt.fuzz(cases=12, corpus="two", **where))
    assert [one["headline"] for one in again["findings"]] == [one["headline"] for one in fuzzed["findings"]] != []
    assert again["operators"] == fuzzed["operators"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("run --nosuch --format json", 2, "--nosuch"),
        ("run --format=json scale_by/none", 5, "'scale_by/none' is not a case id"),
        ("run --backend none.py --format json", 4, "none.py"),
        ("nosuch --format json", 2, "Unknown command 'nosuch'"),
        ("gate --format json", 2, "Missing argument 'RESULTS'"),
        ("gate broken --against broken --format json", 3, "broken/report.json"),
        ("history show --db none.sqlite --format json", 2, "there is no history"),
        ("ops --format json --c", 2, "leave out --page and --c"),
        ("list scale_by/none --format json", 5, "is not a case id"),
    ],
)
def test_errors_are_objects(cli, words, code, told):
    folder = Path("broken")
    folder.mkdir()
    (folder / "report.json").write_text("{")
    result = cli(*words.split()).expect_code(code)
    error = refuse_wrong(json.loads(result.err))
    assert (error["kind"], error["exit_code"], result.out) == ("error", code, "")
    assert told in error["error"]
    assert "Usage:" not in error["error"], "the lines above the sentence are for people"


def test_a_bug_is_an_object_with_its_trace(cli, monkeypatch):
    monkeypatch.setattr("mluops_gtest.catalog.selection.Session.select", None)
    error = refuse_wrong(json.loads(cli("run", "--format", "json").expect_code(70).err))
    assert "Traceback" in error["error"]
    assert "please report them" in error["error"]


def test_without_the_option_errors_are_for_people(cli):
    cli("explain", "none").expect_error(2, "Error: Invalid value for 'RESULTS'")


def test_rules_stay_a_list_of_words(cli):
    assert json.loads(cli("audit", "operators", "--rules", "--format", "json").out).keys() == RULES.keys()


def test_a_broken_case_is_listed_with_its_error(cli):
    Path("broken.prototxt").write_text("op_name")
    (case,) = json.loads(cli("list", "broken.prototxt", "--format", "json").expect_code(3).out)
    assert "broken.prototxt" in case["error"]


def test_findings_say_what_runs_them(ask, cli):
    for finding in ask("fuzz --backend {backend} --no-isolate --cases 12 --corpus corpus", 1)[0]["findings"]:
        cli(*shlex.split(finding["repro"])[1:]).expect_code(1)


def test_a_crash_reaches_the_object(cli):
    words = ("run", "ball_query/hits_around_nsample_float", "--backend", wrong("Raises"), "--no-isolate")
    document = refuse_wrong(json.loads(cli(*words, "--format", "json").expect_code(1).out))
    assert document["causes"][0]["kinds"] == ["raised"]


@pytest.mark.slow
def test_what_a_kernel_in_this_process_prints_in_c_is_not_in_the_way(tmp_path):
    """Its text is still in the buffers of C when the command ends."""
    (tmp_path / "kernels.py").write_text(
        "import ctypes\nimport mluops_gtest as mt\n\n\nclass Loud(mt.NumpyBackend):\n"
        "    def run(self, call):\n        ctypes.CDLL(None).printf(b'loud\\n')\n        return super().run(call)\n\n\n"
        "backend = Loud()\n"
    )
    words = ("run", "abs/released_twin_half", "--backend", "kernels.py", "--no-isolate", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "mluops_gtest", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refuse_wrong(json.loads(done.stdout))["summary"] == {"passed": 1}, done.stderr
    assert "loud" in done.stderr
