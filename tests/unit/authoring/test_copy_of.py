"""Outputs that are copies: what follows from a definition, and what each of its wrong implementations does."""

import numpy as np
import pytest

from mluops_gtest.authoring import Status, call_of
from mluops_gtest.authoring.copy_of import CopyOf, define_copies, wrong_copies

HELD = 7.0
SOURCE = [2, -1, 0, 0]


def copies(call):
    """Elements 2, none, 0 and 0 of each row."""
    return CopyOf(call.array("values"), np.array(SOURCE), (len(call.array("values")), 2, 2))


def make_call(values):
    values = np.array(values, np.float32)
    return call_of("toy", {}, {"values": values}, {"out": np.full((len(values), 2, 2), HELD, np.float32)})


def answers(name, values):
    """What the wrong implementation writes, a row per row of values."""
    run = next(one for one in wrong_copies("out", copies) if one.name == name).fresh()
    call = make_call(values)
    assert run(call) is Status.SUCCESS
    return call.array("out").reshape(len(values), -1).tolist()


ROWS = [[1, 2, 3], [4, 5, 6]]
RIGHT = [[3, 0, 1, 1], [6, 0, 4, 4]]


@pytest.mark.parametrize("source", [SOURCE, [-1, -1, -1, 1], [-1] * 4, [0, 1, 2, 1]])
def test_each_element_comes_from_one_place_or_from_none(source):
    values = np.array(ROWS, np.float32)
    copied = CopyOf(values, np.array(source), (2, 4), outside=9.0).copied()
    assert copied.tolist() == [[row[at] if at >= 0 else 9.0 for at in source] for row in ROWS]


def test_bits_are_copied():
    bits = np.array([[0x7F800001, 0x80000000, 0xFFC12345]], np.uint32)
    copied = CopyOf(bits.view(np.float32), np.array([2, 0, 1, -1]), (1, 4)).copied()
    assert copied.view(np.uint32).tolist() == [[0xFFC12345, 0x7F800001, 0x80000000, 0]]


def test_rows_have_places_of_their_own():
    copy = CopyOf(np.array(ROWS, np.float32), np.array([[2, -1, 0], [-1, -1, 1]]), (2, 3), outside=9.0)
    assert copy.copied().tolist() == [[3, 9, 1], [9, 9, 5]]
    assert copy.is_copied.tolist() == [[True, False, True], [False, False, True]]


@pytest.mark.parametrize("source", [[1, -1, 0], [-1, -1, 1], [[1, -1, 0], [-1, -1, 1]]])
def test_runs_are_copied_as_a_whole(source):
    values = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    copy = CopyOf(values, np.array(source), (2, 6), outside=9.0)
    places = source if np.ndim(source) == 2 else [source, source]
    wanted = [[values[row, at].tolist() if at >= 0 else [9, 9] for at in places[row]] for row in range(2)]
    assert copy.copied().reshape(2, 3, 2).tolist() == wanted
    assert copy.is_copied.tolist() == [[at >= 0 for at in of_row for _ in range(2)] for of_row in places]


def test_reference_bound_and_suspect_follow():
    definition, call = define_copies("out", copies, row="plane"), make_call(ROWS)
    assert definition.reference(call).outputs["out"].reshape(2, 4).tolist() == RIGHT
    assert definition.bound(call)["out"].magnitude == 0
    (suspect,) = definition.suspects.items()
    assert suspect[0] == "every plane is the first one"
    assert suspect[1](call)["out"].reshape(2, 4).tolist() == [RIGHT[0], RIGHT[0]]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("first_channel_everywhere", [RIGHT[0], RIGHT[0]]),
        ("last_channel_lost", [RIGHT[0], [0, 0, 0, 0]]),
        ("channel_tail_lost", RIGHT),
        ("adds_to_out", [[10, 7, 8, 8], [13, 7, 11, 11]]),
        ("outside_not_written", [[3, HELD, 1, 1], [6, HELD, 4, 4]]),
    ],
)
def test_a_wrong_copy_is_wrong_where_its_name_says(name, wrong):
    assert answers(name, ROWS) == wrong


def test_rows_behind_whole_tiles_are_lost():
    rows = answers("channel_tail_lost", [ROWS[0]] * 65)
    assert rows[:64] == [RIGHT[0]] * 64
    assert rows[64] == [0, 0, 0, 0]


def test_bits_are_changed_by_those_that_change_values():
    assert answers("drops_nan", [[np.nan, 2, 3]]) == [[3, 0, 0, 0]]
    assert answers("clamps_infinity", [[np.inf, 2, 3]])[0][2] == np.finfo(np.float32).max
    assert answers("flushes_denormals", [[1e-40, 2, 3]]) == [[3, 0, 0, 0]]
    assert answers("through_half", [[1 + 2**-20, 2, 3]]) == [[3, 0, 1, 1]]


def test_names_are_all_different():
    names = [one.name for one in wrong_copies("out", copies)]
    assert len(set(names)) == len(names) == 10
