"""`mluops-test new c-library`: a library that compiles, refuses what its declarations refuse, and computes nothing."""

import subprocess

import pytest

from tests.support.toy_root import write_toy_root

NOT_WRITTEN = "INTERNAL_ERROR"


def checks_in_c(folder, operator):
    """The names of the checks that the operator's function makes."""
    function = (folder / f"{operator.name}.c").read_text().rpartition("\nmluOpStatus_t ")[2]
    lines = [line for line in map(str.strip, function.splitlines()) if line.startswith(("REQUIRE(", "/* FILL IN"))]
    # The last line says what to compute.
    return {check.name for check, line in zip(operator.checks, lines[:-1], strict=True) if line.startswith("REQUIRE(")}


@pytest.mark.slow(seconds=25)
@pytest.mark.needs_gcc
def test_what_it_checks_is_right_for_every_operator(cli, run, catalogue, tmp_path):
    operators, folder = catalogue.operators, tmp_path / "library"
    cli("new", "c-library", *operators, "--out", folder).expect_output(0, f"make -C {folder}", "--op abs --op active")
    subprocess.run(["make", "-s", "CFLAGS=-O1 -Werror"], cwd=folder, check=True)
    # Checks decide negative cases alone; a few others show that what computes is let through.
    chosen = ("--tag", "negative", "--tag", "smoke")
    results = run(*chosen, "--backend", f"c:{folder / 'libmykernels.so'}", "--no-isolate").results.values()
    made = {name: checks_in_c(folder, operators[name]) for name in operators}
    asked = [one for one in results if one["outcome"] != "skipped" and one["info"]["check"] in made[one["operator"]]]
    assert [(one["case"], one["status"]) for one in asked if one["status"] != one["expected_status"]] == []
    assert len({(one["operator"], one["info"]["check"]) for one in asked}) > 800
    # What computes is refused by nothing.
    computing = [one for one in results if one["outcome"] == "wrong_status" and one["expected_status"] == "SUCCESS"]
    assert {one["operator"] for one in computing} == set(operators)
    assert {one["status"] for one in computing if not one["info"]["check"]} == {NOT_WRITTEN}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ball_quer",), "Unknown operator 'ball_quer'. Did you mean 'ball_query'?"),
        (("scale_by", "--root", "toy"), "scale_by declares no C functions: say c_api= in its page"),
        (("abs",), "abs.c exists already; take another --out, or remove it first"),
    ],
)
def test_what_cannot_be_written_is_refused(cli, arguments, words, tmp_path):
    write_toy_root(tmp_path / "cwd" / "toy")
    out = tmp_path / "cwd" / "there"
    out.mkdir()
    (out / "abs.c").write_text("mine")
    cli("new", "c-library", *arguments, "--out", "there").expect_error(2, words)
    cli("new", "c-library", "sqrt", "--out", "there/abs.c/below").expect_error(74, "cannot be written: Not a directory")
    assert {path.name: path.read_text() for path in out.iterdir()} == {"abs.c": "mine"}
