"""`mluops-test new`."""

import keyword
import re
from pathlib import Path

import click

from mluops_gtest.errors import UsageError

_EPILOG = """\b
Examples:
  mluops-test new backend my_kernels         writes my_kernels.py
  mluops-test doctor --backend my_kernels.py:backend
"""


@click.group("new", epilog=_EPILOG)
def command() -> None:
    """Write a template to start from."""


@command.command("backend", epilog=_EPILOG)
@click.argument("name")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def new_backend(name: str, force: bool) -> None:
    """Write NAME.py: a backend with one small kernel, ready to run."""
    from importlib.resources import files

    from mluops_gtest.cli.lines import say
    from mluops_gtest.codec.writing import replace_text

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name for a module; take lower-case letters, digits and _, e.g. my_kernels.")
    path = Path(f"{name}.py")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; take another name, or overwrite it with --force.")
    text = files("mluops_gtest.cli").joinpath("templates/backend.py.txt").read_text(encoding="utf-8")
    class_name = "".join(word.capitalize() for word in name.split("_"))
    for hole, value in (("$NAME", name), ("$FILE", path.name), ("$CLASS", class_name)):
        text = text.replace(hole, value)
    replace_text(path, text)
    say(f"{path} written. Next: mluops-test doctor --backend {path}:backend")
