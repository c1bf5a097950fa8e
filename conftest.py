"""For tests and doctests alike: what one of them registers, the next does not find."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.runs import LEVELS

# The tests ask how things look in a terminal of their own, whatever the one is like that they are started from.
for _name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(_name, None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup: children would inherit it, and never stop
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def registries_are_put_back() -> Iterator[None]:
    """Leave levels, problems and algorithms as they were."""
    tables: list[dict[str, Any]] = [LEVELS, PROBLEMS, ALGORITHMS]
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


@pytest.fixture(autouse=True, scope="module")
def workers_end_with_their_module() -> Iterator[None]:
    """End joblib's worker processes: some tests kill them, and others must not find what is left."""
    yield
    executor = getattr(sys.modules.get("joblib.externals.loky.reusable_executor"), "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)
