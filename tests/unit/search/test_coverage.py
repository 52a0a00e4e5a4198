"""Pairs of classes and of broken checks: what a draw adds, and how it is written down."""

from mluops_gtest.search.fault_search import Aim, Broken, Coverage, Features, Shows

FEATURES = Features({"n": ["1", "2"], "dtype": ["float", "half"]}, {"null x": "null", "x: dtype": "dtype"}, ["a", "b"])


def test_the_total_counts_every_pair_once():
    # n × dtype, both × the kinds none, null and dtype; two faults; a, b and both checks together; three things that a
    # call shows of each.
    assert FEATURES.total == 2 * 2 + 2 * 3 + 2 * 3 + 2 + 3 + 2 * 3


def test_a_draw_covers_its_pairs_once():
    coverage = Coverage(FEATURES)
    classes = {"n": "1", "dtype": "half"}
    pairs = FEATURES.of_classes(classes) | FEATURES.of_faults(classes, (), Broken())
    assert coverage.new(pairs) == 3
    coverage.add(pairs)
    assert coverage.new(pairs) == 0
    assert coverage.new(FEATURES.of_classes({"n": "2", "dtype": "half"})) == 1


def test_checks_that_break_together_are_a_pair_of_their_own():
    classes = {"n": "1", "dtype": "half"}
    alone = FEATURES.of_faults(classes, ("null x",), Broken(("a",)))
    together = FEATURES.of_faults(classes, ("null x",), Broken(("a", "b")))
    assert len(together - alone) == 1
    assert len(alone - together) == 1


def test_a_draw_reaches_the_aims_that_it_shows():
    both = FEATURES.of_checks((), Broken(("a", "b"), told=True))
    assert {FEATURES.of_aim(aim) for aim in (Aim("a"), Aim("a", Shows.TOLD), Aim("a", later="b"))} == both
    assert FEATURES.of_aim(Aim("a", Shows.WRITTEN)) not in both


def test_everything_that_can_be_drawn_makes_the_total():
    coverage = Coverage(FEATURES)
    for n in "12":
        for dtype in ("float", "half"):
            classes = {"n": n, "dtype": dtype}
            coverage.add(FEATURES.of_classes(classes))
            for faults in ((), ("null x",), ("x: dtype",)):
                for checks in ((), ("a",), ("b",), ("a", "b")):
                    coverage.add(FEATURES.of_faults(classes, faults, Broken(checks, told=True, written=True)))
    assert len(coverage.seen) == FEATURES.total


def test_the_text_gives_the_same_coverage_back():
    coverage = Coverage(FEATURES)
    coverage.add(FEATURES.of_faults({"n": "2", "dtype": "float"}, ("x: dtype",), Broken(("b",))))
    assert Coverage.from_text(FEATURES, coverage.to_text()).seen == coverage.seen
    assert Coverage.from_text(FEATURES, "").seen == set()
