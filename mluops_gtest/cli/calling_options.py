"""Options of every command that calls a backend: which one, and in which processes."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mluops_gtest.cli.options import BytesType, DevicesType, complete_backends
from mluops_gtest.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def adapter_options(function: F) -> F:
    """--runtime, --serve."""
    decorators = [
        click.option(
            "--runtime",
            metavar="LIB",
            help="For c:LIBRARY: the library that has the cnrt functions, e.g. --runtime libcnrt.so.",
        ),
        click.option(
            "--serve", is_flag=True, help="For exec:COMMAND: keep one process running instead of starting one per case."
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def backend_options(function: F) -> F:
    """--backend, --runtime, --serve."""
    decorators = [
        click.option(
            "--backend",
            "-b",
            default="numpy",
            show_default=True,
            help="What to test: numpy, reference, c:LIBRARY, mlu, exec:COMMAND, torch[:DEVICE], an entry point, "
            "module:attribute or path/file.py[:attribute], e.g. -b my_kernels.py (its `backend`).",
            shell_complete=complete_backends,
        ),
    ]
    function = adapter_options(function)
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def worker_options(function: F) -> F:
    """--isolate, -j, --devices, --timeout, --memory-limit, --fresh-workers, --guard-pages."""
    decorators = [
        click.option(
            "--isolate/--no-isolate",
            default=None,
            help="Run the backend in worker processes, or in this one.  "
            "[default: isolated, except numpy and reference]",
        ),
        click.option(
            "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes, e.g. -j 2.  [default: 1]"
        ),
        click.option("--devices", type=DevicesType(), help="Use one worker per device, e.g. --devices 0,1."),
        click.option(
            "--timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="Stop a case in a worker after so long, e.g. --timeout 20.  "
            "[default: 60, plus 1 per megabyte of tensors]",
        ),
        click.option(
            "--memory-limit",
            type=BytesType(),
            help="Memory that a case may use beyond the loaded backend and the tensors, e.g. --memory-limit 2G.",
        ),
        click.option(
            "--fresh-workers",
            is_flag=True,
            help="Run every case in a new worker, so that no case sees what another left behind, e.g. --fresh-workers "
            "--backend c:./libk.so.",
        ),
        click.option(
            "--guard-pages",
            is_flag=True,
            help="Find reads and writes outside a buffer: call every case twice, with inaccessible memory right after "
            "every buffer, then right before it, e.g. --backend c:./libmykernels.so --guard-pages.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def cluster_options(function: F) -> F:
    """--cluster, --ship."""
    decorators = [
        click.option(
            "--cluster",
            metavar="ADDRESS",
            help="Run on a Dask cluster: tcp://SCHEDULER:8786, local:N for N processes here, or path/file.py:FUNCTION "
            "that makes one, e.g. --cluster tcp://node1:8786.",
        ),
        click.option(
            "--ship",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False),
            metavar="PATH",
            help="Send this file of the backend to the cluster's workers, e.g. --backend c:./libk.so --ship ./libk.so "
            "--cluster local:2.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def taken_lanes(options: dict[str, Any]) -> tuple[int | None, tuple[int, ...]]:
    """The jobs, None where none are asked for, and the devices, taken out of the options of a command."""
    jobs, devices = options.pop("jobs"), options.pop("devices") or ()
    if jobs and devices:
        raise UsageError("Use either -j or --devices: with --devices each device has one worker.")
    return jobs, tuple(devices)
