"""The command ``replicable-rl list``: what has an id."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from replicable_rl.canonical import Json
from replicable_rl.cli.options import AsJson
from replicable_rl.cli.output import print_json
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import ALGORITHMS, PROBLEMS
from replicable_rl.rules import SHIPPED
from replicable_rl.runs import LEVELS, implied, in_order

if TYPE_CHECKING:
    from rich.table import Table

_NONE = "-"
_NUMBERS = ("S", "A", "gamma")
_NARROW = 72  # columns, below which two columns of words would be broken too often


def list_command(as_json: AsJson = False) -> int:
    """List problems, algorithms, rules and levels, yours too."""
    if as_json:
        print_json(found())
    else:
        _show(found())
    return 0


def found() -> dict[str, Any]:
    """Return what has an id, kind by kind; sizes are null where a problem cannot be built without being told more."""
    return {
        "problems": [
            {"id": id, **_sizes(problem), "parameters": _parameters(problem)} for id, problem in PROBLEMS.items()
        ],
        "algorithms": list(_described(ALGORITHMS)),
        "rules": list(_described(SHIPPED)),
        "levels": [{"id": name, "implies": in_order(implied(name))} for name in in_order(LEVELS)],
    }


def _described(table: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    for id, kind in table.items():
        yield {"id": id, "summary": _summary(kind), "parameters": _parameters(kind)}


def _sizes(constructor: Callable[..., TabularMDP]) -> dict[str, Json]:
    """Return S, A and gamma of a problem by default; None where it needs input, or cannot be built."""
    try:
        mdp = constructor()
    except Exception:  # somebody's own: what it raises, `solve` says
        return {"states": None, "actions": None, "gamma": None}
    return {"states": mdp.n_states, "actions": mdp.n_actions, "gamma": mdp.gamma}


def _summary(kind: Any) -> str:
    return inspect.cleandoc(kind.__doc__ or _NONE).splitlines()[0]  # not that of its base


def _parameters(constructor: Any) -> dict[str, Json]:
    """Return the names of parameters, each with its default where that is a number or a text."""
    parameters: dict[str, Json] = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        default = getattr(parameter.default, "id", parameter.default)  # an ingredient is known by its id
        simple = isinstance(default, (int, float, str)) and not isinstance(default, bool)
        parameters[name] = default if simple else None
    return parameters


def _show(lists: dict[str, Any]) -> None:
    from replicable_rl.cli.show import console

    out = console()
    problems = [
        (one["id"], *(_cell(one[size]) for size in ("states", "actions", "gamma")), _written(one["parameters"]))
        for one in lists["problems"]
    ]
    out.print(_listing(("problem", *_NUMBERS, "parameters"), problems))
    known = "Also a Gymnasium id with a known transition table, as FrozenLake-v1:gamma=0.95, and any file that "
    out.print(f"{known}rr.save wrote.\n")
    described = (("algorithm", "what it is", "parameters"), ("rule", "how a plug-in policy decides", "settings"))
    for headings, kind in zip(described, ("algorithms", "rules"), strict=True):
        rows = [headings, *((one["id"], one["summary"], _written(one["parameters"]) or _NONE) for one in lists[kind])]
        shown = [(id, f"{words} ({more})") for id, words, more in rows] if out.width < _NARROW else rows
        out.print(_listing(shown[0], shown[1:]))
        out.print()
    levels = [(one["id"], ", ".join(one["implies"]) or _NONE) for one in lists["levels"]]
    out.print(_listing(("level", "two runs that agree on it also agree on"), levels))


def _cell(size: float | None) -> str:
    return _NONE if size is None else f"{size:g}" if isinstance(size, float) else str(size)


def _written(parameters: Mapping[str, Json]) -> str:
    return ", ".join(name if default is None else f"{name}={default}" for name, default in parameters.items())


def _listing(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose ids and numbers are never broken; the other columns are."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="bold")
    for i, column in enumerate(columns):
        number = column in _NUMBERS
        table.add_column(column, justify="right" if number else "left", overflow="fold", no_wrap=i == 0 or number)
    for row in rows:
        table.add_row(*row)
    return table
