"""Options that say which column of a log is what; `diagnose` and `audit` share them."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.cli.options import given_options, with_options
from replicable_rl.data import Bins, Dataset, align, from_logs, from_transitions, load_dataset
from replicable_rl.data.alignment import named_logs
from replicable_rl.errors import InvalidInput, shown

_option = functools.partial(Option, rich_help_panel="Columns of a log")

_SAVED = ".npz"
_SEVERAL = ("state", "action", "next_state")
_OPTIONS: dict[str, Any] = {
    "gamma": Annotated[float | None, _option(metavar="X", help="Discount of a log, in [0, 1).")],
    "state": Annotated[str | None, _option(metavar="NAMES", help="The column of the state, or several: room,hour.")],
    "action": Annotated[str | None, _option(metavar="NAMES", help="The column of the action, or several.")],
    "reward": Annotated[str | None, _option(metavar="NAME", help="The column of the reward.")],
    "next_state": Annotated[str | None, _option(metavar="NAMES", help="The column of the next state, or several.")],
    "done": Annotated[str | None, _option(metavar="NAME", help="The column that says where episodes end.")],
    "episode": Annotated[str | None, _option(metavar="NAME", help="The column that names episodes.")],
    "order": Annotated[str | None, _option(metavar="NAME", help="The column that orders an episode's rows.")],
    "bins": Annotated[
        list[str] | None,
        _option(metavar="NAME=EDGES", help="Bin a column of numbers: temperature=10,20,30. Repeatable."),
    ],
    "reward_range": Annotated[
        tuple[float, float] | None, _option(metavar="LOW HIGH", help="Bounds of the rewards.  [default: those seen]")
    ],
    "allowed": Annotated[
        str | None,
        _option(metavar="FILE", help="A file with a row for every state and action that is allowed.  [default: all]"),
    ],
}

# A command with these gets what was given of them as ``columns``, by name.
with_column_options = with_options("columns", {name: (None, hint) for name, hint in _OPTIONS.items()})


def read_log(owner: str, path: Path, columns: dict[str, Any]) -> Dataset:
    """Count the rows of a log, or load what was counted and saved."""
    return _saved(path, columns) if path.suffix == _SAVED else from_transitions(path, **_settings(owner, columns))


def read_logs(owner: str, paths: Sequence[str], columns: dict[str, Any]) -> dict[str, Dataset]:
    """Count the rows of several logs as samples of one process, or load what was counted and saved."""
    saved = [path for path in paths if path.endswith(_SAVED)]
    if not saved:
        return from_logs(paths, **_settings(owner, columns))
    if len(saved) < len(paths):
        raise InvalidInput(
            f"{owner}: give logs or saved samples, not both: {saved[0]} is saved. Save the others with Dataset.save."
        )
    return align({name: _saved(Path(path), columns) for name, path in named_logs(owner, paths).items()})


def refuse_columns(owner: str, columns: dict[str, Any]) -> None:
    """Refuse the options of logs where there is none."""
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{owner}: {', '.join(also)} is an option of logs. Give two logs or more to audit, or one log to "
            "`replicable-rl diagnose`."
        )


def _saved(path: Path, columns: dict[str, Any]) -> Dataset:
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{path}: a saved file has its own discount, names and reward range. Leave out {', '.join(also)}."
        )
    return load_dataset(path)


def _settings(owner: str, columns: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in columns.items() if value is not None}
    if "gamma" not in given:
        raise InvalidInput(f"{owner}: a log does not say its discount. Give --gamma, in [0, 1).")
    if "bins" in given:
        given["bins"] = _bins(given["bins"])
    return given | {name: _columns(given[name]) for name in _SEVERAL if name in given}


def _bins(texts: list[str]) -> dict[str, Bins]:
    """Read which column has which edges."""
    found: dict[str, Bins] = {}
    for text in texts:
        column, _, edges = text.rpartition("=")
        try:
            numbers = [float(edge) for edge in edges.split(",")]
        except ValueError:
            numbers = []
        if not column or not numbers:
            raise InvalidInput(f"--bins must be a column and its edges, temperature=10,20,30, got {shown(text)}.")
        if column in found:
            raise InvalidInput(f"--bins must name a column once, got {shown(column)} twice.")
        found[column] = Bins(numbers)
    return found


def _columns(text: str) -> str | list[str]:
    """Read one column, or several."""
    names = text.split(",")
    return names[0] if len(names) == 1 else names
