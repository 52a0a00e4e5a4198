"""docs/reference/authoring.md has the whole vocabulary of authors, as the code has it."""

import pkgutil

import pytest

from mluops_gtest import authoring
from mluops_gtest.core import operator_parts as parts
from tests.support.authoring_page import PAGE, SECTIONS, table, tables_on_the_page, written

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("heading", SECTIONS)
def test_names_signatures_and_promises_are_those_of_the_code(heading):
    """`python -m tests.support.authoring_page` writes the tables."""
    assert tables_on_the_page(TEXT)[heading] == table(heading)


def test_everything_that_authoring_offers_has_its_section():
    named = [name for module, names in SECTIONS.values() if module is authoring for name in names]
    assert sorted(named) == sorted(authoring.__all__)
    modules = {module.__name__.rpartition(".")[2] for module, _ in SECTIONS.values()}
    # `calls` and `random` are offered by the package itself.
    found = {module.name for module in pkgutil.iter_modules(authoring.__path__)}
    assert modules - {"authoring"} == found - {"calls", "random"}


def test_every_optional_part_is_on_the_page():
    for part in (value for value in vars(parts).values() if isinstance(value, parts.Part)):
        assert f"| `{part.file}.py` | `{part.name}` |" in TEXT


def test_writing_the_tables_again_changes_nothing():
    assert written(TEXT) == TEXT
