"""Times of a source that several slots of a run share."""

import threading
from concurrent.futures import ThreadPoolExecutor

from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases


def test_what_another_slot_makes_meanwhile_is_no_part_of_a_load(toy, monkeypatch):
    drafts = list(toy.drafts.values())[:2]
    making, loading = (draft.id for draft in drafts)
    source = StoredCases(toy, tuple(Selected(d.id, d.operator, d.tags, draft=d) for d in drafts))
    has_begun, is_made = threading.Event(), threading.Event()

    def load(selected):
        if selected.id == making:
            has_begun.wait()
            source._count_generated(1000.0)
            is_made.set()
        else:
            has_begun.set()
            is_made.wait()

    monkeypatch.setattr(source, "_load", load)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(source.load, (loading, making)))
    assert source.times.generate == 1000.0
    # The 1000 seconds are made up and count against the slot that makes; the other one has waited for a moment.
    assert -1000.0 < source.times.load < -900.0
