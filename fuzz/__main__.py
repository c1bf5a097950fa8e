"""``python -m fuzz``: mutate files of every kind, read them, and write what happened to ``docs/fuzz.md``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from fuzz.engine import OUTCOMES, Found, fuzz
from replicable_rl.files import write_text

_PAGE = Path(__file__).parent.parent / "docs" / "fuzz.md"
_TEXT = """# Mutated files

`make fuzz` changes sound files at random (bits, bytes, cuts, splices, JSON values, rows of a store, members of an
archive) and reads each through its public reader, under limits of 10 seconds and 1 GiB. A reader may refuse a
mutant in one sentence, or read it as what it was. A store may leave damaged rows out. A problem, a sweep, a table of
results, a log or a plan (JSON that says what is run and what is claimed) may have become another valid one. Nothing
else may happen: no traceback, no hang, and no *record* (a run, a store, published cuts, a data set) that loads changed.

{table}

{made}
"""


def table_of(found: Found) -> str:
    """Return the counts as a table in Markdown."""
    lines = [f"| file | {' | '.join(OUTCOMES)} |", f"|---|{'---:|' * len(OUTCOMES)}"]
    for name, counts in found.counts.items():
        lines.append(f"| {name} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything happened that may not."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="2 000 mutations; print, and write nothing")
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    mutations = 2000 if chosen.quick else chosen.mutations
    found = fuzz(mutations, chosen.seed)
    made = f"{mutations} mutants of seed {chosen.seed}."
    print(table_of(found), made, f"{time.monotonic() - started:.0f} seconds.", *found.bad[:10], sep="\n")
    if not chosen.quick:
        write_text(_PAGE, _TEXT.format(table=table_of(found), made=made))
    return 1 if found.bad else 0


if __name__ == "__main__":
    sys.exit(main())
