"""Calls that are typed: `ball_query:B=2,M=1` is a case like any other, under an id that repeats it."""

import json
import re

import pytest

from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.prompt import Prompt
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Sizes
from mluops_gtest.core.case import Query
from mluops_gtest.core.operator_parts import SPACE
from tests.e2e.conftest import only, wrong

CALL = "ball_query:B=2,M=1,N=2,dtype=half"
ID = (
    "ball_query/recipe=scattered,batches=2,centres=1,points=2,spread=1,exponent=0,"
    "min_radius=0.0,max_radius=2.5,nsample=4,dtype=half"
)
OPERATORS = Session().catalogue.operators


def two_lengths(operator):
    """Words that change two lengths of the operator: symbols of its axes where it has them, else names of its space."""
    known = Prompt(OPERATORS[operator], OPERATORS.part(operator, SPACE), "").names()
    symbols = [axis.symbol for axis in OPERATORS[operator].axes.values() if axis.symbol in known]
    space = OPERATORS.part(operator, SPACE).axes
    return [*symbols, *(name for name, axis in space.items() if isinstance(axis, Sizes) and name not in symbols)][:2]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_call_of_every_operator_is_made_and_passes(run, operator):
    first, second = two_lengths(operator)
    # The scene of this operator takes 40 points for its 4 samples.
    result = only(run(f"{operator}:{first}=5,{second}={50 if operator == 'roipoint_pool3d' else 3}").expect_code(0))
    assert (result["outcome"], result["expected_status"]) == ("passed", "SUCCESS")
    assert only(run(result["case"]).expect_code(0))["info"] == result["info"]


def test_the_id_is_printed_and_the_words_in_any_order_mean_it(run, cli):
    result = run(CALL).expect_code(0)
    assert result.lines[0] == ID
    info = only(result)["info"]
    dims = [tensor["dims"] for tensor in (*info["inputs"], *info["outputs"])]
    assert (only(result)["case"], dims) == (ID, [[2, 1, 3], [2, 2, 3], [2, 1, 4]])
    for words in ("dtype=half,N=2,M=1,B=2", "points=2,centres=1,batches=2,dtype=half"):
        assert cli("list", "--format", "ids", f"ball_query:{words}").expect_code(0).lines == [ID]


def test_other_values_of_the_call_come_by_seed_and_by_reseed(run):
    digests = {
        only(run(f"{CALL}{more}", *options).expect_code(0))["case"]
        for more, options in (("", ()), (",seed=7", ()), (",seed=8", ()), ("", ("--reseed", 3)))
    }
    assert digests == {ID, f"{ID},seed=7", f"{ID},seed=8"}


def test_a_call_is_made_once_and_by_no_file(cli, run, monkeypatch):
    makings = []
    for module in ("prompt", "source", "make"):
        monkeypatch.setattr(
            f"mluops_gtest.catalog.{module}.make_case", lambda *of, to=make_case: makings.append(of) or to(*of)
        )
    run(CALL).expect_code(0)
    cli("list", CALL).expect_code(0)
    assert len(makings) == 2
    assert "baseline: made with the case by the reference" in cli("show", CALL).lines
    assert json.loads(cli("show", CALL, "--format", "json").out)["stored"] is False
    assert json.loads(cli("show", "ball_query/no_sample", "--format", "json").out)["stored"] is True


def test_short_answers_leave_the_words_to_the_results(run):
    assert run(CALL, "-q").expect_code(0).lines[0].startswith("1 passed")
    run(CALL, "-q", "-v").expect_error(2, "leave out -q or -v")


@pytest.mark.parametrize("command", ["show", "list", "verify"])
def test_the_same_words_go_where_an_id_goes(cli, command):
    cli(command, CALL).expect_code(0)


def test_a_failing_call_has_a_repro_line_that_fails_alike(run, cli, tmp_path):
    call = "masked_im2col_forward:C=2,m=3,values=wide"
    result = only(run(call, "--backend", wrong("AllZero")).expect_code(1))
    words = result["repro"].split()[2:]
    assert only(run(*words).expect_code(1))["causes"] == result["causes"]
    cli("diff", *words).expect_code(1)
    *_, file, _ = cli("minimise", *words).expect_code(0).lines
    smallest = file.split()[1]
    assert re.fullmatch(r"masked_im2col_forward_[0-9a-f]{8}_minimised\.prototxt", smallest)
    assert only(run(smallest, *words[1:]).expect_code(1))["outcome"] == "failed"


