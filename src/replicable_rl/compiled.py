"""The one door to numba.

Kernel modules (``_kernels.py``) decorate their functions with :func:`compiled` and are
imported where they are first needed, never at the top of a public module: numba takes
longer to import than all the rest.

No fast-math: a kernel computes the IEEE operations it spells, in the order it spells them. Kernels
between the counts and a fingerprint use sums and products only, so the same counts give the
same bits on every machine. The samplers also call exp and log, whose last bit belongs to the
machine's mathematical library.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache

from replicable_rl.progress import announce
from replicable_rl.threads import Threads, result_of

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class _Announcer(event.Listener):
    """Says once, when the first kernel is compiled and not found on disk, why nothing moves."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            announce("Compiling, once on this machine: this takes some seconds.")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]  # numba has no types


_PAUSE, _ATTEMPTS = 0.05, 1200  # a minute: no kernel takes so long to compile
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel on first call; cached on disk, and without the interpreter lock."""
    kernel: Any
    try:
        kernel = numba.njit(cache=True, **_OPTIONS)(function)
        kernel._cache = _CompiledOnce(function)
    except RuntimeError:  # nowhere to keep the compiled code: a read-only installation without a home
        kernel = numba.njit(**_OPTIONS)(function)
    return cast("Kernel", kernel)


class _CompiledOnce(FunctionCache):
    """The cache on disk of a kernel, which one process compiles while others that need it wait.

    Without it, all workers of an audit begin by compiling the same kernels, each for itself.
    numba looks whether the file of a kernel has changed; its helpers are in other files, which count as well.
    """

    _lock: IO[bytes] | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]  # numba has no types
        self._cache_file._source_stamp = f"{self._cache_file._source_stamp} {_kernels_digest()}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # numba has no types
        if found is None and self._lock is None and self._wait():
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            if found is not None:
                self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        finally:
            self._release()

    def _wait(self) -> bool:
        """Get the right to compile; return whether another process may have compiled meanwhile."""
        try:
            import fcntl

            self._impl.locator.ensure_cache_path()
            path = Path(self._cache_path, f"{self._impl.filename_base}.lock")
            self._lock = path.open("ab")  # open until the kernel is compiled
        except (ImportError, OSError):  # a system without such locks, or a folder that cannot be written
            return False
        for _ in range(_ATTEMPTS):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_PAUSE)
            else:
                return True
        self._release()  # whoever has it is stuck: compile without it
        return True

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@functools.cache
def _kernels_digest() -> str:
    """Return the digest of all kernel modules, whose names begin with one underscore."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("**/_[!_]*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def inlined(function: Kernel) -> Kernel:
    """Compile a part of a kernel into its place: a loop that calls nothing can become vector instructions."""
    return cast("Kernel", numba.njit(forceinline=True, **_OPTIONS)(function))


THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Team:
    """Calls ``kernel(*arguments, first, last)`` for 0 to ``size``: at once, or in parts on several threads.

    For kernels whose every element is a function of the arguments alone, so that the parts do not change a bit.
    Below ``whole_below``, starting threads takes longer than they save. Parts end at multiples of ``step``.
    """

    _others: Threads | None

    def __init__(self, size: int, *, whole_below: int, step: int = 1) -> None:
        self._parts, self._others = [(0, size)], None
        steps = -(-size // step)
        threads = min(THREADS, steps)
        if size >= whole_below and threads > 1:
            ends = [min(size, steps * i // threads * step) for i in range(threads + 1)]
            self._parts, self._others = list(itertools.pairwise(ends)), Threads(threads - 1)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._others is not None:
            self._others.__exit__(*reason)

    @property
    def is_one(self) -> bool:
        """Whether everything is done at once."""
        return self._others is None

    def __call__(self, kernel: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what the kernel returned for every part."""
        if self._others is None:
            return [kernel(*arguments, *self._parts[0])]
        running = [self._others.submit(kernel, *arguments, *part) for part in self._parts[1:]]
        return [kernel(*arguments, *self._parts[0]), *map(result_of, running)]
