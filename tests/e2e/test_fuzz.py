"""mluops-test fuzz: what is wrong is found, kept small, run first the next time; what is right passes."""

import json

import pytest

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core import operator_parts
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.search.draws import Draws
from tests.e2e.conftest import backends_in, only
from tests.support.pick_root import GENERATOR, WRITTEN, write_pick_root

OP = "three_interpolate_forward"
fuzzed = backends_in("fuzzed_backends")
SPACE = """
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

SPACE = Space(
    axes={"count": Sizes(1, 300), "factor": Choice((2, 3, -1))},
    draw=lambda at: Drawn("noise", {"factor": at["factor"]}, {"count": at["count"]}),
    elements=lambda at: 2 * at["count"],
    # Its checks do not look at types.
    defined=lambda call: all(
        arg is None or arg.dtype.value == "float" for arg in (*call.inputs.values(), *call.outputs.values())
    ),
)
"""


@pytest.fixture
def fuzz(cli, tmp_path):
    """A hunt on one of the wrong backends, in this process."""

    def call(name, *arguments, cases=60):
        corpus = tmp_path / "corpus"
        where = ("--op", OP, "--cases", cases, "--corpus", corpus)
        result = cli("fuzz", "--backend", fuzzed(name), *where, *(arguments or ("--no-isolate",))).expect_code(1)
        index = corpus / "corpus.json"
        result.kept = json.loads(index.read_text())["cases"] if index.exists() else []
        result.corpus = corpus
        return result

    return call


@pytest.mark.slow
def test_values_that_are_wrong_beyond_a_size_are_found_with_that_size(fuzz):
    result = fuzz("tail")
    (kept,) = result.kept
    assert kept["headline"].startswith(f"{OP}: output[:, :, 64:] is zero, when N ≥ ")
    assert f"found  {kept['headline']}" in result.lines
    assert (result.corpus / kept["file"]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "cases", "headline"),
    [
        ("lenient", (), 150, "answered SUCCESS, expected BAD_PARAM (check weights_rank"),
        ("overrunning", (), 20, f"{OP}: memory: wrote past the end of output, "),
        ("crashing", ("-j", 2), 20, f"{OP}: crashed: killed by SIGSEGV"),
    ],
    ids=["a forgotten check", "a write behind a buffer", "a crash in workers side by side"],
)
def test_other_failures_are_found_and_cost_one_draw(fuzz, name, options, cases, headline):
    result = fuzz(name, *options, cases=cases)
    # Where two checks do not hold, who forgets one answers for the other: a cause of its own.
    (_,) = (kept for kept in result.kept if headline in kept["headline"])
    assert f"{cases} draws in" in result.out


@pytest.mark.slow
def test_the_corpus_is_run_first_and_the_draws_go_on(fuzz, cli):
    first = fuzz("tail", cases=30)
    again = fuzz("tail", cases=10)
    assert again.kept == first.kept, "what is known is not kept twice"
    assert "1 case of the corpus, 1 still failing" in again.out
    assert f"{OP}     0            40" in again.out
    cli("fuzz", "--op", OP, "--cases", 0, "--corpus", again.corpus).expect_output(
        0, "1 case of the corpus, 0 still failing"
    )


@pytest.mark.slow
def test_a_file_of_the_corpus_fails_in_a_run_as_the_hunt_says(fuzz, run):
    result = fuzz("tail", cases=30)
    (command,) = [line.split() for line in result.lines if line.startswith("  mluops-test run ")]
    assert only(run(*command[2:]).expect_code(1))["outcome"] == "failed"


@pytest.mark.slow
def test_an_operator_of_another_root_is_drawn_by_its_own_space(cli, toy_with, tmp_path):
    root = toy_with(space=SPACE)
    result = cli("fuzz", "--root", root, "--cases", 60, "--seed", 3, "--corpus", tmp_path / "corpus").expect_code(1)
    # Its kernel does not look at pointers.
    assert "found  scale_by: error: " in result.out
    assert "is null" in result.out
    assert "scale_by     3            60" in result.out


