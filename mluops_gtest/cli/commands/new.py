"""`mluops-test new`: writes templates with their holes filled."""

import hashlib
import keyword
import re
from importlib.resources import files
from pathlib import Path

import click

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.cli.echo import echo

# Templates are text files, so that no tool takes them for modules of this package.
_SUFFIX = ".txt"
# Numbers for operators that the released schema does not know: above its own, below the largest of a field (2^29 − 1).
_FIRST_NUMBER = 400_000_000
_NUMBERS = 100_000_000


def _fill_template(template: str, name: str) -> str:
    text = files("mluops_gtest.cli").joinpath("templates").joinpath(f"{template}{_SUFFIX}").read_text(encoding="utf-8")
    # Derived from the name, so that two authors who never met are unlikely to pick the same.
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % _NUMBERS
    holes = {
        "$NAME": name,
        "$FILE": f"{name}.py",
        "$CLASS": "".join(word.capitalize() for word in name.split("_")),
        "$UPPER": name.upper(),
        "$NUMBER": str(_FIRST_NUMBER + number),
    }
    for hole, value in holes.items():
        text = text.replace(hole, value)
    return text


@click.group("new")
def command() -> None:
    """Write a backend or an operator to start from.

    Examples:
      mluops-test new backend my_kernels         writes my_kernels.py
      mluops-test doctor --backend my_kernels.py:backend

      mluops-test new operator row_sum --root my_operators
      mluops-test generate --all --root my_operators
      mluops-test run --root my_operators
    """


@command.command("backend")
@click.argument("name")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def new_backend(name: str, force: bool) -> None:
    """Write NAME.py: a backend with one small kernel, ready to run."""
    _refuse_name(name, "a module", "my_kernels")
    path = Path(f"{name}.py")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; take another name, or overwrite it with --force.")
    replace_text(path, _fill_template("backend.py", name))
    echo(f"{path} written. Next: mluops-test doctor --backend {path}:backend")


@command.command("operator")
@click.argument("name")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Write into this folder, e.g. --root my_operators; it is made if needed.  [default: this folder]",
)
def new_operator(name: str, root: Path) -> None:
    """Write a small, complete operator NAME: folder, cases and tests, ready to run and to change."""
    _refuse_name(name, "an operator", "row_sum")
    texts = {
        root / "generators" / f"{name}.py": _fill_template("operator/generator.py", name),
        root / "cases" / f"{name}.yaml": _fill_template("operator/cases.yaml", name),
    }
    there = [path for path in (root / "generators" / name, *texts) if path.exists()]
    if there:
        raise UsageError(f"{there[0]} exists already; take another name or another --root, or remove it first.")
    for path, text in texts.items():
        replace_text(path, text)
        echo(str(path))
    echo(
        f"""Next:
  mluops-test generate --op {name} --root {root}
  mluops-test run --op {name} --root {root}
  mluops-test audit operators --op {name} --root {root}
Then make it yours, and run these again after every step: docs/how-to/add-an-operator.md."""
    )


def _refuse_name(name: str, what: str, example: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a name for {what}; use lower-case letters, digits and _, e.g. {example}.")
