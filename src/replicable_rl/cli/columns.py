"""Options that say which column of a log is what, for all commands that read logs."""

import contextlib
import functools
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from replicable_rl.cli.names import typed_list, typed_probabilities
from replicable_rl.cli.options import given_options, with_options
from replicable_rl.errors import InvalidInput, shown, speaking_as
from replicable_rl.files import load_artifact
from replicable_rl.logs import Bins, Dataset, align, from_logs, from_transitions
from replicable_rl.logs.process import WHOLE
from replicable_rl.logs.reading import named_logs

_option = functools.partial(Option, rich_help_panel="Columns of a log")

SAVED = ".npz"
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
    "last": Annotated[
        str | None,
        _option(metavar="drop|end", help="Without next states: what an episode's last row is.  [default: drop]"),
    ],
    "bins": Annotated[
        list[str] | None,
        _option(metavar="NAME=EDGES", help="Bin a column of numbers: temperature=10,20,30. Repeatable."),
    ],
    "reward_range": Annotated[
        tuple[float, float] | None, _option(metavar="LOW HIGH", help="Bounds of the rewards.  [default: those seen]")
    ],
    "states": Annotated[
        str | None,
        _option(
            metavar="NAMES", help="All states, a,b,c, or a .txt file with one on each line.  [default: those seen]"
        ),
    ],
    "actions": Annotated[str | None, _option(metavar="NAMES", help="All actions, likewise.  [default: those seen]")],
    "initial": Annotated[
        str | None,
        _option(
            metavar="PROBABILITIES",
            help="Probabilities of first states, a=0.5,b=0.5, or a .txt file of such lines.  [default: those of "
            "episodes]",
        ),
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
    if path.suffix == SAVED:
        return _saved(path, columns)
    with speaking_as(owner, "from_transitions"):
        return from_transitions(path, **_settings(columns))


def read_logs(owner: str, paths: Sequence[str], columns: dict[str, Any]) -> dict[str, Dataset]:
    """Count the rows of several logs as samples of one process, or load what was counted and saved."""
    saved = [path for path in paths if path.endswith(SAVED)]
    if not saved:
        with speaking_as(owner, "from_transitions", "from_logs", "align"):
            return from_logs(paths, **_settings(columns))
    if len(saved) < len(paths):
        raise InvalidInput(
            f"{owner}: give logs or saved samples, not both: {saved[0]} is saved. Save the others with rr.save."
        )
    return align({name: _saved(Path(path), columns) for name, path in named_logs(owner, paths).items()})


def refuse_columns(owner: str, columns: dict[str, Any]) -> None:
    """Refuse the options of logs where there is none."""
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{owner}: {', '.join(also)} is an option of logs. Give two logs or more to audit, or one log to "
            "`replicable-rl diagnose`."
        )


_ARGUMENTS = re.compile(
    rf"\b({'|'.join(_OPTIONS)})=(?:\[\.\.\.\]|\.\.\.)|\b(reward_range)\b|(?<=: )(states|actions|initial)(?= must )"
)


def in_options(message: str) -> str:
    """Return a message about arguments of Python as one about options of the command line.

    >>> in_options("a.csv, line 2: the state '1 ' begins with a blank. Name it so in states=[...].")
    "a.csv, line 2: the state '1 ' begins with a blank. Name it so in --states."
    >>> in_options("diagnose: initial must hold 2 probabilities; is a column missing (done=...)?")
    'diagnose: --initial must hold 2 probabilities; is a column missing (--done)?'
    """
    return _ARGUMENTS.sub(lambda found: f"--{next(filter(None, found.groups())).replace('_', '-')}", message)


@contextlib.contextmanager
def naming_options() -> Iterator[None]:
    """Let what is refused inside the block name options where it would name arguments of Python."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(in_options(str(error))) from None


def _saved(path: Path, columns: dict[str, Any]) -> Dataset:
    if also := given_options(columns).values():
        raise InvalidInput(
            f"{path}: a saved file has its own discount, names and reward range. Leave out {', '.join(also)}."
        )
    return load_artifact(path, Dataset)


def _settings(columns: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in columns.items() if value is not None}
    if "bins" in given:
        given["bins"] = _bins(given["bins"])
    given |= {name: _columns(given[name]) for name in _SEVERAL if name in given}
    bins = given.get("bins", {})
    for use in ("state", "action"):
        if (text := given.get(f"{use}s")) is not None:
            names = _listed(given.get(use, use))
            given[f"{use}s"] = _typed(typed_list(f"--{use}s", text, len(names)), names, bins)
    if (text := given.get("initial")) is not None:
        names = _listed(given.get("state", "state"))
        typed = typed_probabilities("--initial", text, len(names))
        if isinstance(typed, dict):
            names = _typed(list(typed), names, bins)
            given["initial"] = dict(zip(names, typed.values(), strict=True))
        else:
            given["initial"] = typed
    return given


def _typed(names: Sequence[tuple[str, ...]], columns: Sequence[str], bins: Container[str]) -> list[Any]:
    """Return typed names as a log has them: those of a column are whole numbers if all can be, and else texts.

    >>> _typed([("1", "a"), ("2", "7")], ("room", "hour"), {})
    [(1, 'a'), (2, '7')]
    """
    parts: list[tuple[Any, ...]] = []
    for column, texts in zip(columns, zip(*names, strict=True), strict=True):
        are_whole = column not in bins and all(map(WHOLE.fullmatch, texts))
        parts.append(tuple(map(int, texts)) if are_whole else texts)
    return list(parts[0]) if len(parts) == 1 else list(zip(*parts, strict=True))


def _listed(columns: str | list[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else columns


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
