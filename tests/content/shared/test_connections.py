"""Tables of pairs keep what convolutions take for granted, and a table that breaks it is told so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators._shared import connections as connections_module
from generators._shared.clouds import network_layer, small_layer
from generators._shared.connections import (
    Connections,
    any_pairs,
    broken_pairs,
    pairs_of_layer,
    site_connections,
)
from generators._shared.sparse import derive_geometry, find_pairs
from mluops_gtest.authoring import Draw

ONES = (1, 1, 1)


def make_connections(seed: int, kernel: tuple[int, ...], rows_in: int, rows_out: int, *, sub_m: bool = False, **more):
    """Random connections."""
    return any_pairs(Draw(seed), {"sub_m": int(sub_m)}, kernel=kernel, rows_in=rows_in, rows_out=rows_out, **more)


def broken(connections: Connections, **change) -> str | None:
    wanted = {
        "offsets": len(connections.counts),
        "rows_in": connections.rows_in,
        "rows_out": connections.rows_out,
        "sub_m": connections.sub_m,
        **change,
    }
    return broken_pairs(connections.pairs, connections.counts, **wanted)


@pytest.mark.parametrize("sub_m", [False, True])
@pytest.mark.parametrize("tail", ["minus_one", "stale"])
def test_random_pairs_are_sound(tail, sub_m):
    for seed in range(30):
        rows = 1 + seed % 7
        rows_out = rows if sub_m else 1 + seed % 5
        made = make_connections(seed, (3, 1), rows, rows_out, tail=tail, sub_m=sub_m)
        assert made.pairs.shape == (3, 2, rows)
        assert broken(made) is None
        behind = np.concatenate([made.pairs[k, :, count:] for k, count in enumerate(made.counts)], axis=1)
        assert (behind == -1).all() if tail == "minus_one" else (behind >= 0).all()
        assert [used.shape for used in made.used] == [(2, count) for count in made.counts]


def test_counts_are_one_for_all_one_each_or_drawn():
    assert make_connections(0, (2, 2), 5, 4, counts=(3,)).counts == (3, 3, 3, 3)
    assert make_connections(0, (2, 2), 5, 4, counts=(0, 1, 4, 2)).counts == (0, 1, 4, 2)
    found = {make_connections(seed, (1, 1), 5, 4).counts for seed in range(60)}
    assert found == {(count,) for count in range(5)}
    for counts in ((1, 2), (5,), (-1,)):
        with pytest.raises(ValueError, match="counts must be one number or 4, each in 0 … 4"):
            make_connections(0, (2, 2), 5, 4, counts=counts)


def test_sub_m_pairs_every_row_with_itself_in_the_middle():
    made = make_connections(0, (3, 3), 6, 6, counts=(2,), sub_m=True)
    assert made.counts == (2, 2, 2, 2, 6, 2, 2, 2, 2)
    assert made.pairs[4].tolist() == [list(range(6))] * 2


def test_site_connections_are_those_of_the_convolution():
    geometry = derive_geometry(2, (3, 4, 5), (3, 3, 3), (2, 2, 2), ONES, ONES, sub_m=False)
    made = site_connections(Draw(3), geometry, 20)
    assert geometry.output_space == (2, 2, 3)
    assert (made.rows_in, made.kernel, made.sub_m) == (20, (3, 3, 3), False)
    assert broken(made) is None
    within = derive_geometry(1, (3, 3, 3), (3, 3, 3), ONES, (0, 0, 0), ONES, sub_m=True)
    assert within.output_space == (3, 3, 3)
    with pytest.raises(ValueError, match="no two sites are neighbours"):
        site_connections(Draw(3), derive_geometry(1, (64, 64, 64), (3, 3, 3), ONES, ONES, ONES, sub_m=True), 2)


@pytest.mark.slow
def test_layers_and_their_twins():
    for layer, sub_m in (("out_5x180x180", False), ("subm_5x180x180", True)):
        whole, twin = (pairs_of_layer(Draw(0), {}, layer=layer, keep=keep) for keep in (0, 24))
        found = find_pairs(*network_layer(layer, Draw(0)))
        np.testing.assert_array_equal(whole.pairs, found.indice_pairs)
        assert whole.counts == tuple(found.indice_num.tolist())
        assert whole.rows_out == len(found.out_indices)
        assert twin.rows_in == 24 < len(small_layer(layer, Draw(0))[0])
        for made in (whole, twin):
            assert made.sub_m is sub_m
            assert broken(made) is None


@pytest.mark.parametrize(
    ("entry", "row", "words"),
    [
        ((0, 0, 1), 7, "indice_pairs[0, 0] names a row outside of 0 … 4"),
        ((1, 1, 0), 4, "indice_pairs[1, 1] names a row outside of 0 … 3"),
        ((1, 1, 2), -1, "indice_pairs[1, 1] names a row outside of 0 … 3"),
    ],
)
def test_rows_that_do_not_exist_are_named(entry, row, words):
    made = make_connections(1, (1, 2), 5, 4, counts=(4,))
    made.pairs[entry] = row
    assert broken(made) == words


def test_a_row_that_one_offset_names_twice_is_named():
    made = make_connections(1, (1, 2), 5, 4, counts=(4,))
    made.pairs[1, 0, 3] = made.pairs[1, 0, 0]
    assert broken(made) == f"indice_pairs[1, 0] names row {made.pairs[1, 0, 0]} more than once"


def test_a_wrong_number_of_counts_and_a_centre_that_is_no_identity_are_named():
    made = make_connections(1, (1, 3), 4, 4, counts=(4,))
    assert broken(made, offsets=4) == "indice_num has 3 entries for 4 kernel offsets"
    assert broken(made, sub_m=True) == "with sub_m the centre, indice_pairs[1], must join each of the 4 rows to itself"
    wide = make_connections(1, (1, 3), 4, 5, counts=(4,))
    assert "4 input rows must be the output rows too, but there are 5" in (broken(wide, sub_m=True) or "")
    short = make_connections(1, (1, 1), 4, 4, counts=(3,))
    short.pairs[0, 1] = short.pairs[0, 0]
    assert broken(short) is None
    assert "must join each of the 4 rows" in (broken(short, sub_m=True) or "")


@given(st.data())
def test_one_look_at_all_offsets_finds_what_a_look_at_each_finds(data):
    offsets, rows_in, rows_out = (data.draw(st.integers(1, 4)) for _ in range(3))
    entries = st.lists(st.integers(-1, 4), min_size=offsets * 2 * rows_in, max_size=offsets * 2 * rows_in)
    pairs = np.array(data.draw(entries), np.int32).reshape(offsets, 2, rows_in)
    counts = data.draw(st.lists(st.integers(0, rows_in), min_size=offsets, max_size=offsets))
    wanted = {"offsets": offsets, "rows_in": rows_in, "rows_out": rows_out}
    at_once = broken_pairs(pairs, counts, **wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections_module, "_AT_ONCE", -1)
        assert broken_pairs(pairs, counts, **wanted) == at_once
