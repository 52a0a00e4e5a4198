"""`mluops-test audit outputs`: the suite measured by wrong outputs, without any backend."""

import json

import pytest

from tests.support.toy_root import GENERATOR

# diff1 and diff2 of 1e-6, and no bound: one element in its last place is not caught.
BLIND = "y: one ulp"
LARGER = """\
- name: ramp_3000
  tags: [boundary]
  doc: "§1: room for 1024 elements"
  data: {recipe: ramp, count: 3000}
"""


@pytest.fixture
def audit(cli, toy_with):
    def call(*options, accepted=None):
        faults = f"    accepted_faults={accepted or {}!r},\n    theory="
        root = toy_with(__init__=GENERATOR.replace("    theory=", faults))
        declarations = root / "cases" / "scale_by.yaml"
        declarations.write_text(declarations.read_text() + LARGER)
        assert cli("generate", "--all", "--root", root).code == 0
        return cli("audit", "outputs", "--root", root, *options)

    return call


def test_a_fault_that_no_case_tells_is_an_exit_code(audit):
    result = audit().expect_output(1, f"scale_by: {BLIND}: no case catches it", "accepted_faults")
    assert result.lines[-1].endswith("1 not caught, 0 accepted, 0 of these wrongly")


def test_a_fault_may_be_accepted_with_a_reason(audit):
    assert audit(accepted={BLIND: "norms judge"}).code == 0


@pytest.mark.parametrize(("name", "why"), [("y: zero", "a case catches it"), ("z: zero", "no output can have it")])
def test_an_acceptance_that_is_not_needed_is_told(audit, name, why):
    audit(accepted={BLIND: "norms judge", name: "why not"}).expect_output(1, f"scale_by: {name}: {why}")


def test_each_case_says_what_it_lets_through(audit):
    result = audit("scale_by/ramp_3", "--list")
    assert f"scale_by/ramp_3 lets through: {BLIND}" in result.lines
    # A selection is measured as it is: three elements have no room for 64.
    assert "y: last 64 dropped: it changes nothing in any of the cases" in result.out


def test_programs_get_everything(audit):
    record = json.loads(audit("--format", "json").out)["operators"]["scale_by"]
    assert record["not_told"] == [BLIND]
    assert record["let_through"]["scale_by/ramp_2"] == [BLIND]
    row = record["faults"]["y: last 1024 dropped"]
    assert (row["cases"], row["by_criteria"], row["by_elementwise"], row["told"]) == (1, 1, 0, 1)
    assert record["told_by_one_case_alone"]["y: last 1024 dropped"] == "scale_by/ramp_3000"
    assert row["families"] == {"boundary": 1}


def test_the_first_catch_is_enough_for_a_verdict(audit):
    record = json.loads(audit("--first-catch", "--format", "json").out)["operators"]["scale_by"]
    assert record["not_told"] == [BLIND]
    assert record["faults"]["y: zero"]["cases"] == 1


def test_nothing_that_computes_is_nothing_measured(audit):
    assert audit("scale_by/rank_2").code == 5


@pytest.mark.slow
def test_the_cases_of_every_operator_tell_every_fault(cli):
    result = cli("audit", "outputs", "--first-catch", "--format", "json")
    found = json.loads(result.out)["operators"]
    assert len(found) >= 13
    assert {name: record["not_told"] for name, record in found.items() if record["not_told"]} == {}
    assert result.code == 0
