"""A worker says what it has begun with, but not of every quick case."""

from mluops_gtest.cluster.worker import now_and_then


def told_at(*seconds):
    now, told = [0.0], []
    announce = now_and_then(told.append, lambda: now[0])
    for second in seconds:
        now[0] = second
        announce(str(second))
    return told


def test_the_first_is_always_told():
    assert told_at(0.0) == ["0.0"]


def test_quick_ones_are_passed_over_and_what_follows_a_slow_one_is_told():
    assert told_at(0.0, 0.01, 0.02, 0.5, 0.51, 0.9) == ["0.0", "0.5", "0.9"]
