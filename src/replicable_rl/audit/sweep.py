"""Many audits from one file, a sweep: every problem with every algorithm, and every value of a list.

    shared_seeds = 60            # or a list of seeds
    runs_per_seed = 2

    [[problem]]
    id = "two-goals-v1"

    [[problem]]
    id = "riverswim-v1"
    n_states = [10, 20]          # a list is swept: one audit for each value

    [[algorithm]]
    id = "rpvi-v1"
    epsilon = 0.1
    delta = 0.001
    rho = 0.2

A problem may also be ``file = "saved.npz"``, found from where the sweep is, or have a Gymnasium id.
A parameter that is a list itself is written as a list of lists.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from replicable_rl.audit.api import StoreLike, audit_spec, opened_store
from replicable_rl.audit.jobs import OnError
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.run import run_audits
from replicable_rl.errors import InvalidFile, InvalidInput, did_you_mean
from replicable_rl.files import read_file
from replicable_rl.mdp import TabularMDP, load_mdp
from replicable_rl.progress_bar import bar_where_it_is_seen
from replicable_rl.records import AuditSpec, ObjectSpec, combinations
from replicable_rl.registry import build, make_algorithm

_LARGEST = 1 << 24  # bytes of a sweep
_SETTINGS = ("shared_seeds", "runs_per_seed", "seed", "confidence", "rho", "sampler", "require", "level")


@bar_where_it_is_seen()
def audit_sweep(
    path: str | os.PathLike[str],
    *,
    store: StoreLike = None,
    n_jobs: int | None = None,
    on_error: OnError = "raise",
    **settings: Any,
) -> list[AuditResult]:
    """Make all audits of a sweep: every problem with every algorithm, and every value of a list.

    Parameters
    ----------
    path : path
        A TOML file; ``docs/audit.md`` shows one.
    store, n_jobs, on_error
        As for :func:`replicable_rl.audit`.
    **settings
        What goes before the settings of the file: ``shared_seeds``, ``runs_per_seed``, ``seed``, ``confidence``,
        ``rho``, ``sampler``, ``require``, ``level``.
    """
    specs = load_sweep(path, in_store=store is not None, **settings)
    with opened_store(store) as opened:
        return list(run_audits(specs, opened, n_jobs=n_jobs, on_error=on_error))


def load_sweep(path: str | os.PathLike[str], *, in_store: bool = False, **settings: Any) -> list[AuditSpec]:
    """Read a sweep; every problem and algorithm is built and checked before anything runs."""
    try:
        data = tomllib.loads(read_file(path, _LARGEST).decode("utf-8"))
    except (RecursionError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: not a sweep in TOML ({error}).") from None
    known = ("problem", "algorithm", *_SETTINGS)
    for name in data:
        if name not in known:
            hint = did_you_mean(name, known) or f" A sweep has: {', '.join(known)}."
            raise InvalidFile(f"{path}: a sweep has no entry {name!r}.{hint}")
    built = {kind: list(_built(path, kind, data)) for kind in ("problem", "algorithm")}
    chosen = {name: _whole(data[name]) for name in _SETTINGS if name in data} | settings
    try:
        return [audit_spec(**pair, in_store=in_store, **chosen) for pair in combinations(**built)]
    except InvalidInput as error:
        raise InvalidFile(f"{path}: {error}") from None


def _built(path: str | os.PathLike[str], kind: str, data: Mapping[str, Any]) -> Iterator[Any]:
    tables = data.get(kind)
    if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
        raise InvalidFile(f"{path}: a sweep needs one table [[{kind}]] or more.")
    for table in tables:
        if kind == "problem" and "id" not in table and set(table) == {"file"}:
            yield from _files(path, table["file"])
            continue
        id = table.pop("id", None)
        if not isinstance(id, str):
            raise InvalidFile(f'{path}: every [[{kind}]] needs an id, such as id = "..."; got {table!r}.')
        for name, value in table.items():
            if value == []:
                raise InvalidFile(f"{path}: the list of {name!r} of {id} is empty. Give it a value or leave it out.")
        swept = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
        for params in combinations(**{name: map(_whole, values) for name, values in swept.items()}):
            try:
                yield build(ObjectSpec(id, params)) if kind == "problem" else make_algorithm(id, **params)
            except InvalidInput as error:
                raise InvalidFile(f"{path}: {error}") from None


def _files(path: str | os.PathLike[str], names: Any) -> Iterator[TabularMDP]:
    """Load saved problems, which are found from where the sweep is."""
    listed = names if isinstance(names, list) else [names]
    if not listed or not all(isinstance(name, str) for name in listed):
        raise InvalidFile(f"{path}: file must be the name of a saved problem, got {names!r}.")
    for name in listed:
        try:
            yield load_mdp(Path(path).parent / name)
        except InvalidInput as error:
            raise InvalidFile(f"{path}: {error}") from None


def _whole(value: Any) -> Any:
    """Read 1e6, which TOML knows as a float only, as the whole number it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
