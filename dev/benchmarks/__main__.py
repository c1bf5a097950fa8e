"""``python -m dev.benchmarks``: measure, keep the numbers, and write the page.

A whole run writes docs/benchmarks.md. Some sections, or ``--quick``, are printed
and leave the page alone; the numbers of some sections are kept, so that ``--render`` can show them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from dev.benchmarks import audit, decisions, episodes, limits, logs, planning, rendering, runs, sampler, startup
from dev.benchmarks.records import Book, machine
from dev.benchmarks.timing import Measurement

ROOT = Path(__file__).resolve().parents[2]
RESULTS, DOCS = ROOT / "results" / "benchmarks.json", ROOT / "docs"
MODULES: dict[str, ModuleType] = {
    "limits": limits,
    "sampler": sampler,
    "runs": runs,
    "episodes": episodes,
    "planning": planning,
    "decisions": decisions,
    "logs": logs,
    "audit": audit,
    "startup": startup,
}


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line asks."""
    parser = argparse.ArgumentParser(prog="python -m dev.benchmarks", description="Measure, and write the page.")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"one of {', '.join(MODULES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, printed only: to see that everything runs")
    parser.add_argument("--render", action="store_true", help="write the page from the numbers of earlier runs")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(MODULES):
        parser.error(f"no such section: {', '.join(sorted(unknown))}. There are {', '.join(MODULES)}.")
    if options.render:
        render(Book.load(RESULTS), DOCS)
        return
    book = Book.load(RESULTS) if options.sections and not options.quick and RESULTS.exists() else Book({})
    book = Book(machine(), book.measurements)
    names = options.sections or list(MODULES)
    for name in names:
        module = MODULES[name]
        book = book.with_section(name, _watched(name, module.QUICK if options.quick else module.FULL))
        if not options.quick:
            book.save(RESULTS)
    if options.quick or options.sections:
        for name in names:
            print(f"## {name}\n\n{rendering.section_tables(book, name)}")
    else:
        render(book, DOCS)


def render(book: Book, folder: Path) -> None:
    """Write the page from measurements alone."""
    if missing := set(MODULES) - book.sections:
        sys.exit(f"The page needs all sections; {', '.join(sorted(missing))} have not been measured.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.md").write_text(rendering.page(book), encoding="utf-8")
    print(f"Wrote {folder / 'benchmarks.md'}.", file=sys.stderr)


def _watched(name: str, sizes: object) -> Iterator[Measurement]:
    """Measure a section, and say on stderr where it is."""
    started, last = time.perf_counter(), ""
    for each in MODULES[name].measure(sizes):
        if each.job != last:
            print(f"{name:>9} {time.perf_counter() - started:6.1f} s  {each.job}", file=sys.stderr, flush=True)
            last = each.job
        yield each


if __name__ == "__main__":
    main()
