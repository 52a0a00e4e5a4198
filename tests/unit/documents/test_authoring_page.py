"""Pages that list what the code has: the vocabulary of authors, the rules of the audit, the members of a backend."""

import pkgutil
import re

import pytest

from mluops_gtest import authoring
from mluops_gtest.core import operator_parts as parts
from mluops_gtest.core.case import MEMBERS
from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.search.audit_values import RULES
from mluops_gtest.search.mutants import position_mutants
from tests.conftest import ROOT
from tests.support.authoring_page import PAGE, SECTIONS, table, tables_on_the_page, written
from tests.support.mutants_table import READMES, counts, published_sums, published_table, sums

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("heading", SECTIONS)
def test_names_signatures_and_promises_are_those_of_the_code(heading):
    """`python -m tests.support.authoring_page` writes the tables."""
    assert tables_on_the_page(TEXT)[heading] == table(heading)


def test_everything_that_authoring_offers_has_its_section():
    named = [name for module, names in SECTIONS.values() if module is authoring for name in names]
    assert sorted(named) == sorted(authoring.__all__)
    modules = {module.__name__.rpartition(".")[2] for module, _ in SECTIONS.values()}
    # `calls` and `random` are offered by the package itself, `single_checks` by `checks`.
    found = {module.name for module in pkgutil.iter_modules(authoring.__path__)}
    assert modules - {"authoring"} == found - {"calls", "random", "single_checks"}


def test_every_optional_part_is_on_the_page():
    for part in (value for value in vars(parts).values() if isinstance(value, parts.Part)):
        assert f"| `{part.file}.py` | `{part.name}` |" in TEXT


def test_writing_the_tables_again_changes_nothing():
    assert written(TEXT) == TEXT


def test_every_rule_is_on_the_page_with_what_it_demands():
    rules, _, _ = (ROOT / "docs" / "reference" / "audit.md").read_text().partition("\n## ")
    listed = [line for line in rules.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{name}` | {rule.__doc__.partition(chr(10))[0]} |" for name, rule in RULES.items()]


def test_the_table_of_wrong_implementations_has_all_that_are_tried(operators):
    """Those that operators ship, and of positions; tests/content/test_suite.py has the command count them again."""
    assert {name: row[0] for name, row in counts(published_table()).items()} == {
        name: len((*operators.part(name, MUTANTS), *position_mutants(operators[name]))) for name in operators
    }


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_newcomers_are_told_the_sums_of_the_table(readme):
    """`python -m tests.support.mutants_table` writes both."""
    assert published_sums(readme) == sums(published_table())


PAGES = ROOT / "docs" / "how-to"


def rows(page):
    text = (PAGES / page).read_text()
    table = text[text.index("| `name: str` |") :].split("\n\n")[0]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:3]) for line in table.splitlines()]


def test_the_page_says_what_the_contract_says():
    words = [(m.signature, m.meaning if m.required else f"optional; {m.meaning}") for m in MEMBERS]
    assert rows("write-a-backend.md") == [(f"`{sign}`".replace("|", "\\|"), text) for sign, text in words]


@pytest.mark.parametrize("page", ["write-a-backend.md", "write-a-backend.zh.md"])
def test_every_member_is_on_the_page(page):
    assert [sign for sign, _ in rows(page)] == [f"`{m.signature}`".replace("|", "\\|") for m in MEMBERS]
