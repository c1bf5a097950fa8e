"""What ``replicable-rl doctor`` tries in a process of its own: an import or a compilation may end it, or hang."""

from __future__ import annotations

import importlib
import sqlite3
import sys
import time
from typing import Any, cast

from replicable_rl.canonical import json_text
from replicable_rl.wording import sentence


def compiling() -> dict[str, Any]:
    """Compile a function that no cache can have, and say where compiled code is kept."""
    import numba
    from numba.core import config

    from replicable_rl.compiled import THREADS
    from replicable_rl.randomness._kernels import fill_uniform

    if cast("Any", config).DISABLE_JIT:
        return {"off": True}
    started = time.perf_counter()

    def triangle(n: int) -> int:
        total = 0
        for i in range(n + 1):
            total += i
        return total

    fresh, kept = cast("Any", numba.njit)(triangle), cast("Any", fill_uniform)
    right = fresh(100) == 5050
    seconds = time.perf_counter() - started
    return {"right": right, "seconds": seconds, "threads": THREADS, "cache": kept.stats.cache_path}


def importing(packages: list[str]) -> dict[str, str]:
    """Import packages and say what those raise that cannot be imported."""
    failures = {}
    for package in packages:
        try:
            importlib.import_module(package.replace("-", "_"))
        except Exception as error:  # whatever a broken installation raises
            failures[package] = f"{type(error).__name__}: {sentence(error, 200)}"
    return failures


def locking(path: str) -> dict[str, bool]:
    """Try to write to a database that somebody is writing to: it must be refused."""
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        return {"refused": error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY}
    finally:
        connection.close()
    return {"refused": False}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    tried: Any = {
        "compiling": compiling,
        "importing": lambda: importing(arguments),
        "locking": lambda: locking(*arguments),
    }
    print(json_text(tried[what]()))
