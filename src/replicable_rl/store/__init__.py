"""Finished runs in one SQLite file: append-only, shared between processes, resumed from."""

from replicable_rl.store.runs import FamilySummary, RunStore

__all__ = ["FamilySummary", "RunStore"]
