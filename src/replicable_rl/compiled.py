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

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from replicable_rl.progress import announce

__all__ = ["compiled"]

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


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel on first call; cached on disk, and without the interpreter lock."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return cast("Kernel", numba.njit(cache=True, **options)(function))
    except RuntimeError:  # nowhere to keep the compiled code: a read-only installation without a home
        return cast("Kernel", numba.njit(**options)(function))
