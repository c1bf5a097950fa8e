"""Options that say which column of a log is what; `diagnose` and `audit` share them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.cli.options import given_options, with_options
from replicable_rl.data import Dataset, from_logs, from_transitions
from replicable_rl.errors import InvalidInput

Column = Annotated[str | None, Option(metavar="NAMES", help="Its column, or several, separated by commas.")]
Name = Annotated[str | None, Option(metavar="NAME", help="Its column.")]

_SEVERAL = ("state", "action", "next_state")
_OPTIONS: dict[str, Any] = {
    "gamma": Annotated[float | None, Option(metavar="X", help="Discount of a log, in [0, 1).")],
    "state": Column,
    "action": Column,
    "reward": Name,
    "next_state": Column,
    "done": Annotated[str | None, Option(metavar="NAME", help="The column that says where episodes end.")],
    "episode": Annotated[str | None, Option(metavar="NAME", help="The column that names episodes.")],
    "reward_range": Annotated[
        tuple[float, float] | None, Option(metavar="LOW HIGH", help="Bounds of the rewards [default: those seen].")
    ],
}

# A command with these gets what was given of them as ``columns``, by name.
with_column_options = with_options("columns", {name: (None, hint) for name, hint in _OPTIONS.items()})


def read_log(owner: str, path: Path, columns: dict[str, Any]) -> Dataset:
    """Count the rows of a log."""
    return from_transitions(path, **_settings(owner, columns))


def read_logs(owner: str, paths: Sequence[str], columns: dict[str, Any]) -> dict[str, Dataset]:
    """Count the rows of several logs as samples of one process."""
    return from_logs(paths, **_settings(owner, columns))


def refuse_columns(owner: str, columns: dict[str, Any]) -> None:
    """Refuse the options of logs where there is none."""
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{owner}: {', '.join(also)} is for logs. An audit takes two of them or more; what another log would say, "
            "`replicable-rl diagnose` tells of one."
        )


def _settings(owner: str, columns: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in columns.items() if value is not None}
    if "gamma" not in given:
        raise InvalidInput(f"{owner}: a log does not say its discount. Give --gamma, in [0, 1).")
    return given | {name: _columns(given[name]) for name in _SEVERAL if name in given}


def _columns(text: str) -> str | list[str]:
    """Read one column, or several."""
    names = text.split(",")
    return names[0] if len(names) == 1 else names
