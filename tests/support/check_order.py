"""Whether a call tells in which order checks are asked, and which orders the stored cases of an operator tell."""

from mluops_gtest.catalog.check_order import orders_told_by
from mluops_gtest.catalog.declarations import load_written
from mluops_gtest.catalog.derived_lock import read_current
from mluops_gtest.catalog.make import check_answer, make_case
from mluops_gtest.catalog.violation_search import Search
from mluops_gtest.core.operator_parts import SPACE


class StoredOrder:
    """The calls of an operator's refused cases, and what its lock says that no call shows."""

    def __init__(self, root, catalogue, name):
        self.operator = catalogue.operators[name]
        path = root / "cases" / f"{name}.yaml"
        written, standards = load_written(path, self.operator)
        base = standards[0].bases[0]
        search = Search(
            self.operator, {base: make_case(written[base], self.operator)}, catalogue.operators.part(name, SPACE)
        )
        drafts = catalogue.drafts_of(name).values()
        refused = [make_case(draft, self.operator) for draft in drafts if draft.expect.check]
        self.looks = [search.look_at(base, (), case) for case in refused]
        self.unseen = [one for one in read_current(path, standards, written).unseen if one.later]

    @property
    def orders(self):
        return {order for look in self.looks for order in orders_told_by(self.operator, look)}

    def is_seen(self, order):
        """Some call is answered with another status where the checks are asked in that order."""
        checks = self.operator.checks
        return any(
            look.is_defined and look.answer is not None and _status(look, checks, order) != checks[look.answer].status
            for look in self.looks
        )

    def excused_pairs(self):
        """Two checks of which no call shows the first one asked behind the later one, by their places."""
        places = {check.name: place for place, check in enumerate(self.operator.checks)}
        return {(places[one.first], places[one.later]) for one in self.unseen}


def _status(look, checks, order):
    """What the first check that does not hold answers; one that cannot look is taken to hold."""
    return next((checks[place].status for place in order if look.holds[place] is False), None)


def blocks_of(operator):
    """Runs of checks of one kind, as the names of standard checks end, or of own ones: (first place, place behind)."""
    kinds = [_kind(check.name) for check in operator.checks]
    starts = [place for place, kind in enumerate(kinds) if place == 0 or kind != kinds[place - 1]]
    return list(zip(starts, [*starts[1:], len(kinds)], strict=True))


def _kind(name):
    ends = ("array_null", "desc_null", "ptr_null", "rank", "layout", "dtype", "strided", "large", "empty")
    return next((end for end in ends if name.endswith(f"_{end}")), "dim" if name[:-1].endswith("_dim") else "own")


def moved_behind(count, start, stop, last):
    """The order in which the checks from `start` to before `stop` are asked behind those to before `last`."""
    return [*range(start), *range(stop, last), *range(start, stop), *range(last, count)]


def shows_order(operator, expected, call):
    """The call breaks the expected check and a later one of another status, so that their order decides the answer."""
    order = [check.name for check in operator.checks]
    first, *later = operator.checks[order.index(expected) :]
    return any(
        check.status != first.status and check.subsumed is None and check_answer(check, call) is False
        for check in later
    )
