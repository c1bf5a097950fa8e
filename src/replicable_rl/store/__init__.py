"""Finished runs and the audits that asked for them, in one SQLite file: append-only, shared, resumed from."""

from replicable_rl.store.contents import packed
from replicable_rl.store.runs import FamilySummary, RunStore

__all__ = ["FamilySummary", "RunStore", "packed"]
