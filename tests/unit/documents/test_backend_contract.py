"""The pages list the members of a backend as the contract declares them."""

import re

import pytest

from mluops_gtest.core.case import MEMBERS
from tests.conftest import ROOT

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
