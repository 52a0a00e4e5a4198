"""What all tests share: the content of this checkout, read once, folders of their own, and the number of workers."""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mluops_gtest.casefiles import lock as lock_module
from mluops_gtest.catalog import operators as operators_module
from mluops_gtest.catalog import selection as catalogue_module
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, Selected
from mluops_gtest.catalog.source import StoredCases
from tests.support.examples import examples

ROOT = Path(__file__).parents[1]
# What the next run of the tests finds again.
KEPT = ROOT / ".pytest_cache"
# There is a worker per core, where threads of BLAS and torch would wait for each other; they read this when they are
# loaded.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# Compiled modules, whatever the environment says of them: to compile all takes a worker ten seconds, and a process of a
# test one. Workers and processes inherit it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Thousands of collected tests stay for good: looking for garbage among them takes a third of the time of collecting.
gc.disable()


def is_quick(config):
    """Whether this is the tier of daily work."""
    return config.option.markexpr == "not slow"


def pytest_configure(config):
    """Before the modules of tests are read: they say how many examples their properties want, and load operators."""
    if is_quick(config):
        os.environ.setdefault("MLUOPS_TEST_EXAMPLES", "25")
    settings.register_profile(
        "untimed",
        # How long an example takes depends on what else the machine is doing.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        max_examples=examples(),
    )
    settings.load_profile("untimed")
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for module, name in (
        (operators_module, "load_operator"),
        (catalogue_module, "load_declarations"),
        (lock_module, "read_lock"),
    ):
        patch.setattr(module, name, parsed_once(getattr(module, name)))


def parsed_once(function):
    """The content of this checkout stays as it is while tests run; to parse it takes most of a short command."""
    results = {}

    def call(path, *others):
        if not path.is_relative_to(ROOT):
            return function(path, *others)
        key = (path, *map(id, others))
        if key not in results:
            # The others are kept, so that no new object gets an id that is a key here.
            results[key] = others, function(path, *others)
        found = results[key][1]
        return dict(found) if isinstance(found, dict) else found

    return call


def pytest_collection_modifyitems(items):
    """Slow tests first, the slowest before them: no worker is left alone with a long one at the end."""

    def seconds(item):
        mark = item.get_closest_marker("slow")
        return 0 if mark is None else mark.kwargs.get("seconds", 1)

    items.sort(key=seconds, reverse=True)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers(config):
    """A worker per core, and one more for slow tests, which wait for processes, time limits and disks.

    Each takes ten seconds of processor time before its first test.
    """
    return len(os.sched_getaffinity(0)) + (0 if is_quick(config) else 1)


@pytest.fixture(scope="session", autouse=True)
def _own_folders():
    """Tests neither use nor fill the user's cache of cases.

    To make all large cases takes minutes; one that is found again is compared with the lock before it is used.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLUOPS_TEST_CACHE", str(KEPT / "cases"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_settings():
    """No settings file above a temporary folder has a say in any test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLUOPS_TEST_SETTINGS", "none")
        yield


@pytest.fixture(scope="session")
def catalogue():
    return Catalogue(Root(ROOT))


@pytest.fixture(scope="session")
def operators(catalogue):
    return catalogue.operators


@pytest.fixture(scope="session")
def load_case(catalogue):
    """Loads the declared case of an id, complete."""

    def load(case_id):
        draft = catalogue.draft(case_id)
        selected = Selected(draft.id, draft.operator, draft.tags, draft=draft)
        return StoredCases(catalogue, (selected,)).load(case_id)

    return load
