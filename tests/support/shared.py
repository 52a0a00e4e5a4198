"""Modules of generators/_shared as the loader of operators has them: what is patched there reaches the operators."""

import importlib
from pathlib import Path
from types import ModuleType

from mluops_gtest.catalog.operators import load_package

GENERATORS = Path(__file__).parents[2] / "generators"


def load_shared(name: str, generators: Path = GENERATORS) -> ModuleType:
    """generators/_shared/<name>.py of the built-in content, or of another root."""
    return importlib.import_module(f"{load_package(generators)}._shared.{name}")
