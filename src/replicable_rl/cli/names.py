"""Names of states and actions, and probabilities of first states, as somebody types them or keeps them in a file."""

import csv
from collections.abc import Sequence
from pathlib import Path

from replicable_rl.errors import InvalidInput, shown
from replicable_rl.files import read_file

_FILE = ".txt"
_MOST_BYTES = 1 << 28
_WHERE = f"list them with commas between, or name a {_FILE} file with one on each line"

Name = tuple[str, ...]  # a text for every column


def typed_list(option: str, text: str, columns: int) -> list[Name]:
    """Return names: typed with commas between, or the lines of a file; in a line, parts have commas between.

    >>> typed_list("--states", 'home, "over, there"', 1)
    [('home',), ('over, there',)]
    """
    is_file, items = _items(option, text)
    if columns > 1 and not is_file:
        raise InvalidInput(
            f"{option}: a name has {columns} parts here, so name a {_FILE} file with one name on each line, its parts "
            f"with commas between, got {shown(text)}."
        )
    return [_parts(option, item, columns) for item in items]


def typed_probabilities(option: str, text: str, columns: int) -> dict[Name, float] | list[float]:
    """Return probabilities: by name, as in home=0.5,road=0.5, or one for every state in order.

    >>> typed_probabilities("--initial", "home=0.25,road=0.75", 1), typed_probabilities("--initial", "0.5,0.5", 1)
    ({('home',): 0.25, ('road',): 0.75}, [0.5, 0.5])
    """
    _, items = _items(option, text)
    if not any("=" in item for item in items):
        return [_probability(option, item) for item in items]
    found: dict[Name, float] = {}
    for item in items:
        name, _, number = item.rpartition("=")
        parts = _parts(option, name.strip(), columns)
        if parts in found:
            raise InvalidInput(f"{option} must name a state once, got {shown(name)} twice.")
        found[parts] = _probability(option, number)
    return found


def _items(option: str, text: str) -> tuple[bool, list[str]]:
    """Return whether a text names a file, and what it lists."""
    is_file = text.lower().endswith(_FILE)
    items = _lines(text) if is_file else [item.strip() for item in _split(option, text)]
    if not items or not all(items):
        raise InvalidInput(f"{option} must name at least one, and none may be blank: {_WHERE}, got {shown(text)}.")
    return is_file, items


def _lines(file: str) -> list[str]:
    try:
        text = read_file(Path(file), _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: is not UTF-8. Save it as UTF-8.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _parts(option: str, item: str, columns: int) -> Name:
    if columns == 1:
        return (item,)
    parts = tuple(part.strip() for part in _split(option, item))
    if len(parts) != columns:
        raise InvalidInput(f"{option}: a name has {columns} parts with commas between, got {shown(item)}.")
    return parts


def _split(option: str, text: str) -> Sequence[str]:
    """Return what stands between commas; what stands in quotes may hold commas."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InvalidInput(
            f"{option} must list names on one line, with commas between and every quote closed, got {shown(text)}."
        ) from None


def _probability(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(
            f"{option} must be probabilities, such as home=0.5,road=0.5, or one for every state in order, got "
            f"{shown(text)}."
        ) from None
