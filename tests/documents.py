"""The page of a store as text, with all details: what tests of several rooms look into."""

from __future__ import annotations

import os

from replicable_rl.audit import read_audits
from replicable_rl.audit.document import store_document
from replicable_rl.report import text
from replicable_rl.store import RunStore


def store_text(path: str | os.PathLike[str]) -> str:
    """Return what the page of a store says, in one long line for every paragraph."""
    with RunStore(path) as store:
        return text(store_document(read_audits(store)), width=10_000, details=True)
