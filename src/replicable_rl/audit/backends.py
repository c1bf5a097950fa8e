"""joblib's backends by name, for those who do not want to set one up: the command line."""

import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import Any

from replicable_rl.errors import InvalidInput, check_integer, did_you_mean, shown

BACKENDS = ("processes", "threads", "dask", "ray")
_PATIENCE = 10.0  # seconds that a scheduler has to answer


def check_n_jobs(n_jobs: int | None) -> int | None:
    """Return a number of workers as it is, None for joblib's choice; 0 is refused."""
    if n_jobs is None:
        return None
    n_jobs = check_integer("audit", "n_jobs", n_jobs, low=-(2**15), high=2**15)
    if n_jobs == 0:
        raise InvalidInput("audit: n_jobs (--jobs) must be the number of workers, or -1 for one on every core; got 0.")
    return n_jobs


@contextlib.contextmanager
def use_backend(name: str, scheduler: str | None = None, n_jobs: int | None = None) -> Iterator[None]:
    """Run audits inside the block on a backend.

    ``processes`` and ``threads`` are of this machine. ``dask`` and ``ray`` join the cluster whose address is
    ``scheduler``, or start one on this machine with ``n_jobs`` workers and stop it at the end.
    """
    if name not in BACKENDS:
        hint = did_you_mean(name, BACKENDS)
        raise InvalidInput(f"audit: backend must be one of {', '.join(BACKENDS)}, got {shown(name)}.{hint}")
    if scheduler is not None and name not in ("dask", "ray"):
        raise InvalidInput(f"audit: a scheduler is for the backends dask and ray, not for {name}.")
    n_jobs = check_n_jobs(n_jobs)
    import joblib

    if name in ("processes", "threads"):
        with joblib.parallel_config(backend={"processes": "loky", "threads": "threading"}[name], n_jobs=n_jobs or -1):
            yield
        return
    if n_jobs is not None and n_jobs < 0:
        n_jobs = max(1, joblib.cpu_count() + 1 + n_jobs)
    with {"dask": _dask, "ray": _ray}[name](scheduler, n_jobs), joblib.parallel_config(backend=name, n_jobs=-1):
        yield


@contextlib.contextmanager
def _dask(scheduler: str | None, n_jobs: int | None) -> Iterator[None]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError:
        raise InvalidInput("audit: Dask is not installed. Run pip install 'dask[distributed]'.") from None
    with contextlib.ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
            address = stack.enter_context(LocalCluster(n_workers=n_jobs, **options))
        try:
            client = stack.enter_context(Client(address, timeout=_PATIENCE))
        except (OSError, ValueError) as error:
            raise _unreachable(f"Dask scheduler {scheduler}", error) from None
        if scheduler is None:
            client.run(_leave_interrupts_to_the_parent)
        yield


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches every process of a terminal; a worker would answer with a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _ray(scheduler: str | None, n_jobs: int | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise InvalidInput("audit: Ray is not installed. Run pip install ray.") from None
    options: dict[str, Any] = {"address": scheduler} if scheduler else {"num_cpus": n_jobs, "include_dashboard": False}
    try:
        if scheduler:
            _knock(scheduler)
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable(f"Ray cluster {scheduler}", error) from None
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise where nobody listens at an address; Ray would try again for many minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()


def _unreachable(what: str, error: Exception) -> InvalidInput:
    return InvalidInput(f"audit: the {what} cannot be reached ({' '.join(str(error).split()).rstrip('.')}).")
