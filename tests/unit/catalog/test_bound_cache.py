"""Bounds beside cached cases: computed once, never stale, never damaged; times of a source that several slots share."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mluops_gtest.base.files import ENVIRONMENT
from mluops_gtest.catalog import source as source_module
from mluops_gtest.catalog.cache import cache_contents
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import BoundCache, StoredCases, array_file
from mluops_gtest.core.buffers import computed_bounds

LARGE = "voxel_pooling_forward/precision_wide_long"
SMALL = "voxel_pooling_forward/precision_wide"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def load(cache):
    session = Session()

    def of(name):
        selected = session.select_one(name)
        return session.source((selected,)).load(name), session.catalogue.operators[selected.operator]

    return of


@pytest.fixture
def bounds():
    session = Session()
    return BoundCache(lambda operator: session.catalogue.root_of(operator).generators)


def same(found, wanted):
    return found.keys() == wanted.keys() and all(
        np.array_equal(getattr(found[name], part), getattr(wanted[name], part))
        and np.ndim(getattr(found[name], part)) == np.ndim(getattr(wanted[name], part))
        for name in wanted
        for part in ("magnitude", "roundings", "unit", "afterwards", "products")
    )


def files(cache):
    return sorted(cache.rglob("bound-*"))


def refuse(*_):
    raise AssertionError("the bound is computed again")


def test_the_second_run_reads_what_the_first_computed(load, bounds, cache, monkeypatch):
    case, operator = load(LARGE)
    wanted = computed_bounds(case, operator)
    assert same(bounds(case, operator), wanted)
    (file,) = files(cache)
    assert file.parent == case.path.parent
    contents = cache_contents(cache)
    assert (len(contents.cases), contents.foreign) == (1, [])
    monkeypatch.setattr(source_module, "bounds_of", refuse)
    assert same(bounds(case, operator), wanted)


def flipped(data):
    """One bit of the first array."""
    return data[:210] + bytes([data[210] ^ 1]) + data[211:]


OTHER = {"output_features.magnitude": np.zeros((3, 5)), "output_features.roundings": np.array(1)}
PIECES = (b"", b"PK\x03\x04 and no more", b"".join(array_file(OTHER)))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-40], flipped, *(lambda _, piece=piece: piece for piece in PIECES)]
)
def test_damage_is_computed_again(load, bounds, cache, damage):
    case, operator = load(LARGE)
    wanted = computed_bounds(case, operator)
    bounds(case, operator)
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert file.read_bytes() != whole
    assert same(bounds(case, operator), wanted)
    assert same(bounds(case, operator), wanted)


def test_other_code_computes_its_own_and_removes_the_old(load, bounds, cache, monkeypatch):
    case, operator = load(LARGE)
    bounds(case, operator)
    (old,) = files(cache)
    monkeypatch.setattr(source_module, "code_digest", lambda *_: "0123456789abcdef")
    bounds(case, operator)
    (new,) = files(cache)
    assert (new.name, old.exists()) == ("bound-0123456789abcdef.arrays", False)


def test_committed_cases_keep_nothing(load, bounds, cache):
    case, operator = load(SMALL)
    assert same(bounds(case, operator), computed_bounds(case, operator))
    assert files(cache) == []


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(load, bounds, cache, monkeypatch):
    case, operator = load(LARGE)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(source_module, "replace_file", full)
    assert same(bounds(case, operator), computed_bounds(case, operator))


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
