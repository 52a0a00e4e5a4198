"""`mluops-test docs`: the documentation, which is installed with the package."""

from pathlib import Path

import click

from mluops_gtest.base.errors import HarnessError, UnknownNameError
from mluops_gtest.catalog.root import builtin_root
from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import flag_option


def read_pages() -> dict[str, Path]:
    """The pages by name, in the order of their folders."""
    folder = builtin_root().path / "docs"
    return {path.stem: path for path in sorted(folder.rglob("*.md"))}


def _complete_pages(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in read_pages() if name.startswith(incomplete)]
    except HarnessError:
        return []


@click.command("docs")
@click.argument("page", required=False, shell_complete=_complete_pages)
@flag_option("--open is_opened", "Open the page in this machine's program for Markdown files.")
def command(page: str | None, is_opened: bool) -> None:
    """Print a page of the documentation; without PAGE, list the pages.

    A terminal shows the page laid out, a pipe gets it as it is written.

    Examples:
      mluops-test docs                         what there is to read
      mluops-test docs gate-in-ci
      mluops-test docs finding-bugs | less
      mluops-test docs add-an-operator --open
    """
    pages = read_pages()
    if page is None:
        width = max(map(len, pages), default=0)
        for name, path in pages.items():
            title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            echo(f"{name:{width}}  {title}")
        return
    if page not in pages:
        raise UnknownNameError("page", page, pages)
    if is_opened:
        click.launch(str(pages[page]))
        return
    from mluops_gtest.cli.terminal import stdout

    text, console = pages[page].read_text(encoding="utf-8"), stdout()
    if not console.is_terminal:
        echo(text.rstrip("\n"))
        return
    from rich.markdown import Markdown

    console.print(Markdown(text, hyperlinks=False))
