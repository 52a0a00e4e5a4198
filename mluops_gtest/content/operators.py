"""Loads generators/*.py by path, as pytest loads tests; the engine never imports them."""

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mluops_gtest.errors import ContentError, UnknownNameError
from mluops_gtest.model.operator import Operator


class Operators(Mapping[str, Operator]):
    """The operators of a content root by canonical name; `find` also knows the released names."""

    def __init__(self, operators: tuple[Operator, ...]) -> None:
        owners: dict[str, str] = {}
        for operator in operators:
            for name in operator.names:
                if name in owners:
                    raise ContentError(
                        f"Two operators are called {name!r}: {owners[name]} and {operator.name}. Rename one of them."
                    )
                owners[name] = operator.name
        self._by_name = {operator.name: operator for operator in operators}
        self._by_any_name = {name: operator for operator in operators for name in operator.names}

    def __getitem__(self, name: str) -> Operator:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def get_any(self, name: str) -> Operator | None:
        """The operator of that canonical or released name, or None."""
        return self._by_any_name.get(name)

    def find(self, name: str) -> Operator:
        """The operator of that canonical or released name, or an error that lists them."""
        operator = self._by_any_name.get(name)
        if operator is None:
            raise UnknownNameError("operator", name, self._by_any_name)
        return operator


def load_operators(root: Path) -> Operators:
    """Every operator in root/generators: one .py file or one folder each, named after the operator."""
    folder = root / "generators"
    files = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    files += sorted(folder.glob("*/__init__.py"))
    return Operators(tuple(load_operator(path) for path in files))


def load_operator(path: Path) -> Operator:
    """The OPERATOR of one generator file."""
    name = path.parent.name if path.name == "__init__.py" else path.stem
    module_name = f"_mluops_gtest_generator_{name}"
    # A folder is a package, so that its files may import each other relatively.
    locations = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(module_name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ContentError(f"{path}: not a Python file that can be loaded.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ContentError(f"{path}: the generator does not load: {type(error).__name__}: {error}") from error
    operator = getattr(module, "OPERATOR", None)
    if not isinstance(operator, Operator):
        raise ContentError(f"{path}: the file must define OPERATOR, an mluops_gtest.authoring.Operator.")
    if operator.name != name:
        raise ContentError(f"{path}: OPERATOR.name is {operator.name!r}; it must be the file's name, {name!r}.")
    return operator