@pytest.mark.parametrize(
    ("call", "check"),
    [("ball_query:nsample=-1", "nsample"), ("voxel_pooling_forward:num_points=0", "geom_xyz_dim1")],
)
def test_a_parameter_that_is_wrong_on_purpose_is_a_negative_case(run, call, check):
    result = run(call).expect_code(0)
    assert result.lines[0].endswith(f"  (the check {check} answers BAD_PARAM)")
    assert (only(result)["status"], only(result)["expected_status"]) == ("BAD_PARAM", "BAD_PARAM")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("ball_quer:B=2", "Unknown operator 'ball_quer'. Did you mean 'ball_query'?"),
        (
            "ball_query:Q=2",
            "unknown name 'Q'. Known: batches (B), centres (M), points (N), nsample (samples), radii, ",
        ),
        ("ball_query:B=two", "B must be an integer ≥ 0, not 'two'"),
        ("ball_query:B=-1", "B must be an integer ≥ 0, not '-1'"),
        ("ball_query:nsample=foo", "nsample must be an integer, not 'foo'"),
        ("ball_query:what=foo", "what must be one of scattered, offset, "),
        ("ball_query:dtype=int8", "unknown dtype 'int8'. Known: float, half."),
        ("ball_query:recipe=scatter", "unknown recipe 'scatter'. Did you mean 'scattered'?"),
        ("ball_query:recipe=scattered", "recipe 'scattered' needs the argument 'centres'; it takes: centres, points, "),
        ("ball_query:seed=-1", "seed must be an integer from 0 to 4294967295, not '-1'"),
        ("ball_query:B", "'B' has no value; write NAME=VALUE,NAME=VALUE"),
        ("ball_query:B=2,", "'' has no value; write NAME=VALUE,NAME=VALUE"),
        ("ball_query:B=", "B must be an integer ≥ 0, not ''"),
        ("ball_query:B=2,batches=3", "two of the names mean the same"),
        ("ball_query:B=2,B=3", "two of the names mean the same"),
        ("ball_query:dtype=half,dtype=float", "two of the names mean the same"),
        ("abs:dims=foo", "dims must be a list of an integer, e.g. 3x3x3, not 'foo'"),
        (
            "dynamic_scatter_backward:N=3,M=5",
            "no such call can be made: points=3, voxels=5, channels=4 do not go togeth",
        ),
        ("roipoint_pool3d:pts_num=3", "refuses its arguments: 4 samples of this scene take at least 40 points"),
    ],
)
def test_words_that_do_not_fit_are_refused(cli, call, words):
    result = cli("show", call).expect_code(2)
    assert words in result.err


def test_a_typed_call_is_nothing_to_generate(cli):
    assert "has no declaration; `run` takes it as it is" in cli("generate", CALL).expect_code(2).err


def test_lists_and_words_of_a_recipe_are_typed_too(cli):
    shown = cli("list", "--format", "json", "abs:dims=2x3,values=nan", "get_indice_pairs:kernel=1x2x3,pad=0x1x1").out
    first, second = json.loads(shown)
    assert first["inputs"][0]["dims"] == [2, 3]
    assert second["params"]["filter_space"] == [1, 2, 3]


def test_an_operator_without_a_space_takes_the_words_of_its_first_recipe(cli, toy_with):
    toy_root = toy_with()
    assert cli("list", "--format", "ids", "--root", toy_root, "scale_by:count=3").lines == [
        "scale_by/recipe=ramp,count=3,dtype=float"
    ]


def test_a_new_operator_is_called_before_anything_is_generated(cli, run):
    cli("new", "operator", "row_sum", "--root", "mine").expect_code(0)
    result = run("row_sum:rows=3", "--root", "mine").expect_code(0)
    assert result.report["selection"]["left_out"] == 0


def test_selecting_a_call_selects_nothing_else():
    chosen = Session().select(Query((CALL,)))
    assert [case.id for case in chosen.cases] == [ID]
