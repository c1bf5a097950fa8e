"""Property tests: the same examples every time in CI, fresh ones elsewhere, and never a deadline.

``REPLICABLE_RL_TEST_SEED`` rotates the seeds of the stochastic tests (see ``tests/statistics.py``) and, with
it, makes property tests look for new examples in CI too.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from replicable_rl.audit.evidence import Repeat
from replicable_rl.audit.workers import Pristine
from replicable_rl.testing import conformance
from tests import commands  # noqa: F401  # it notes what ships before any test can register something

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

gc.disable()  # while tests are collected: all that is made then stays, and looking for garbage in it takes seconds

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None)
if not os.access(Path.cwd(), os.W_OK):  # hypothesis keeps what failed in the folder that it is started from
    settings.register_profile("fresh", deadline=None, database=None)
settings.load_profile("fixed" if "CI" in os.environ and "REPLICABLE_RL_TEST_SEED" not in os.environ else "fresh")


def pytest_collection_finish() -> None:
    gc.freeze()  # nor is it looked at again
    gc.enable()


MADE_AGAIN = {name: vars(Pristine)[name] for name in ("__init__", "__exit__", "repeats")}


@pytest.fixture(scope="session", autouse=True)
def found_again() -> Iterator[None]:
    """Take it that runs would come out the same: a fork of this large process takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pristine, "__init__", lambda self, jobs: None)
        patch.setattr(Pristine, "__exit__", lambda self, *error: None)
        patch.setattr(Pristine, "repeats", lambda self, number, runs, each: [Repeat(runs[-1].key, True)])
        yield


@pytest.fixture(autouse=True)
def made_again(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs again in the tests of that."""
    if request.node.get_closest_marker("again") is not None:
        for name, function in MADE_AGAIN.items():
            monkeypatch.setattr(Pristine, name, function)


@pytest.fixture(scope="session")
def database() -> Iterator[DuckDBPyConnection]:
    """A database of DuckDB in memory."""
    import duckdb

    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def one_database(database: DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to one database, where a new one is asked for: to start it takes longer than to count a small log."""
    import duckdb

    connect: Any = duckdb.connect
    monkeypatch.setattr(
        duckdb, "connect", lambda *where, **how: connect(*where, **how) if where or how else database.cursor()
    )


@pytest.fixture(scope="session")
def another_process() -> Iterator[Any]:
    with conformance.other_process() as started:
        yield started


@pytest.fixture
def one_worker(another_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One other process for all conformance suites: it takes a second to start, and each suite starts its own."""
    monkeypatch.setattr(conformance, "other_process", lambda: nullcontext(another_process))