TAIL = """
from pathlib import Path

from mluops_gtest.catalog.operators import load_operators

OPERATOR = load_operators(Path(__file__).parent)["pick"]


class Tail:
    name = "tail"

    def run(self, call):
        status = OPERATOR.kernel(call)
        output = call.outputs["out"]
        if OPERATOR.answer(call).computes:
            output.array[:, 64:] = 0
        return status


tail = Tail()
"""
AXES = 'axes={"rows": axis("M", of="table"), "columns": axis("C", of="table"), "picks": axis("N", of="index")},'


@pytest.fixture
def pick_with_axes(tmp_path):
    """An operator that declares axes and neither a space nor reductions."""
    text = GENERATOR.replace("checks=CHECKS,", f"{AXES} checks=CHECKS,").replace("    exact,", "    axis, exact,")
    text = text.replace('"[N]", (DType.INT32,))', '"[N]", (DType.INT32,), names="M")')
    assert text.count("axis(") == 3
    root = write_pick_root(tmp_path / "root", WRITTEN, text)
    (root / "tail.py").write_text(TAIL)
    return root


def test_an_operator_with_axes_alone_is_drawn_and_made_smaller(cli, pick_with_axes, tmp_path):
    corpus = tmp_path / "corpus"
    options = ("--root", pick_with_axes, "--backend", f"{pick_with_axes / 'tail.py'}:tail", "--no-isolate")
    cli("fuzz", *options, "--op", "pick", "--cases", 40, "--corpus", corpus).expect_code(1)
    (kept,) = json.loads((corpus / "corpus.json").read_text())["cases"]
    assert kept["headline"].startswith("pick: out[:, 64:] is zero")
    cli("run", corpus / kept["file"], *options).expect_code(1)
    small = cli("minimise", corpus / kept["file"], *options, "--out", tmp_path / "small.prototxt").expect_code(0)
    assert "columns 65" in small.out, "nothing smaller shows it"
    assert "no fewer columns: the smaller call does not fail" in small.lines
    assert "131 elements" in small.out, "one row, one pick: fuzz has made it as small as it can be"


def test_a_finding_can_be_typed_and_declared(cli, run, pick_with_axes, tmp_path, monkeypatch):
    corpus = tmp_path / "corpus"
    options = ("--root", pick_with_axes, "--backend", f"{pick_with_axes / 'tail.py'}:tail", "--no-isolate")
    found = cli("fuzz", *options, "--cases", 40, "--valid", "--corpus", corpus).expect_code(1)
    (kept,) = json.loads((corpus / "corpus.json").read_text())["cases"]
    (typed,) = [line.split() for line in found.lines if line.startswith("  as drawn: mluops-test run ")]
    assert typed[4] == f"pick/{kept['words']}"
    told = cli("fuzz", *options, "--cases", 40, "--valid", "--corpus", tmp_path / "other", "--format", "json")
    (finding,) = json.loads(told.expect_code(1).out)["findings"]
    assert finding["as_drawn"].split() == typed[2:]
    drawn = only(run(*typed[4:]).expect_code(1))
    assert drawn["outcome"] == "failed"
    declared = ("--promote", kept["file"], "--corpus", corpus, "--root", pick_with_axes)
    *_, command = cli("fuzz", *declared).expect_code(0).lines
    cli(*command.split()[1:]).expect_code(0)
    promoted = only(run(command.split()[2], *options).expect_code(1))
    assert [promoted[key] for key in ("causes", "worst")] == [drawn[key] for key in ("causes", "worst")]
    assert "has a case" in cli("fuzz", *declared).expect_code(2).err
    cli("fuzz", *declared, "--valid", "--seconds", 5).expect_error(2, "leave out --valid, --seconds")
    assert not (tmp_path / "empty").exists()
    cli("fuzz", *declared[:2], "--corpus", tmp_path / "empty").expect_error(2, "has no case; name the folder")
    cli("fuzz", *declared[:4]).expect_error(2, "Unknown operator 'pick'")
    before = (pick_with_axes / "cases" / "pick.yaml").read_bytes()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "_content").symlink_to(pick_with_axes)
    monkeypatch.setattr("mluops_gtest.catalog.root._PACKAGE", tmp_path / "package")
    cli("fuzz", *declared[:4]).expect_error(2, "pick is in the installed package; name a root of yours that has it")
    assert (pick_with_axes / "cases" / "pick.yaml").read_bytes() == before


