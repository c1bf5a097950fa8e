"""Wrote ``v3/store-v3.sqlite`` and ``v3/store-v3.json``, what it holds: ``python -m tests.vectors.store_v3``.

What version 2 has (``store_v2.py``), and beside it a block of rows.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.vectors import store_v2

import replicable_rl as rr
from replicable_rl.store import RunStore, packed


def write(path: Path) -> None:
    """Write the golden store."""
    store_v2.write(path)
    many = rr.audit(rr.make("two-goals-v1"), rr.PhasedVI(0.1, 0.01, calls=20, iterations=3), shared_seeds=30)
    contents: dict[str, bytes] = {}
    with RunStore(path) as store:
        store.add([packed(run, contents) for run in many.runs], contents)
        store.add_audit(many.spec)
        path.with_suffix(".json").write_text(json.dumps(store_v2.described(store), indent=1) + "\n")


if __name__ == "__main__":
    write(Path(__file__).parent / "v3" / "store-v3.sqlite")
