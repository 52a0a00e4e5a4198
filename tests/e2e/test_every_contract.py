"""A toy operator with the contracts of calls that few operators have, and backends that break one of them each."""

import re

import pytest

from tests.e2e.conftest import replace_in
from tests.support.every_contract import write_every_contract


@pytest.fixture
def root(cli, tmp_path):
    folder = write_every_contract(tmp_path / "root")
    cli("generate", "--all", "--root", folder).expect_code(0)
    return folder


@pytest.fixture
def outcomes(run, root):
    def call(name, *options):
        result = run("--root", root, "--backend", f"{root / 'backends.py'}:{name}", *options)
        return {case.partition("/")[2]: (one["outcome"], one["reason"]) for case, one in result.results.items()}

    return call


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_it_runs_and_is_verified(cli, run, root, backend):
    assert run("--root", root, "--backend", backend).code == 0
    assert cli("verify", "--all", "--root", root).code == 0
    assert cli("generate", "--all", "--check", "--root", root).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Backend", "ClearsNorms"])
@pytest.mark.parametrize("options", [[], ["--repeat", "2"], ["--guard-pages"]], ids=["once", "twice", "guard-pages"])
def test_what_the_operator_allows_passes(outcomes, name, options):
    assert {one[0] for one in outcomes(name, *options).values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case", "reason"),
    [
        ("RefusesWide", "without_norms", "answered NOT_SUPPORTED, expected SUCCESS"),
        ("ClearsHalf", "no_place", r"norms was written \(1 element, first at 0\) although"),
        ("ClearsTable", "no_place", r"table was written \(28 elements"),
        ("ClearsTooEarly", "no_x", "norms was written"),
        ("WritesSomeNorms", "placed", "norms: diff1"),
        ("WritesSomeNorms", "without_norms", "norms: 2 of 3 elements were never written"),
        ("WritesOtherNorms", "without_norms", "norms: diff1"),
        ("ClearsOtherRows", "placed", "table: 16 elements of 28 must stay as before the call"),
        ("QuietsNans", "placed", r"table: 1 element of 28 must stay as before the call and did not, first at 0$"),
        ("LosesSigns", "placed", r"table: 1 element of 28 must stay as before the call and did not, first at 1$"),
        ("LeavesARow", "placed", "table: 4 of 28 elements were never written"),
        ("AddsToRows", "placed", "table: "),
        ("WritesWhenRefusing", "columns", "table was written"),
        ("ClearsGaps", "strided", "wrote to 6 places between the strided elements of table, first at 4 of its buffer"),
        ("WritesOneGap", "strided", "wrote to 1 place between the strided elements of norms, first at 1 of its"),
        ("WritesContiguously", "strided", "wrote to 1 place between the strided elements of norms, first at 1 of its"),
        ("StridesOfTable", "strided", "table: "),
        ("StridesInBytes", "strided", "table: "),
        ("ReadsContiguously", "strided", "table: "),
        ("ReadsContiguously", "overlapping_x", "table: "),
    ],
)
def test_a_broken_contract_fails_its_case(outcomes, name, case, reason):
    outcome, words = outcomes(name)[case]
    assert outcome == ("memory" if words.startswith("wrote") else "wrong_status" if "answered" in words else "failed")
    assert re.match(reason, words)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('becomes="table"', 'becomes="tables"', "becomes the unknown output 'tables'. Did you mean 'table'?"),
        ('becomes="table"', 'becomes="norms"', "the output 'table' keeps what nobody presets"),
        ('"[M, C]", FLOAT, bec', '"[N, C]", FLOAT, bec', "the output 'table' holds 'table_before': one input with the"),
        (", kept=keeps", ", kept=keeps, preset=0", "the output 'table' is preset, and holds 'table_before'"),
        ('may_clear=("norms",)', 'may_clear=("norm",)', "may clear the unknown output 'norm'"),
    ],
)
def test_slips_of_authors(cli, root, old, new, message):
    replace_in(root / "generators" / "every_contract.py", old, new)
    cli("list", "--root", root).expect_error(3, "every_contract.py:", message)


def test_strided_tensors_are_stored_as_files_have_them(root):
    """A strided input stores its whole buffer, a strided output its elements alone."""
    text = (root / "prototxt" / "every_contract" / "strided.prototxt").read_text()
    x, _, before, table, norms = (part.count("value_h:") for part in re.split(r"\n(?:in|out)put ", text)[1:])
    assert (x, before, table, norms) == (12, 34, 28, 3)


def test_outputs_whose_elements_share_a_place_are_refused(cli, root):
    replace_in(root / "cases" / "every_contract.yaml", "norms: {strides: [2]}", "norms: {strides: [0]}")
    cli("generate", "--all", "--root", root).expect_error(
        3, "every_contract.yaml:", "with strides [0] elements of norms share a place; the document does not define that"
    )
