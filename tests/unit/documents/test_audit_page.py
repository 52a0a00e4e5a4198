"""docs/reference/audit.md lists the rules as they are."""

from mluops_gtest.audit.operators import RULES
from tests.conftest import ROOT


def test_every_rule_is_on_the_page_with_what_it_demands():
    rules, _, _ = (ROOT / "docs" / "reference" / "audit.md").read_text().partition("\n## ")
    listed = [line for line in rules.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{name}` | {rule.__doc__.partition(chr(10))[0]} |" for name, rule in RULES.items()]
