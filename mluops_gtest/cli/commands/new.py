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

\b
  mluops-test new operator row_sum --root my_operators
  mluops-test generate --all --root my_operators
  mluops-test run --root my_operators
"""


@click.group("new", epilog=_EPILOG)
def command() -> None:
    """Write a backend or an operator to start from."""


@command.command("backend", epilog=_EPILOG)
@click.argument("name")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def new_backend(name: str, force: bool) -> None:
    """Write NAME.py: a backend with one small kernel, ready to run."""
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.scaffold import backend_file, write_files

    _refuse_name(name, "a module", "my_kernels")
    path = Path(f"{name}.py")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already; take another name, or overwrite it with --force.")
    write_files({path: backend_file(name)})
    say(f"{path} written. Next: mluops-test doctor --backend {path}:backend")


@command.command("operator", epilog=_EPILOG)
@click.argument("name")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Write into this folder, e.g. --root my_operators; it is made if needed.  [default: this folder]",
)
def new_operator(name: str, root: Path) -> None:
    """Write a small, complete operator NAME: folder, cases and tests, ready to run and to change."""
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.scaffold import operator_files, write_files

    _refuse_name(name, "an operator", "row_sum")
    files = {root / path: text for path, text in operator_files(name).items()}
    there = [path for path in (root / "generators" / name, root / "generators" / f"{name}.py", *files) if path.exists()]
    if there:
        raise UsageError(f"{there[0]} exists already; take another name or another --root, or remove it first.")
    write_files(files)
    for path in files:
        say(str(path))
    say(
        f"""Next:
  mluops-test generate --op {name} --root {root}
  mluops-test run --op {name} --root {root}
  mluops-test audit operators --op {name} --root {root}
  python -m pytest {root / "tests" / f"test_{name}.py"}
Then make it yours, one file after the other, and run these again."""
    )


def _refuse_name(name: str, what: str, example: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a name for {what}; use lower-case letters, digits and _, e.g. {example}.")
