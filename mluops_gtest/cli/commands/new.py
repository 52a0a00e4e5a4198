"""`mluops-test new`: writes templates with their holes filled."""

import hashlib
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.cli.c_prototype import read_operator
from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import complete_operators, flag_option, root_option, value_option

# Numbers for operators that the released schema does not know: above its own, below the largest of a field (2^29 − 1).
_FIRST_NUMBER = 400_000_000
_NUMBERS = 100_000_000


def _fill_template(template: str, name: str, facts: Mapping[str, str] = MappingProxyType({})) -> str:
    from mluops_gtest.cli.standalone import fill_template

    # Derived from the name, so that two authors who never met are unlikely to pick the same.
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % _NUMBERS
    holes = {
        **facts,
        "$NAME": name,
        "$FILE": f"{name}.py",
        "$CLASS": "".join(word.capitalize() for word in name.split("_")),
        "$UPPER": name.upper(),
        "$NUMBER": str(_FIRST_NUMBER + number),
    }
    return fill_template(template, holes)


@click.group("new")
def command() -> None:
    """Write a backend, an operator or a C library to start from.

    Examples:
      mluops-test new backend my_kernels         writes my_kernels.py
      mluops-test doctor --backend my_kernels.py:backend

      mluops-test new operator row_sum --root my_operators
      mluops-test new operator row_sum --header mlu_op.h --function mluOpRowSum

      mluops-test new c-library abs ball_query --out my_library
      make -C my_library && mluops-test run --op abs --backend c:my_library/libmykernels.so -j 2
    """


@command.command("backend")
@click.argument("name")
@flag_option("--force", "Overwrite the file if it exists.")
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
@value_option(
    "--root",
    "folder",
    "Write into this folder, e.g. --root my_operators; it is made if needed.  [default: this folder]",
    default=Path(),
    show_default=False,
)
@click.option(
    "--prototype",
    help="Read the arguments of this C function, and mark what is left to say, e.g. --prototype 'mluOpStatus_t "
    "mluOpRowSum(mluOpHandle_t handle, …)'.",
)
@value_option(
    "--header",
    "existing file",
    "Read them from this header, which has --function NAME, e.g. --header mlu_op.h --function mluOpRowSum.",
)
@click.option("--function", help="The C function in --header, e.g. --function mluOpRowSum.")
def new_operator(name: str, root: Path, prototype: str | None, header: Path | None, function: str | None) -> None:
    """Write a small, complete operator NAME, one file and its cases, ready to run and to change.

    With the prototype of a C function: the declaration that follows, and FILL IN where something is left to say.
    """
    _refuse_name(name, "an operator", "row_sum")
    if (header is None) is not (function is None) or (prototype is not None and header is not None):
        raise UsageError(
            "Say --prototype 'mluOpStatus_t mluOpRowSum(…)', or --header FILE with --function mluOpRowSum."
        )
    kind, facts = "generator", dict[str, str]()
    if prototype is not None or header is not None:
        text = (prototype or "") if header is None else header.read_bytes().decode(errors="replace")
        kind, facts = "prototype", read_operator(text, "--prototype" if header is None else str(header), function or "")
    texts = {
        root / "generators" / f"{name}.py": _fill_template(f"operator/{kind}.py", name, facts),
        root / "cases" / f"{name}.yaml": _fill_template(f"operator/{kind}.yaml", name),
    }
    there = [path for path in (root / "generators" / name, *texts) if path.exists()]
    if there:
        raise UsageError(f"{there[0]} exists already; take another name or another --root, or remove it first.")
    for path, text in texts.items():
        replace_text(path, text)
        echo(str(path))
    echo("Next, where it says FILL IN:" if facts else "Next:")
    for words in ("ops", "audit operators --op") if facts else ("generate --op", "run --op", "audit operators --op"):
        echo(f"  mluops-test {words} {name} --root {root}")
    echo("Then make it yours, and run these again after every step: mluops-test docs add-an-operator")


_LIBRARY = "libmykernels.so"


@command.command("c-library")
@click.argument("names", nargs=-1, required=True, metavar="OPERATOR…", shell_complete=complete_operators)
@value_option(
    "--out", "folder", "Write into this folder, which is made if needed, e.g. --out my_library.", required=True
)
@root_option
def new_c_library(names: tuple[str, ...], out: Path, roots: tuple[str, ...]) -> None:
    """Write a C library with the functions of these operators: it compiles, and checks their parameters in order.

    Checks that follow from the declaration are there; FILL IN marks the others, and where to compute.
    """
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.c_library import library_files
    from mluops_gtest.cli.standalone_c import find_c_functions

    operators = Session(roots).catalogue.operators
    declared = [find_c_functions(operators, name) for name in dict.fromkeys(names)]
    texts = {out / name: text for name, text in library_files(declared, _LIBRARY).items()}
    there = [path for path in texts if path.exists()]
    if there:
        raise UsageError(f"{there[0]} exists already; take another --out, or remove it first.")
    for path, text in texts.items():
        replace_text(path, text)
        echo(str(path))
    chosen = " ".join(f"--op {operator.name}" for operator, _ in declared)
    echo(f"Next:\n  make -C {out}\n  mluops-test run {chosen} --backend c:{out / _LIBRARY} -j 2")
    echo("Then go on where the files say FILL IN; what a library must offer: mluops-test docs backends")


def _refuse_name(name: str, what: str, example: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a name for {what}; use lower-case letters, digits and _, e.g. {example}.")
