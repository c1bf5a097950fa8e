"""The command ``replicable-rl doctor``: whether everything works on this machine."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicable_rl.cli.options import AsJson
from replicable_rl.cli.output import print_all, print_json, text_width
from replicable_rl.errors import InvalidFile

if TYPE_CHECKING:
    from replicable_rl.cli.checks import Check

_NAME = 18  # letters of the longest name, and two spaces


def doctor_command(
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Try stores in this folder, where you keep them.  [default: the temporary one]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check versions, cores, compilation and its cache, stores, the terminal and extras; say what to do.

    With --quiet, print only what does not work.

    Exit codes: 0 if everything works, whichever extras there are; 1 if something does not.
    """
    from replicable_rl.cli.checks import all_checks

    if folder is not None and not folder.is_dir():
        raise InvalidFile(f"--folder: {folder} is not a folder. Name the one where your stores are.")
    checks = list(all_checks(folder))
    failing = [one for one in checks if one.status == "fails"]
    if as_json:
        print_json({"works": not failing, "checks": [asdict(one) for one in checks]})
    else:
        _show(checks, failing)
    return 1 if failing else 0


def _show(checks: Sequence[Check], failing: Sequence[Check]) -> None:
    from replicable_rl.cli.quiet import is_quiet

    width = text_width()
    for one in failing if is_quiet() else checks:
        mark = {"ok": "", "absent": "", "fails": "FAILS: "}[one.status]
        said = f"{mark}{one.found}{'.' if one.remedy else ''} {one.remedy}".rstrip()
        print_all(
            textwrap.fill(
                said,
                width,
                initial_indent=f"{one.name:<{_NAME}}",
                subsequent_indent=" " * _NAME,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    if failing:
        print_all(f"\n{len(failing)} of {len(checks)} checks failed: {', '.join(one.name for one in failing)}.")
    elif not is_quiet():
        print_all("\nEverything works.")
