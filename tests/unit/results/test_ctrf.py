"""CTRF: statuses, counts, and the published schema."""

import json
import subprocess

import pytest

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.results.reports.files import render
from tests.support.npm import install, needs_npm
from tests.support.reports import GOLDEN, report, result

VALIDATE = """
const {readFileSync} = require("fs");
const Ajv = require("ajv").default, formats = require("ajv-formats").default;
const [schema, ...documents] = process.argv.slice(1).map((path) => JSON.parse(readFileSync(path, "utf8")));
const ajv = new Ajv({allErrors: true, strict: false});
formats(ajv);
const validate = ajv.compile(schema);
console.log(JSON.stringify(documents.map((document) => validate(document) ? [] : validate.errors)));
"""


def rendered(*results, **options):
    return json.loads("".join(render(report(*results), "ctrf", **options)))["results"]["tests"]


def test_a_transition_and_the_readings_are_kept():
    (test,) = rendered(result("a", value=0.5, outcome=Outcome.FAILED), transitions={"op/a": "regressed"})
    assert test["extra"]["transition"] == "regressed"
    assert test["extra"]["readings"][0]["value"] == 0.5


def test_the_same_report_has_the_same_id_and_another_has_another():
    first, again = "".join(render(report(result()), "ctrf")), "".join(render(report(result()), "ctrf"))
    other = "".join(render(report(result(value=1e-7)), "ctrf"))
    assert first == again
    assert json.loads(first)["reportId"] != json.loads(other)["reportId"]


class TestSchema:
    """With the schema that the format's own package publishes."""

    pytestmark = needs_npm

    @pytest.mark.slow
    def test_documents_are_valid_and_a_wrong_one_is_not(self, tmp_path):
        modules = install(tmp_path, "ctrf", "ajv@8", "ajv-formats@3")
        (schema,) = (modules / "ctrf" / "dist").glob("ctrf-schema-*.json")
        odd = result(name="é\ud800", outcome=Outcome.FAILED, value=float("nan"), reason="\ud800", output="a\x00\nb")
        (tmp_path / "odd.json").write_text("".join(render(report(odd), "ctrf")), encoding="utf-8")
        (tmp_path / "empty.json").write_text("".join(render(report(), "ctrf")), encoding="utf-8")
        wrong = json.loads((GOLDEN / "ctrf.json").read_text())
        wrong["results"]["tests"][0]["status"] = "flaky"
        (tmp_path / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
        documents = [GOLDEN / "ctrf.json", tmp_path / "odd.json", tmp_path / "empty.json", tmp_path / "wrong.json"]
        command = ["node", "-e", VALIDATE, "--", str(schema), *map(str, documents)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        golden, odd_one, empty, refused = json.loads(done.stdout)
        assert (golden, odd_one, empty) == ([], [], [])
        assert [error["instancePath"] for error in refused] == ["/results/tests/0/status"]
