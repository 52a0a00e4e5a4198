"""`mluops-test backends`."""

import click

_EPILOG = """\b
Examples:
  mluops-test backends
  mluops-test run --backend reference
  mluops-test run --backend my_package.kernels:backend
  mluops-test run --backend ./my_kernels.py:backend
"""


@click.command("backends", epilog=_EPILOG)
def command() -> None:
    """Show which backends are installed and whether they load.

    Any Python object can be a backend, too: module:attribute or path/file.py[:attribute].
    """
    from mluops_gtest.backends.registry import known_backends
    from mluops_gtest.cli.terminal import stdout
    from mluops_gtest.results.reports.terminal import FOLD, escape, table_of

    table = table_of((("backend", "status", "from"), FOLD))
    for backend in known_backends():
        table.add_row(escape(backend.name), escape(backend.problem or "ready"), escape(backend.origin))
    stdout().print(table)
