"""One file without the harness that shows how a case fails: in Python or in C."""

from collections.abc import Callable
from pathlib import Path

from mluops_gtest.backends.registry import ADAPTERS, BUILT_IN
from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import KnownOperators
from mluops_gtest.core.result import CaseResult


class Shown(Value):
    """What a standalone file shows."""

    case: Case
    result: CaseResult
    operator: Operator
    operators: KnownOperators


class Standalone(Value):
    """A kind of file: how its name ends, its text, and the command that runs it."""

    suffix: str
    # (what is shown, the file) → text.
    text: Callable[[Shown, Path], str]
    command: Callable[[Path], str]


def standalone_of(form: str, backend: str, runtime: str | None) -> Standalone:
    """The kind of file for this backend; an error that says what to do where it makes no sense."""
    word, _, rest = backend.partition(":")
    asked = f"--standalone {form} --backend {backend}"
    if word == "mlu" or runtime is not None:
        raise UsageError(f"{asked}: the file calls the library on host memory; leave out --runtime, or --standalone.")
    if backend in BUILT_IN or word == "torch":
        raise UsageError(f"{asked}: this backend is a part of mluops-test, so that no file can call it without.")
    if word == "exec":
        raise UsageError(
            f"{asked}: a program reads folders that mluops-test writes. The case file and the repro line show "
            "the failure; leave out --standalone."
        )
    if form == "c" and word != "c":
        raise UsageError(
            f"{asked}: only a library with the C API (c:LIBRARY) can be called from C; use --standalone py."
        )
    if form == "c":
        from mluops_gtest.cli.standalone.c_file import c_standalone

        return c_standalone(rest)
    if word == "c" and word in ADAPTERS:
        from mluops_gtest.cli.standalone.python_file import ctypes_standalone

        return ctypes_standalone(rest)
    from mluops_gtest.cli.standalone.python_file import python_standalone

    return python_standalone(backend)
