"""Many audits from one plan file: every problem with every algorithm, and every value of a list.

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

A problem may also be ``file = "saved.npz"``, found from where the plan is, or have a Gymnasium id.
A parameter that is a list itself is written as a list of lists.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replicable_rl.audit.api import audit
from replicable_rl.audit.jobs import OnError
from replicable_rl.audit.result import AuditResult
from replicable_rl.errors import InvalidFile, InvalidInput, did_you_mean
from replicable_rl.mdp import TabularMDP, load_mdp
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import make_algorithm, problem_from_spec
from replicable_rl.solve import Algorithm
from replicable_rl.store import RunStore

__all__ = ["Sweep", "audit_plan", "load_plan"]

_SETTINGS = ("shared_seeds", "runs_per_seed", "seed", "confidence")


@dataclass(frozen=True)
class Sweep:
    """Problems and algorithms to be audited with each other, and the settings of the audits."""

    problems: tuple[TabularMDP, ...]
    algorithms: tuple[Algorithm, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.problems) * len(self.algorithms)

    def run(
        self,
        *,
        store: str | os.PathLike[str] | RunStore | None = None,
        n_jobs: int | None = None,
        on_error: OnError = "raise",
        **settings: Any,
    ) -> Iterator[AuditResult]:
        """Make the audits one after the other; ``settings`` go before those of the plan."""
        for problem, algorithm in itertools.product(self.problems, self.algorithms):
            chosen = {**self.settings, **settings}
            yield audit(problem, algorithm, store=store, n_jobs=n_jobs, on_error=on_error, **chosen)


def audit_plan(path: str | os.PathLike[str], **options: Any) -> list[AuditResult]:
    """Make all audits of a plan file: every problem with every algorithm, and every value of a list.

    Parameters
    ----------
    path : path
        A TOML file; ``docs/audit.md`` shows one.
    **options
        ``store``, ``n_jobs`` and ``on_error`` as for :func:`replicable_rl.audit`, and settings that go before
        those of the plan: ``shared_seeds``, ``runs_per_seed``, ``seed``, ``confidence``.
    """
    return list(load_plan(path).run(**options))


def load_plan(path: str | os.PathLike[str]) -> Sweep:
    """Read a plan file; every problem and algorithm is built and checked before anything runs."""
    try:
        with Path(path).open("rb") as stream:
            data = tomllib.load(stream)
    except FileNotFoundError:
        raise InvalidFile(f"{path}: no such file.") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: not a plan in TOML ({error}).") from None
    known = ("problem", "algorithm", *_SETTINGS)
    for name in data:
        if name not in known:
            hint = did_you_mean(name, known) or f" A plan has: {', '.join(known)}."
            raise InvalidFile(f"{path}: a plan has no entry {name!r}.{hint}")
    return Sweep(
        tuple(_built(path, "problem", data, problem_from_spec)),
        tuple(_built(path, "algorithm", data, lambda spec: make_algorithm(spec.id, **spec.params))),
        {name: _whole(data[name]) for name in _SETTINGS if name in data},
    )


def _built(
    path: str | os.PathLike[str], kind: str, data: Mapping[str, Any], build: Callable[[ObjectSpec], Any]
) -> Iterator[Any]:
    tables = data.get(kind)
    if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
        raise InvalidFile(f"{path}: a plan needs one table [[{kind}]] or more.")
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
        swept = [value if isinstance(value, list) else [value] for value in table.values()]
        for values in itertools.product(*swept):
            try:
                yield build(ObjectSpec(id, {name: _whole(value) for name, value in zip(table, values, strict=True)}))
            except InvalidInput as error:
                raise InvalidFile(f"{path}: {error}") from None


def _files(path: str | os.PathLike[str], names: Any) -> Iterator[TabularMDP]:
    """Load saved problems, which are found from where the plan is."""
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
