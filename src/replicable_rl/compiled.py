"""The one door to numba.

Kernel modules (``_kernels.py``) decorate their functions with :func:`compiled`. A public module imports them inside
its functions: numba takes longer to import than all the rest. Small work is not compiled, which takes seconds: see
:class:`Kernel`.

No fast-math: a kernel computes the IEEE operations it spells, in the order it spells them. Kernels between the counts
and a fingerprint use sums and products only, so the same counts give the same bits on every machine. The samplers also
call exp and log, whose last bit belongs to the machine's mathematical library.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache

from replicable_rl.progress import announce
from replicable_rl.threads import Threads, result_of

Function = TypeVar("Function", bound=Callable[..., Any])

THREADS: int = numba.config.NUMBA_DEFAULT_NUM_THREADS  # type: ignore[attr-defined]  # numba has no types
SMALL = 400_000  # elements that a call may read in Python, at most: about a second
_PATIENCE = 2.0  # seconds of such calls in a process, after which compiling pays
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class _Announcer(event.Listener):
    """Says why nothing moves, once: when a kernel is compiled and not found on disk."""

    announced = False

    def on_start(self, event: Any) -> None:
        if not self.announced:
            self.announced = True
            announce("Compiling, once on this machine: this takes some seconds.")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]  # numba has no types


def compiled(function: Function) -> Function:
    """Make a kernel: compiled on first call, cached on disk, without the interpreter lock; and not for small work."""
    return cast("Function", Kernel(function))


def compiled_loop(times: str) -> Callable[[Function], Function]:
    """Make a kernel that loops over its other arguments as often as one of them says, by its value or its length."""
    return cast("Callable[[Function], Function]", functools.partial(Kernel, times=times))


def inlined(function: Function) -> Function:
    """Compile a part of a kernel into its place: a loop that calls nothing can become vector instructions."""
    return cast("Function", Kernel(function, forceinline=True))


class Kernel:
    """A function that runs compiled or, while work is small and nothing was compiled before, as it is written.

    Both do the same operations in the same order, and so return the same bits.
    """

    patience = _PATIENCE  # what is left of it, for all kernels together

    def __init__(self, function: Callable[..., Any], *, times: str | None = None, **options: Any) -> None:
        self.function, self.machine = function, numba.njit(**options, **_OPTIONS)(function)
        self._times = None if times is None else function.__code__.co_varnames.index(times)
        self._cache: FunctionCache | None = None
        if not options:
            with contextlib.suppress(RuntimeError):  # nowhere to keep it: a read-only installation without a home
                self.machine._cache = self._cache = FunctionCache(function)  # type: ignore[no-untyped-call]
                # numba looks whether the file of a kernel has changed; its helpers are in other files.
                self._cache._cache_file._version += _kernels_digest()

    @property
    def _numba_type_(self) -> Any:
        """What numba takes it for where another kernel calls it."""
        return self.machine._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns."""
        if self._is_compiled or Kernel.patience <= 0.0 or self._work(arguments) > SMALL:
            self._is_compiled = True
            return self.machine(*arguments)
        start = time.perf_counter()
        with np.errstate(all="ignore"):  # compiled arithmetic is as silent
            result = self.as_written(*arguments)
        Kernel.patience -= time.perf_counter() - start
        return tuple(map(_number, result)) if isinstance(result, tuple) else _number(result)

    @functools.cached_property
    def as_written(self) -> Callable[..., Any]:
        """The function, which calls other kernels as they are written too."""
        function, names = self.function, _names_as_written(self.function.__module__)
        return FunctionType(function.__code__, names, function.__name__, function.__defaults__)

    @functools.cached_property
    def _is_compiled(self) -> bool:
        """Whether compiled code was on disk before this process began."""
        return self._cache is not None and bool(self._cache._cache_file._load_index())  # type: ignore[no-untyped-call]

    def _work(self, arguments: tuple[Any, ...]) -> int:
        """Return how many elements a call reads, about."""
        columns = itertools.chain.from_iterable(x if isinstance(x, tuple) else (x,) for x in arguments)
        elements = sum(np.size(column) for column in columns)
        loops: Any = 1 if self._times is None else arguments[self._times]
        return elements * (len(loops) if np.ndim(loops) else int(loops))


def _number(result: Any) -> Any:
    """Return a number in Python's own types, as compiled code does."""
    return result.item() if isinstance(result, np.generic) else result


_AS_WRITTEN: dict[str, dict[str, Any]] = {}  # by module


def _names_as_written(module: str) -> dict[str, Any]:
    """Return the names of a kernel module, where kernels are as they are written; kernels call each other."""
    if module not in _AS_WRITTEN:
        _AS_WRITTEN[module] = names = dict(vars(sys.modules[module]))
        names.update({name: kernel.as_written for name, kernel in names.items() if isinstance(kernel, Kernel)})
    return _AS_WRITTEN[module]


@functools.cache
def _kernels_digest() -> str:
    """Return the digest of all kernel modules, whose names begin with one underscore."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("**/_[!_]*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Team:
    """Calls ``kernel(*arguments, first, last)`` for 0 to ``size``: at once, or in parts on several threads.

    For kernels whose every element is a function of the arguments alone, so that the parts do not change a bit.
    Below ``whole_below``, starting threads takes longer than they save. Parts end at multiples of ``step``.
    """

    def __init__(self, size: int, *, whole_below: int, step: int = 1) -> None:
        steps = -(-size // step)
        parts = min(THREADS, steps) if size >= whole_below else 1
        ends = [min(size, steps * i // parts * step) for i in range(parts + 1)]
        self._parts, self.is_one = list(itertools.pairwise(ends)), parts == 1
        self._others = None if self.is_one else Threads(parts - 1)

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._others is not None:
            self._others.__exit__(*reason)

    def __call__(self, kernel: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what the kernel returned for every part."""
        if self._others is None:
            return [kernel(*arguments, *self._parts[0])]
        running = [self._others.submit(kernel, *arguments, *part) for part in self._parts[1:]]
        return [kernel(*arguments, *self._parts[0]), *map(result_of, running)]
