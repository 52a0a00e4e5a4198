"""Sums that lose a term: against loops in which nothing can be wrong."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from generators._shared.products import Terms


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20))
def test_mistakes_are_those_of_a_loop(places):
    values = np.arange(1.0, 2 * len(places) + 1).reshape(len(places), 2)
    terms = Terms(values, np.array(places), 5)
    last, first_lost, last_lost = (np.zeros((5, 2)) for _ in range(3))
    for number, place in enumerate(places):
        last[place] = values[number]
        if place in places[:number]:
            first_lost[place] += values[number]
        if place in places[number + 1 :]:
            last_lost[place] += values[number]
    np.testing.assert_array_equal(terms.last_alone(), last)
    np.testing.assert_array_equal(terms.without(0), first_lost)
    np.testing.assert_array_equal(terms.without(-1), last_lost)
