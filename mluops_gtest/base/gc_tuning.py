"""Python's search for garbage, held back where it finds none.

Rows of the benchmarks justify it: without a late threshold and `skip_final_gc` start-up/show and start-up/run take a
fifth more processor time, without `no_garbage_collection` start-up/list-all does.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

# Objects of about ten small cases.
_FEW_CASES: Final = 5000
# More objects than the modules of any command make.
_WHOLE_START: Final = 100_000


def raise_gc_threshold() -> None:
    """Let the search for garbage begin late: modules make many objects that all stay, and a short command no others."""
    gc.set_threshold(_WHOLE_START, *gc.get_threshold()[1:])


def skip_final_gc() -> None:
    """The process ends now: Python need not search all that is there once more, the system takes it back."""
    gc.freeze()


@contextlib.contextmanager
def gc_frozen() -> Iterator[None]:
    """What is there now stays: the search passes over it, and looks through what comes later after every few cases."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_FEW_CASES, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Loading makes many objects that all stay; looking for garbage among them takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