def test_a_finding_that_no_words_make_cannot_be_declared(cli, pick_with_axes, tmp_path):
    corpus = tmp_path / "corpus"
    cli("fuzz", "--root", pick_with_axes, "--backend", f"{pick_with_axes / 'tail.py'}:tail", "--no-isolate",
        "--cases", 40, "--corpus", corpus).expect_code(1)  # fmt: skip
    index = json.loads((corpus / "corpus.json").read_text())
    index["cases"][0]["words"] = ""
    (corpus / "corpus.json").write_text(json.dumps(index))
    declare = ("fuzz", "--corpus", corpus, "--root", pick_with_axes, "--promote")
    cli(*declare, index["cases"][0]["file"]).expect_error(2, "no recipe makes this call: it has faults")
    cli(*declare, "pick/other").expect_error(2, "Unknown case of")


def test_only_valid_calls_are_drawn_of_operators_that_are_selected(cli, tmp_path):
    corpus = tmp_path / "corpus"
    options = ("--valid", "--cases", 12, "--corpus", corpus)
    result = cli("fuzz", "-k", "voxel_pooling or three_nn", "--tag", "race", *options).expect_code(0)
    assert [line.split()[0] for line in result.lines[1:-1]] == ["voxel_pooling_forward"]
    operators = Session().catalogue.operators
    name = "voxel_pooling_forward"
    draws = Draws(operators[name], operators.part(name, operator_parts.SPACE), 0, valid=True)
    drawn = [draws.draw(number) for number in range(12)]
    assert not any(one.faults for one in drawn)
    assert all(operators[name].answer(bind_values(one.case, operators[name])).status == 0 for one in drawn)
    cli("fuzz", "ball_query").expect_error(2, "Name an operator by --op, e.g. --op ball_query.")
    cli("fuzz", "-k", "no_such_word", *options).expect_error(5, "The selection matches no case")


def test_an_operator_whose_recipes_take_no_axis_cannot_be_drawn(cli, pick_with_axes, tmp_path):
    page = pick_with_axes / "generators" / "pick.py"
    page.write_text(page.read_text().replace("columns: int, picks: int)", "columns: int, picks: int, start: int)"))
    arguments = ("--root", pick_with_axes, "--backend", "numpy", "--op", "pick", "--corpus", tmp_path)
    cli("fuzz", *arguments).expect_error(5, "nor axes whose names a recipe takes as keyword arguments")


def test_an_operator_without_a_space_cannot_be_drawn(cli, toy, tmp_path):
    cli("fuzz", "--root", toy, "--cases", 1, "--corpus", tmp_path / "corpus").expect_error(
        5, "Nothing can be drawn for scale_by"
    )


@pytest.mark.slow
def test_a_right_kernel_passes_and_says_what_was_drawn(cli, tmp_path):
    cli("fuzz", "--op", "masked_col2im_forward", "--cases", 30, "--corpus", tmp_path / "corpus").expect_output(
        0, "30 draws in", "0 failed, for 0 new causes"
    )
    assert list((tmp_path / "corpus").iterdir()) == [tmp_path / "corpus" / "state.json"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--stress", "60", "--isolate"), "say how often each draw is repeated"),
        (("--stress", "5x", "--guard-pages", "--isolate"), "leave out --guard-pages"),
        (("-j", "2"), "needs worker processes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(cli, arguments, words):
    cli("fuzz", "--op", "ball_query", "--cases", 1, *arguments).expect_error(2, words)
