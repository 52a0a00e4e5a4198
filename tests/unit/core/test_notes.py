"""Remarks without end: bounded while they are made, head and tail kept, the cut told."""

import pytest

from mluops_gtest.base.text import cut_text
from mluops_gtest.core.call import Notes, OpCall, notes_within_limit


def test_few_remarks_stay_as_they_are():
    notes = Notes(["a"])
    notes.append("b")
    notes.extend(["c", 4])
    assert notes.within_limit() == ("a", "b", "c", "4")
    assert notes == ["a", "b", "c", "4"]


def test_of_many_the_first_and_the_last_are_kept():
    notes = Notes(most=10_000)
    largest = 0
    for i in range(100_000):
        notes.append(f"note {i}")
        largest = max(largest, len(notes))
    kept = notes.within_limit()
    assert largest < 300  # never more than twice the limit
    assert kept[:2] == ("note 0", "note 1")
    assert kept[-1] == "note 99999"
    (cut,) = [note for note in kept if "cut" in note]
    assert cut == f"[… {100_000 - (len(kept) - 1)} notes cut …]"
    assert sum(map(len, kept)) <= 10_000
    assert notes.within_limit() == kept


@pytest.mark.parametrize("size", [0, 1, 3000, 10**6])
def test_whatever_the_sizes_the_limit_holds(size):
    notes = Notes(("x" * size for _ in range(500)), most=10_000)
    kept = notes.within_limit()
    assert sum(map(len, kept)) <= 10_100
    assert kept[0][:1] == kept[-1][:1] == "x"[:size]


def test_a_list_that_was_filled_behind_our_back_is_cut_in_the_end():
    notes = Notes(most=1000)
    notes[:] = ["x" * 100] * 1000
    assert sum(map(len, notes.within_limit())) <= 1100
    assert len(notes_within_limit(["x" * 100] * 1000, 1000)) < 20


def test_a_call_has_such_notes():
    call = OpCall("op", {}, {}, {})
    for _ in range(100):
        call.notes.append("x" * 100_000)
        call.refusals.append("y" * 100_000)
    assert sum(map(len, notes_within_limit(call.notes))) + sum(map(len, notes_within_limit(call.refusals))) <= 1 << 20


def test_a_text_is_cut_in_the_middle():
    assert cut_text("abc", 3) == "abc"
    text = cut_text("head" + "x" * 1000 + "tail", 100)
    assert len(text) <= 101
    assert text.startswith("head")
    assert text.endswith("tail")
    assert "[… 908 characters cut …]" in text
