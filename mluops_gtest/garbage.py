"""Python's search for garbage, held back where it finds none."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def settled_objects() -> Iterator[None]:
    """What is there now stays: the search passes over it from here on, and finds what comes later as before."""
    gc.freeze()
    try:
        yield
    finally:
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
