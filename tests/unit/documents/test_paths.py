"""Pages name files and sections that exist."""

import re

import pytest

from tests.support.documents import ROOT, pages

FOLDERS = {path.name for top in (ROOT, ROOT / "mluops_gtest") for path in top.iterdir() if path.is_dir()}
PAGES = [*pages(), "CHANGELOG.md"]
# Written by `new operator` in what the reader of this page does.
OF_THE_READER = {"docs/how-to/add-an-operator.md": {"cases/row_sum.yaml", "tests/test_row_sum.py"}}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_exist(page):
    named = {
        path
        for path in re.findall(r"`([a-z][\w./-]*/[\w.-]+\.(?:py|md|yaml|json|c|h))`", text_of(page))
        if path.partition("/")[0] in FOLDERS and "NAME" not in path
    }
    missing = {path for path in named if not any((top / path).exists() for top in (ROOT, ROOT / "mluops_gtest"))}
    assert missing == OF_THE_READER.get(page, set())


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page):
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", text_of(page)):
        if "://" in path:
            continue
        target = folder / path if path else ROOT / page
        assert target.exists(), f"{page}: {path}"
        assert not anchor or anchor in slugs(target.read_text(encoding="utf-8")), f"{page}: {path}#{anchor}"
