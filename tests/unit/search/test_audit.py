"""Rules of the audit: shapes in symbols, the order of checks, sizes whose ends count, and the verdict they ask for."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mluops_gtest.authoring import Check, DType, Layout, OutputSpec, SizedAxis, Status, TensorSpec, call_of, exact
from mluops_gtest.catalog.derived_lock import Derivation, DerivedCase, Unseen
from mluops_gtest.catalog.make import each_check, make_case
from mluops_gtest.catalog.number_ranges import case_symbols
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.case import Case, Expect
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.shape import ShapeError
from mluops_gtest.core.tensor import Tensor, TensorDesc
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import (
    Implementation,
    Subject,
    check_has_case,
    checks_in_order,
    earlier_forms,
    judged,
    no_check_forgotten,
)
from mluops_gtest.search.audit_values import sizes_live
from mluops_gtest.search.status_mutants import RefusedCall
from tests.support.check_order import shows_order
from tests.support.toy_root import write_toy_root
from tests.unit.running.small_operator import DOUBLES, doubling

ORDER = {
    "null": Status.BAD_PARAM,
    "rank": Status.BAD_PARAM,
    "strided": Status.NOT_SUPPORTED,
    "rows_empty": Status.SUCCESS,
    "columns_empty": Status.SUCCESS,
}


def call_that_breaks(*names):
    return call_of("toy", {name: name in names for name in ORDER}, {"values": np.zeros(1)}, {})


@pytest.fixture
def operator(operators):
    def check(name, status):
        return Check(name, status, lambda call: not call.param(name), "", "")

    checks = tuple(check(name, status) for name, status in ORDER.items())
    return replace(operators["voxel_pooling_forward"], checks=checks)


@pytest.fixture
def problems_of(operator):
    """What a rule says of cases that break these checks; each expects the first of its own."""

    def find(rule, *cases, derived=NOTHING, **changes):
        changed = replace(operator, **changes)
        calls = []
        for names in map(str.split, cases):
            holds = tuple(each_check(call_that_breaks(*names), changed))
            calls.append(RefusedCall(names[0], holds, list(ORDER).index(names[0]), can_be_written=False))
        subject = SimpleNamespace(
            operator=changed,
            reachable=tuple(check for check in changed.checks if check.subsumed is None),
            generator=Path("toy.py"),
            declarations=Path("cases/toy.yaml"),
            drafts=(),
            computing=(),
            tagged=lambda _: (SimpleNamespace(expect=SimpleNamespace(check=call.id)) for call in calls),
            refused=lambda: tuple(calls),
            derived=derived,
        )
        return [(problem.message, problem.remedy, problem.is_note) for problem in rule(subject)]

    return find


NOTHING = Derivation("")
EVERY_PAIR = ["null strided rows_empty columns_empty", "rank strided rows_empty columns_empty"]
EVERY_PAIR += ["strided rows_empty columns_empty", "rows_empty", "columns_empty"]
OTHERS = EVERY_PAIR[1:]
ADD = "Add `- {{standard: {}, base: NAME}}` to toy.yaml and run `mluops-test generate`."


def derived_with(*unseen):
    cases = (DerivedCase(one, "valid", "", Expect(), one) for one in ("checks", "order"))
    return Derivation("", tuple(cases), tuple(Unseen(*one) for one in unseen))


@pytest.mark.parametrize(
    ("cases", "untold"),
    [
        (EVERY_PAIR, []),
        # One finding per check that names all its pairs.
        (["null", *OTHERS], ["check null: no case tells whether it comes before strided, rows_empty, columns_empty"]),
        (["null strided", *OTHERS], ["check null: no case tells whether it comes before rows_empty, columns_empty"]),
    ],
)
def test_pairs_of_checks_that_no_case_tells_apart(problems_of, cases, untold):
    assert problems_of(checks_in_order, *cases) == [(message, ADD.format("order"), False) for message in untold]


def test_pairs_that_the_derivation_gave_up_are_excused_and_listed_where_nothing_says_why(problems_of):
    derived = derived_with(
        ("null", "strided", "order", "same symbol"),
        ("null", "rows_empty", "order", "none of 12 calls", 12, True),
        ("null", "columns_empty", "order", "none of 7 calls", 7, True),
    )
    ((message, _, is_note),) = problems_of(checks_in_order, "null", *OTHERS, derived=derived)
    assert is_note
    assert message.endswith("before rows_empty (none of 12 calls), columns_empty (none of 7 calls)")
    # A case that shows the pair all the same ends the note, and what neither shows nor was tried stays a finding.
    assert problems_of(checks_in_order, *EVERY_PAIR, derived=derived) == []
    ((message, _, is_note),) = problems_of(checks_in_order, "null", *OTHERS, derived=derived_with(*[
        ("null", name, "order", "same symbol") for name in ("strided", "rows_empty")
    ]))  # fmt: skip
    assert (message, is_note) == ("check null: no case tells whether it comes before columns_empty", False)


def test_a_pair_of_which_only_one_mistake_shows_is_no_excuse(problems_of):
    derived = derived_with(("null", "strided", "behind", "a check between them answers, too"))
    ((message, _, is_note),) = problems_of(checks_in_order, "null rows_empty columns_empty", *OTHERS, derived=derived)
    assert (message, is_note) == ("check null: no case tells whether it comes before strided", False)


def test_a_check_that_cannot_look_at_a_call_shows_nothing(problems_of, operator):
    blind = tuple(
        replace(check, holds=lambda call: call.inputs["gone"] is None) if check.name == "columns_empty" else check
        for check in operator.checks
    )
    messages = [message for message, *_ in problems_of(checks_in_order, *EVERY_PAIR[:-1], checks=blind)]
    names = ("null", "rank", "strided")
    assert messages == [f"check {name}: no case tells whether it comes before columns_empty" for name in names]


def test_checks_that_nothing_tells_are_one_finding_with_the_line_to_add(problems_of):
    cases = ["null rank", "strided", "rows_empty"]
    line = ADD.format("checks")
    assert problems_of(check_has_case, *cases) == [("no negative case reaches rank, columns_empty", line, False)]
    told = "a backend passes every case that forgets one of null, rank, rows_empty, columns_empty"
    assert problems_of(no_check_forgotten, *cases) == [(told, line, False)]


def test_what_no_derived_call_tells_is_a_note(problems_of):
    ((message, _, is_note),) = problems_of(no_check_forgotten, "null rank", "rank", "strided", derived=derived_with())
    assert is_note
    assert message.endswith("forgets one of null, rows_empty, columns_empty")
    ((_, remedy, is_note),) = problems_of(check_has_case, "null", "rank", "strided", derived=derived_with())
    assert "expects {status: STATUS, check: NAME}" in remedy
    assert not is_note


def test_a_check_that_is_declared_as_never_reached_and_is_by_a_derived_call_is_told(problems_of, operator):
    never = replace(operator.checks[2], subsumed="rank refuses it")
    checks = (*operator.checks[:2], never, *operator.checks[3:])
    derived = derived_with(("strided", "", "x_strided_gap", "a call reaches it", 0, False, True))
    found = problems_of(check_has_case, "null", "rank", "rows_empty", "columns_empty", derived=derived, checks=checks)
    message = "check strided: it is declared as never reached, but x_strided_gap does"
    assert found == [(message, "Remove strided from `subsumed`.", False)]


def test_what_an_earlier_release_asked_for_is_one_note(problems_of, operator):
    tables = {"not_together": {"null": ("rank",)}, "answered_anyway": {"null": "why"}, "axes": {}}
    ((message, remedy, is_note),) = problems_of(earlier_forms, **tables, sizes={"rows": SizedAxis("x")})
    assert is_note
    assert message == "it is written for an earlier release: not_together=, answered_anyway=, sizes= without axes="
    assert remedy.startswith("Remove what derived.lock says instead; write axes=")
    assert problems_of(earlier_forms, not_together={}, answered_anyway={}, sizes={}) == []


def test_a_case_shows_an_order_only_by_a_later_check_of_another_status(operator):
    assert shows_order(operator, "null", call_that_breaks("null", "rows_empty"))
    assert not shows_order(operator, "null", call_that_breaks("null", "rank"))
    assert not shows_order(operator, "rows_empty", call_that_breaks("rows_empty", "columns_empty"))
    assert not shows_order(operator, "rank", call_that_breaks("rank"))
    never = replace(operator.checks[2], subsumed="rank refuses it")
    unreached = replace(operator, checks=(*operator.checks[:2], never, *operator.checks[3:]))
    assert not shows_order(unreached, "null", call_that_breaks("null", "strided"))


class Operator:
    """The tensors of an operator are all that shapes need."""

    def __init__(self, x, y, layouts=(Layout.ARRAY,), optional=frozenset()):
        self.tensors = (TensorSpec("x", x, (DType.FLOAT,), layouts), OutputSpec("y", y, {DType.FLOAT: exact()}))
        self.tensor = {spec.id: spec for spec in self.tensors}.__getitem__
        self.optional = optional


def case(x, y, params=None, layout=Layout.ARRAY):
    inputs, outputs = (
        (Tensor(name, TensorDesc(DType.FLOAT, layout, dims), np.zeros(0, "<f4")),)
        for name, dims, layout in (("x", x, layout), ("y", y, Layout.ARRAY))
    )
    return Case("op/case", "op", inputs, outputs, params or {}, ((),))


SCALED = "[N, C]", "[C·k, ≥ n_out]", {"k": 2, "n_out": 7}


@pytest.mark.parametrize(
    ("declared", "x", "y", "message"),
    [
        (SCALED, (3, 5), (9, 9), "axis 0 of y is 9; the shape says C·k, which is 10"),
        (SCALED, (3, 5), (11, 9), "axis 0 of y is 11; the shape says C·k, which is 10"),
        (SCALED, (3, 5), (10, 6), "axis 1 of y is 6; the shape says ≥ n_out, which is 7"),
        (SCALED, (3, 5, 1), (10, 9), "x has 3 axes"),
        # One name is one length, and a parameter decides.
        (("[N, C]", "[N]", {}), (3, 5), (4,), "axis 0 of y is 4; N is 3 elsewhere"),
        (("[N, C]", "[N]", {"N": 8}), (3, 5), (3,), "axis 0 of x is 3; N is 8 elsewhere"),
    ],
)
def test_a_shape_that_does_not_hold_is_told(declared, x, y, message):
    *shapes, params = declared
    with pytest.raises(ShapeError, match=message):
        case_symbols(case(x, y, params), Operator(*shapes))


def test_an_input_that_a_call_may_lack_has_no_size_where_it_has_no_elements():
    operator = Operator("[C]", "[N, C]", optional=frozenset({"x"}))
    assert case_symbols(case((0,), (3, 5)), operator) == {"N": 3, "C": 5}
    with pytest.raises(ShapeError, match="axis 1 of y is 5; C is 4 elsewhere"):
        case_symbols(case((4,), (3, 5)), operator)


def test_sizes_are_found_where_axes_are_optional_and_layouts_several():
    *shapes, params = SCALED
    assert case_symbols(case((3, 5), (10, 9), params), Operator(*shapes)) == {"N": 3, "C": 5}
    operator = Operator("[[D,] H, W]", "[H]")
    assert case_symbols(case((2, 3), (2,)), operator) == {"H": 2, "W": 3}
    assert case_symbols(case((4, 2, 3), (2,)), operator) == {"D": 4, "H": 2, "W": 3}
    operator = Operator("[N, C] as ARRAY, [C, N] as NHWC", "[N]", (Layout.NHWC, Layout.ARRAY))
    assert case_symbols(case((5, 3), (5,)), operator) == {"N": 5, "C": 3}
    assert case_symbols(case((3, 5), (5,), layout=Layout.NHWC), operator) == {"N": 5, "C": 3}
    # A layout without a form says nothing.
    operator = Operator("[N, C] as ARRAY", "[N]", (Layout.NHWC, Layout.ARRAY))
    assert case_symbols(case((5, 3), (9,), layout=Layout.NHWC), operator) == {"N": 9}


def test_an_axis_that_is_missing_counts_once_in_products():
    operator = Operator("[[D,] H, W]", "[D·H]")
    assert case_symbols(case((4, 2, 3), (8,)), operator) == {"D": 4, "H": 2, "W": 3}
    assert case_symbols(case((2, 3), (2,)), operator) == {"H": 2, "W": 3}
    with pytest.raises(ShapeError, match=r"axis 0 of y is 3; the shape says D·H, which is 2"):
        case_symbols(case((2, 3), (3,)), operator)


@pytest.fixture
def size_problems(tmp_path):
    """What the rule says of ramps of 3 elements that are declared for these sizes."""
    catalogue = Catalogue(Root(write_toy_root(tmp_path)))

    def find(axis, *, x=(1.0, 2.0, 3.0), declared=3, **changes):
        operator = replace(catalogue.operators["scale_by"], sizes={} if axis is None else {"count": axis}, **changes)
        ramp = catalogue.drafts["scale_by/ramp_3"]
        case = make_case(ramp, replace(operator, recipes={"ramp": _listed(operator.recipes["ramp"], x)}))
        draft = ramp if axis is None else replace(ramp, sizes={"count": declared})
        subject = Subject(
            operator=operator,
            generator=tmp_path / "generators" / "scale_by.py",
            declarations=tmp_path / "cases" / "scale_by.yaml",
            drafts=(draft,),
            cases=(),
            mutants=(),
            variants={},
            seeds=0,
            reseeded=lambda case_id, seed: case,
            load=lambda case_id: case,
        )
        return [problem.message for problem in sizes_live(subject)]

    return find


def _listed(ramp, x):
    def recipe(draw, params, dtype, **args):
        return replace(ramp(draw, params, dtype, **args), inputs={"x": np.array(x, "<f4")})

    return recipe


PASSES = "scale_by/ramp_3: an implementation that loses index {} of count, one of 3, passes"


@pytest.mark.parametrize("axis", [SizedAxis("x"), SizedAxis("y"), SizedAxis("x", -1)])
def test_an_end_that_changes_nothing_or_less_than_every_criterion_is_told(size_problems, axis):
    assert size_problems(axis) == []
    assert size_problems(axis, x=(0.0, 2.0, 3.0)) == size_problems(axis, x=(1e-9, 2.0, 3.0)) == [PASSES.format(0)]
    assert size_problems(axis, x=(1.0, 2.0, 0.0)) == [PASSES.format(2)]


def test_another_size_than_the_declared_one_and_an_operator_without_any_are_told(size_problems):
    assert size_problems(SizedAxis("x"), declared=4) == ["scale_by/ramp_3 is declared for count 4, but has 3"]
    assert size_problems(None) == ["no size is declared, so nothing shows that the ends of any axis count"]


def raising(call):
    raise IndexError("no such row")


@pytest.mark.parametrize(
    ("axis", "changes", "why"),
    [
        (SizedAxis("x", without=lambda call, index: {"x": np.ones(7, "<f4")}), {}, "not float32 [3]"),
        (SizedAxis("x"), {"kernel": lambda call: Status.BAD_PARAM}, ""),
        (SizedAxis("x"), {"kernel": raising}, "no such row"),
    ],
    ids=["another shape", "refused", "raised"],
)
def test_a_kernel_that_cannot_be_run_proves_nothing(size_problems, axis, changes, why):
    problems = size_problems(axis, **changes)
    assert len(problems) == 2
    assert all("the kernel cannot be run without index" in one and one.endswith(why) for one in problems)


def triples(call):
    call.array("y")[...] = 3 * call.array("x")
    call.scalars["count"] = call.array("x").size
    return Status.SUCCESS


def test_a_failure_is_judged_as_in_a_run_but_not_explained():
    in_a_run = CaseRun(InlineCaller(Implementation("triples", triples)), Options()).run_case(doubling(), DOUBLES)
    of_a_rule = judged("triples", triples, doubling(), DOUBLES)
    assert in_a_run.outcome is of_a_rule.outcome is Outcome.FAILED
    assert in_a_run.causes == of_a_rule.causes
    assert in_a_run.explained
    assert not of_a_rule.explained
