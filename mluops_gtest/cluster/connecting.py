"""From the word behind --cluster to a client of a Dask cluster whose workers can run our cases."""

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mluops_gtest.errors import BackendError, UsageError

if TYPE_CHECKING:
    from distributed import Client

_FORMS = "tcp://HOST:PORT, local:N or path/file.py:FUNCTION"


@contextlib.contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of that cluster; a cluster that was started for the run ends with it."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--cluster needs dask.distributed: pip install 'mluops-test[dask]'.") from None
    with contextlib.ExitStack() as stack:
        target: Any = address
        if address.startswith("local:"):
            target = stack.enter_context(_local(address))
        elif "://" not in address:
            target = _made(address)
            if hasattr(target, "close"):
                stack.callback(target.close)
        try:
            client = stack.enter_context(Client(target, timeout="20s", set_as_default=False))
        except (OSError, TimeoutError, ValueError) as error:
            raise BackendError(f"--cluster {address}: the scheduler does not answer: {error}.") from error
        yield client


def _local(address: str) -> Any:
    import dask
    from distributed import LocalCluster

    number = address.partition(":")[2]
    if not number.isdecimal() or not 1 <= int(number) <= 1024:
        raise UsageError(f"--cluster {address}: write the number of processes, e.g. --cluster local:2.")
    # Dask would look at what every worker does a hundred times a second, for a page that nobody opens.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return LocalCluster(
            n_workers=int(number), threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        )


def _made(address: str) -> Any:
    file, colon, name = address.rpartition(":")
    if not colon or not file.endswith(".py") or not name:
        raise UsageError(f"--cluster {address}: write {_FORMS}.")
    if not Path(file).is_file():
        raise UsageError(f"--cluster {address}: there is no file {file}.")
    spec = importlib.util.spec_from_file_location("_mluops_gtest_cluster", file)
    assert spec is not None, "a .py file can be loaded"
    assert spec.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        make = getattr(module, name)
        return make()
    except Exception as error:
        raise UsageError(f"--cluster {address}: {type(error).__name__}: {error}.") from error
