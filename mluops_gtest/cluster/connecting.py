"""From the word behind --cluster to a client of a Dask cluster whose workers can run our cases."""

import contextlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.errors import BackendError, UsageError

if TYPE_CHECKING:
    from distributed import Client, Future

# Seconds to reach the scheduler, also after a connection is lost.
_CONNECT: Final = 20.0
_FORMS = "tcp://HOST:PORT, tls://HOST:PORT, ucx://HOST:PORT, local:N or path/file.py:FUNCTION"
_TLS = (
    "name the files of the cluster's authority and of your own certificate: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY, or the same keys in "
    "~/.config/dask/distributed.yaml; see docs/how-to/many-machines.md"
)


@contextlib.contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of that cluster; a cluster that was started for the run ends with it."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--cluster needs dask.distributed: pip install 'mluops-test[dask]'.") from None
    # What a worker cannot send is told as its fault; Dask's trace of that says no more.
    logging.getLogger("distributed.protocol").setLevel(logging.CRITICAL + 1)
    with contextlib.ExitStack() as stack:
        target: Any = address
        if address.startswith("local:"):
            target = stack.enter_context(_local(address))
        elif "://" not in address:
            target = _made(address)
            if hasattr(target, "close"):
                stack.callback(target.close)
        if isinstance(target, str):
            _refuse_unreachable(address, target)
        try:
            client = stack.enter_context(Client(target, timeout=_CONNECT, set_as_default=False))
        except Exception as error:
            raise BackendError(f"--cluster {address}: the scheduler does not answer: {error}.") from error
        yield client


def submit(
    client: "Client", address: str, function: Callable[..., Any], *arguments: Any, priority: int = 0
) -> "Future":
    """The call of the function on that worker and no other."""
    with warnings.catch_warnings():
        # Of a large case Dask says that it is large.
        warnings.simplefilter("ignore", UserWarning)
        return client.submit(
            function, *arguments, workers=[address], allow_other_workers=False, pure=False, retries=0, priority=priority
        )


def _refuse_unreachable(address: str, target: str) -> None:
    """Refuse an address of a kind for which this installation lacks something."""
    from distributed.comm.registry import get_backend
    from distributed.security import Security

    scheme = target.partition("://")[0]
    try:
        get_backend(scheme).get_connector()
    except Exception as error:
        # What Dask itself brings for ucx is an empty shell.
        advice = "install distributed-ucxx on every machine" if scheme == "ucx" else f"write {_FORMS}"
        raise UsageError(f"--cluster {address}: Dask cannot use {scheme}:// here ({error}): {advice}.") from error
    if scheme not in ("tls", "wss"):
        return
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except Exception as error:
        raise UsageError(f"--cluster {address}: the certificate cannot be used ({error}): {_TLS}.") from error
    if context is None:
        raise UsageError(f"--cluster {address}: no certificate is set: {_TLS}.")


def _local(address: str) -> Any:
    import dask
    from distributed import LocalCluster

    number = address.partition(":")[2]
    if not number.isdecimal() or not 1 <= int(number) <= 1024:
        raise UsageError(f"--cluster {address}: write the number of processes, e.g. --cluster local:2.")
    # Dask would look at what every worker does a hundred times a second, for a page that nobody opens.
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return LocalCluster(
            n_workers=int(number), threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
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
