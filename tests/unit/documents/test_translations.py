"""Pages name files and sections that exist; Chinese ones have the sections, blocks and code of their originals."""

import re
from dataclasses import dataclass

import pytest

from tests.support.documents import ROOT, blocks, pages

TRANSLATED = [page for page in pages() if page.endswith(".zh.md")]


@dataclass(frozen=True, slots=True)
class Section:
    """What stays the same in every language."""

    level: int
    code: frozenset[str]
    links: frozenset[str]
    numbers: frozenset[str]
    rows: int


def sections(text: str) -> list[Section]:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^\[(?:中文|English)\]\(.*\)$", "", prose, flags=re.MULTILINE)
    return [_section(part) for part in re.split(r"^(?=#+ )", prose, flags=re.MULTILINE) if part.strip()]


def _section(part: str) -> Section:
    words = re.sub(r"`[^`]+`|\]\([^)]*\)", " ", part)
    return Section(
        level=len(re.match(r"#*", part)[0]),
        code=frozenset(" ".join(span.split()) for span in re.findall(r"`([^`]+)`", part)),
        links=frozenset(link.replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)]+)\)", part)),
        numbers=frozenset(re.findall(r"\d{3,}", words)),
        rows=len(re.findall(r"^\|", part, re.MULTILINE)),
    )


def original(page: str) -> str:
    return page.replace(".zh.md", ".md")


def test_the_pages_that_newcomers_need_are_there():
    how_to = {f"docs/how-to/{name}.zh.md" for name in ("write-a-backend", "add-an-operator", "gate-in-ci")}
    assert set(TRANSLATED) >= {"README.zh.md", *how_to}


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_blocks_of_its_original(page):
    ours, theirs = (
        [(block.language, block.text, block.remarks) for block in blocks(one)] for one in (page, original(page))
    )
    assert ours == theirs


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_translation_has_the_sections_of_its_original(page):
    ours, theirs = (sections((ROOT / one).read_text(encoding="utf-8")) for one in (page, original(page)))
    assert [section.level for section in ours] == [section.level for section in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one == other


@pytest.mark.parametrize("page", TRANSLATED)
def test_both_pages_name_each_other(page):
    for one, other, word in ((page, original(page), "English"), (original(page), page, "中文")):
        assert f"\n[{word}]({other.rsplit('/', 1)[-1]})\n" in (ROOT / one).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [("`run`", "`run -v`"), ("100", "101"), ("# ", "## "), ("。\n", "。\n# 又一个\n"), ("个。", "个，[见](a.md)。")],
)
def test_a_page_that_says_something_else_is_found(old, new):
    english = sections("# Title\nUse `run`, 100 of them.\n")
    chinese = "# 标题\n用 `run`，100 个。\n"
    assert sections(chinese) == english
    assert sections(chinese.replace(old, new)) != english


FOLDERS = {path.name for top in (ROOT, ROOT / "mluops_gtest") for path in top.iterdir() if path.is_dir()}
PAGES = [*pages(), "CHANGELOG.md"]


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
    assert missing == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page):
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", text_of(page)):
        if "://" in path:
            continue
        target = folder / path if path else ROOT / page
        assert target.exists(), f"{page}: {path}"
        assert not anchor or anchor in slugs(target.read_text(encoding="utf-8")), f"{page}: {path}#{anchor}"
