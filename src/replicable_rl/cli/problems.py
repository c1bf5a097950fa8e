"""What a command is to solve: a problem that can be sampled, or a log of one."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from replicable_rl.cli.columns import SAVED, read_log
from replicable_rl.cli.objects import parse_object
from replicable_rl.cli.options import given_options
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.files import kind_in_file, load_artifact
from replicable_rl.logs import Dataset
from replicable_rl.logs.sources import ENDINGS
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import PROBLEMS, make

ProblemOrLog = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="An id (see `list`), id:key=value,..., a Gymnasium id, a saved .npz file, or a log: a .csv, .parquet or "
        ".jsonl file, a folder or a pattern of them.",
    ),
]


def find_problem(
    owner: str, text: str, columns: dict[str, Any], of_drawing: dict[str, Any]
) -> Callable[[], TabularMDP | Dataset]:
    """Return what returns the problem that a command line names, or the log in its place.

    A problem is built at once. A log is read later, for it may take long: all other input is checked before.
    ``of_drawing`` has the options that say how samples are drawn, which a log has none of.
    """
    if is_log(text):
        if also := given_options(of_drawing).values():
            raise InvalidInput(
                f"{owner}: {', '.join(also)} is for samples that are drawn, and those of a log are recorded. Leave it "
                "out."
            )
        return partial(read_log, owner, Path(text), columns)
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{owner}: {', '.join(also)} is for logs, and {shown(text)} is none: a log is a file that ends in "
            f"{', '.join(ENDINGS)}, or a folder or a pattern of them."
        )
    problem = resolve_problem(text)
    return lambda: problem


def resolve_problem(text: str) -> TabularMDP:
    """Return the problem that a command line names: a saved file, or an id, perhaps with ``:key=value,...``."""
    if text.endswith(SAVED) or os.path.isfile(text):  # noqa: PTH113  # Path's raises where a long map is no file name
        return load_artifact(text, TabularMDP)
    spec = parse_object(text)
    return make(spec.id, **spec.params)


def refuse_log(owner: str, text: str, what: str) -> None:
    """Refuse a log where fresh samples are drawn; say what `diagnose` finds instead."""
    if is_log(text):
        raise InvalidInput(
            f"{owner}: draws fresh samples, and {text} is a log, which has none. `replicable-rl diagnose` says {what}."
        )


def refuse_problem(owner: str, text: str) -> None:
    """Refuse a problem where a log is read."""
    if os.path.exists(text):  # noqa: PTH110  # Path's own raises where a name is too long
        return
    if text.partition(":")[0] in PROBLEMS:
        raise InvalidInput(
            f"{owner}: {shown(text)} is a problem, and no log: a log is a file that ends in {', '.join(ENDINGS)}, or a "
            "folder of them. `replicable-rl audit` says how often two runs on a problem agree."
        )


def is_log(text: str) -> bool:
    """Whether a text of the command line names a log: files, a folder or a pattern of them, or what was counted.

    >>> is_log("monday.csv"), is_log("logs/2026-*"), is_log("chain-v1"), is_log("chain-v1:n_states=6")
    (True, True, False, False)
    """
    if text.endswith(SAVED):
        return kind_in_file(text) == Dataset.saved_as
    id = text.partition(":")[0]
    if text.lower().endswith(ENDINGS) or any(letter in id for letter in "*?["):
        return True
    return id not in PROBLEMS and os.path.isdir(text)  # noqa: PTH112  # Path's own raises where a name is too long
