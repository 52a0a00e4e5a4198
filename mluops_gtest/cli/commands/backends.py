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
    from rich.table import Table

    from mluops_gtest.backends.registry import known_backends
    from mluops_gtest.cli.consoles import stdout
    from mluops_gtest.reports.markup import escape

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("backend", "status", "from"):
        table.add_column(column, overflow="fold")
    for backend in known_backends():
        table.add_row(escape(backend.name), escape(backend.problem or "ready"), escape(backend.origin))
    stdout().print(table)
