"""joblib's backends by name, for those who do not want to set one up: the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from replicable_rl.errors import InvalidInput, did_you_mean

__all__ = ["BACKENDS", "use_backend"]

BACKENDS = ("processes", "threads", "dask", "ray")


@contextlib.contextmanager
def use_backend(name: str, scheduler: str | None = None, n_jobs: int | None = None) -> Iterator[None]:
    """Run audits inside the block on a backend.

    ``processes`` and ``threads`` are of this machine. ``dask`` and ``ray`` join the cluster whose address is
    ``scheduler``, or start one on this machine with ``n_jobs`` workers and stop it at the end.
    """
    if name not in BACKENDS:
        hint = did_you_mean(name, BACKENDS)
        raise InvalidInput(f"audit: backend must be one of {', '.join(BACKENDS)}, got {name!r}.{hint}")
    if scheduler is not None and name not in ("dask", "ray"):
        raise InvalidInput(f"audit: a scheduler is for the backends dask and ray, not for {name}.")
    import joblib

    if name in ("processes", "threads"):
        with joblib.parallel_config(backend={"processes": "loky", "threads": "threading"}[name], n_jobs=n_jobs or -1):
            yield
        return
    with {"dask": _dask, "ray": _ray}[name](scheduler, n_jobs), joblib.parallel_config(backend=name, n_jobs=-1):
        yield


@contextlib.contextmanager
def _dask(scheduler: str | None, n_jobs: int | None) -> Iterator[None]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError:
        raise InvalidInput("audit: Dask is not installed. Run pip install 'replicable-rl[dask]'.") from None
    with contextlib.ExitStack() as stack:
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(LocalCluster(n_workers=n_jobs, threads_per_worker=1, dashboard_address=":0"))
        try:
            stack.enter_context(Client(address))
        except (OSError, ValueError) as error:
            raise InvalidInput(f"audit: the Dask scheduler {scheduler} cannot be reached ({error}).") from None
        yield


@contextlib.contextmanager
def _ray(scheduler: str | None, n_jobs: int | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise InvalidInput("audit: Ray is not installed. Run pip install 'replicable-rl[ray]'.") from None
    options: dict[str, Any] = {"address": scheduler} if scheduler else {"num_cpus": n_jobs, "include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInput(f"audit: the Ray cluster {scheduler} cannot be reached ({error}).") from None
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()
