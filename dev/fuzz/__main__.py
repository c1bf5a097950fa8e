"""``python -m dev.fuzz``: mutate files of every kind, read them, and print what happened."""

from __future__ import annotations

import argparse
import sys
import time

from dev.fuzz.engine import OUTCOMES, Tally, fuzz


def table_of(tally: Tally) -> str:
    """Return the counts as a table in Markdown."""
    lines = [f"| file | {' | '.join(OUTCOMES)} |", f"|---|{'---:|' * len(OUTCOMES)}"]
    for name, counts in tally.counts.items():
        lines.append(f"| {name} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if anything happened that may not."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="2 000 mutations")
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    mutations = 2000 if chosen.quick else chosen.mutations
    tally = fuzz(mutations, chosen.seed)
    made = f"{mutations} mutants of seed {chosen.seed}."
    print(table_of(tally), made, f"{time.monotonic() - started:.0f} seconds.", *tally.bad[:10], sep="\n")
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
