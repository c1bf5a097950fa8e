"""The command ``replicable-rl report``."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from replicable_rl.audit import AuditResult, read_audits
from replicable_rl.audit.audits import current
from replicable_rl.audit.document import store_document
from replicable_rl.audit.evidence import audits_of
from replicable_rl.cli.options import refuse_early
from replicable_rl.cli.output import print_note
from replicable_rl.errors import InvalidFile, InvalidInput, check_in_open_interval, did_you_mean
from replicable_rl.files import replacing, write_text
from replicable_rl.report import page
from replicable_rl.store import RunStore
from replicable_rl.wording import brief, plural


def report_command(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The file that `audit --store` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page.  [default: STORE with .html]")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show the runs of this problem only."),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show the runs of this algorithm only."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="X", help="How sure every interval is.  [default: what each audit asked for]"),
    ] = None,
) -> int:
    """Make a page of the audits in STORE: one HTML file that opens without a server."""
    target = store.with_suffix(".html") if output is None else output
    if target.is_file() or not target.exists():  # a pipe is opened once only
        refuse_early(replacing(target))
    chosen = {"problem": problem, "algorithm": algorithm, "confidence": confidence}
    options = [word for name, value in chosen.items() if value is not None for word in (f"--{name}", str(value))]
    command = shlex.join(["replicable-rl", "report", str(store), *options])
    results = _chosen(store, problem, algorithm, confidence)
    write_text(target, page(f"Audits in {store.name}", store_document(results), command))
    runs = sum(len(result.runs) for result in results)
    print_note(f"{target}: {plural(len(results), 'audit')}, {plural(runs, 'run')}. Open it in a browser.")
    return 0


def _chosen(store: Path, problem: str | None, algorithm: str | None, confidence: float | None) -> list[AuditResult]:
    """Return the audits of a store with these ids, those of one problem together."""
    if confidence is not None:
        confidence = check_in_open_interval("report", "confidence", confidence)
    _check_is_there(store)
    with RunStore(store) as opened:
        specs = current(audits_of(opened))
        if not specs:
            raise InvalidInput(f"{store}: holds no audits.")
        for part, wanted in (("problem", problem), ("algorithm", algorithm)):
            objects = {spec: spec.problem if part == "problem" else spec.algorithm for spec in specs}
            specs = [spec for spec in specs if wanted in (None, objects[spec].id, objects[spec].text)]
            if not specs:
                ids = list(dict.fromkeys(each.id for each in objects.values()))
                hint = did_you_mean(str(wanted), ids) or f" It has: {', '.join(brief(id, 40) for id in ids[:8])}."
                raise InvalidInput(f"{store}: holds no runs of the {part} {wanted!r}.{hint}")
        results = read_audits(opened, confidence=confidence, wanted=lambda spec: spec in specs)
        order = list(dict.fromkeys(spec.problem for spec in specs))
        return sorted(results, key=lambda result: order.index(result.problem))


def _check_is_there(store: Path) -> None:
    """Refuse what is no file with something in it: opening a store makes one where there is none."""
    try:
        size = store.stat().st_size
    except FileNotFoundError:
        raise InvalidFile(
            f"{store}: there is no such file. Make a store with `replicable-rl audit --store {store}`."
        ) from None
    except (OSError, ValueError):  # a name that no file can have
        raise InvalidFile(f"{os.fspath(store)!r}: cannot be opened. Name the file that an audit wrote.") from None
    if not size:
        raise InvalidFile(f"{store}: is empty, and no run store. Name the file that an audit wrote.")
