"""docs/reference/audit.md lists the rules as they are."""

import pytest

from mluops_gtest.core.operator_parts import MUTANTS
from mluops_gtest.search.audit_values import RULES
from tests.conftest import ROOT
from tests.support.mutants_table import READMES, counts, published_sums, published_table, sums


def test_every_rule_is_on_the_page_with_what_it_demands():
    rules, _, _ = (ROOT / "docs" / "reference" / "audit.md").read_text().partition("\n## ")
    listed = [line for line in rules.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{name}` | {rule.__doc__.partition(chr(10))[0]} |" for name, rule in RULES.items()]


def test_the_table_of_wrong_implementations_has_all_that_operators_ship(operators):
    """tests/content/test_suite.py has the command count them again."""
    assert {name: row[0] for name, row in counts(published_table()).items()} == {
        name: len(operators.part(name, MUTANTS)) for name in operators
    }


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.name)
def test_newcomers_are_told_the_sums_of_the_table(readme):
    """`python -m tests.support.mutants_table` writes both."""
    assert published_sums(readme) == sums(published_table())
