"""The order of checks: which pairs the cases tell apart, and which cases show an order at all."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mluops_gtest.authoring import Check, Status, call_of
from mluops_gtest.search import audit_declarations as declared_rules
from mluops_gtest.search.audit_declarations import checks_in_order
from tests.support.check_order import shows_order

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
    return replace(operators["voxel_pooling_forward"], checks=checks, not_together={})


@pytest.fixture
def untold(operator, monkeypatch):
    """The pairs that cases which break these checks do not tell apart; each expects the first of its own."""

    def find(*cases, **changes):
        changed = replace(operator, **changes)
        refused = [(ORDER[names[0]], names[0], call_that_breaks(*names)) for names in map(str.split, cases)]
        monkeypatch.setattr(declared_rules, "_refused", lambda subject: iter(refused))
        subject = SimpleNamespace(operator=changed, reachable=changed.checks, generator="toy.py")
        return [problem.message for problem in checks_in_order(subject)]

    return find


EVERY_PAIR = ["null strided rows_empty columns_empty", "rank strided rows_empty columns_empty"]
EVERY_PAIR += ["strided rows_empty columns_empty", "rows_empty", "columns_empty"]


def test_a_case_that_breaks_a_check_with_every_later_one_tells_its_place(untold):
    assert untold(*EVERY_PAIR) == []


def test_a_check_that_no_case_breaks_together_with_a_later_status_is_told(untold):
    others = EVERY_PAIR[1:]
    no_case = "check null: no case tells whether it comes before "
    assert untold("null", *others) == [no_case + name for name in ("strided", "rows_empty", "columns_empty")]
    # In front of null columns_empty would be in front of rank, too, where a case shows it.
    assert untold("null strided rows_empty", *others) == []
    assert untold("null strided", *others) == [no_case + "rows_empty", no_case + "columns_empty"]


def test_a_later_check_that_nothing_between_shows_is_told(untold):
    cases = [case.replace(" columns_empty", "") for case in EVERY_PAIR]
    assert untold(*cases) == [
        f"check {name}: no case tells whether it comes before columns_empty" for name in ("null", "rank", "strided")
    ]
    not_together = dict.fromkeys(("null", "rank", "strided"), ("columns_empty",))
    assert untold(*cases, not_together=not_together) == []
    (stale,) = untold(*EVERY_PAIR, not_together={"null": ("columns_empty",)})
    assert stale == "check null: a case breaks columns_empty together with it"


def test_a_pair_is_stale_only_where_a_case_shows_it(untold, operator):
    """No case that breaks the first, or none that the second can look at, shows nothing."""
    not_together = {"null": ("columns_empty",)}
    assert untold(*EVERY_PAIR[1:], not_together=not_together) == []
    blind = tuple(
        replace(check, holds=lambda call: call.inputs["gone"] is None) if check.name == "columns_empty" else check
        for check in operator.checks
    )
    assert untold(*EVERY_PAIR, checks=blind, not_together=not_together) == []


def test_a_case_shows_an_order_only_by_a_later_check_of_another_status(operator):
    assert shows_order(operator, "null", call_that_breaks("null", "rows_empty"))
    assert not shows_order(operator, "null", call_that_breaks("null", "rank"))
    assert not shows_order(operator, "rows_empty", call_that_breaks("rows_empty", "columns_empty"))
    assert not shows_order(operator, "rank", call_that_breaks("rank"))
    never = replace(operator.checks[2], subsumed="rank refuses it")
    unreached = replace(operator, checks=(*operator.checks[:2], never, *operator.checks[3:]))
    assert not shows_order(unreached, "null", call_that_breaks("null", "strided"))
