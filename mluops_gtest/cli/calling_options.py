"""Options of every command that calls a backend: which one, and in which processes."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mluops_gtest.cli.options import BytesType, DevicesType, complete_backends
from mluops_gtest.cli.plain_options import together
from mluops_gtest.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def backend_option(words: str, *names: str, **more: Any) -> Callable[[F], F]:
    """--backend."""
    return click.option("--backend", "-b", *names, help=words, shell_complete=complete_backends, **more)


def isolate_option(where: str) -> Callable[[F], F]:
    """--isolate and --no-isolate."""
    words = f"Run the backend in {where}, or in this one.  [default: isolated, except numpy and reference]"
    return click.option("--isolate/--no-isolate", default=None, help=words)


def timeout_option(words: str) -> Callable[[F], F]:
    """--timeout, by default as long as the case is large."""
    return click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help=f"{words}  [default: 60, plus 1 per megabyte of tensors]",
    )


adapter_options = together(
    click.option(
        "--runtime",
        metavar="LIB",
        help="For c:LIBRARY: the library that has the cnrt functions, e.g. --runtime libcnrt.so.",
    ),
    click.option(
        "--serve", is_flag=True, help="For exec:COMMAND: keep one process running instead of starting one per call."
    ),
)

backend_options = together(
    backend_option(
        "What to test: numpy, reference, c:LIBRARY, mlu, exec:COMMAND, torch[:DEVICE], an entry point, "
        "module:attribute or path/file.py[:attribute], e.g. -b my_kernels.py (its `backend`).",
        default="numpy",
        show_default=True,
    ),
    adapter_options,
)

worker_options = together(
    isolate_option("worker processes"),
    click.option(
        "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Use N worker processes, e.g. -j 2.  [default: 1]"
    ),
    click.option("--devices", type=DevicesType(), help="Use one worker per device, e.g. --devices 0,1."),
    timeout_option("Stop a case in a worker after so long, e.g. --timeout 20."),
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
)


elementwise_option = click.option(
    "--elementwise/--no-elementwise",
    default=None,
    help="Elements further off than arithmetic allows: fail the case, or do not check. Default: report them.",
)
cluster_options = together(
    click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Run on a Dask cluster: tcp://SCHEDULER:8786 (or tls://, ucx://), local:N for N processes here, or "
        "path/file.py:FUNCTION that makes one, e.g. --cluster tcp://node1:8786.",
    ),
    click.option(
        "--ship",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False),
        metavar="PATH",
        help="Send this file of the backend to the cluster's workers, e.g. --backend c:./libk.so --ship ./libk.so "
        "--cluster local:2.",
    ),
)


def taken_lanes(options: dict[str, Any]) -> tuple[int | None, tuple[int, ...]]:
    """The jobs, None where none are asked for, and the devices, taken out of the options of a command."""
    jobs, devices = options.pop("jobs"), options.pop("devices") or ()
    if jobs and devices:
        raise UsageError("Use either -j or --devices: with --devices each device has one worker.")
    return jobs, tuple(devices)
