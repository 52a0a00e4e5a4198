"""`mluops-test docs`: the pages that are installed with the package."""

import re

import click
import pytest

from tests.conftest import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_every_page_is_listed_with_its_title(cli):
    lines = cli("docs").expect_code(0).lines
    assert [line.split("  ", 1)[0] for line in lines] == [path.stem for path in PAGES]
    assert next(line for line in lines if line.startswith("gate ")).endswith("  The gate")
    assert len({path.stem for path in PAGES}) == len(PAGES)


def test_a_pipe_gets_the_page_as_it_is_written(cli):
    assert cli("docs", "gate").expect_code(0).out == (ROOT / "docs/reference/gate.md").read_text(encoding="utf-8")


def test_a_terminal_gets_it_laid_out(cli, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    out = cli("docs", "gate").expect_code(0).out
    assert "The gate" in out
    assert "# The gate" not in out


def test_it_can_be_opened(cli, monkeypatch):
    opened = []
    monkeypatch.setattr(click, "launch", opened.append)
    cli("docs", "gate", "--open").expect_code(0)
    assert opened == [str(ROOT / "docs/reference/gate.md")]


def test_an_unknown_page_is_refused_with_the_likely_one(cli):
    cli("docs", "gat").expect_error(2, "Unknown page 'gat'. Did you mean 'gate'?")


def test_every_page_that_the_package_names_exists():
    sources = [path for path in (ROOT / "mluops_gtest").rglob("*") if path.suffix in {".py", ".txt", ".toml"}]
    named = {name for path in sources for name in re.findall(r"mluops-test docs ([a-z][\w.-]*\w)", path.read_text())}
    assert named <= {path.stem for path in PAGES}
    assert {"settings", "add-an-operator"} <= named


@pytest.mark.parametrize("words", ["docs/how-to", "docs/reference"])
def test_messages_name_pages_not_files_of_a_checkout(words):
    assert not [path for path in (ROOT / "mluops_gtest").rglob("*.py") if words in path.read_text()]
