"""All experiments by name, and how to make them from one store."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replicable_rl.audit import AuditResult
from replicable_rl.errors import UnknownId, did_you_mean
from replicable_rl.experiments import claims, cost, exploration, figure1, figure2, levels, theorem
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.lab import Lab, Scale, Study

__all__ = ["EXPERIMENTS", "Experiment", "chosen", "reproduce"]


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its plan, and what its analysis makes of the runs."""

    name: str
    title: str
    plan: Callable[[Scale], Sequence[Study]]
    analyse: Callable[[Sequence[Study], Sequence[AuditResult]], Dataset]


EXPERIMENTS: Mapping[str, Experiment] = {
    module.NAME: Experiment(module.NAME, module.TITLE, module.plan, module.analyse)
    for module in (figure1, figure2, exploration, theorem, cost, levels)
}
NAMES = (*EXPERIMENTS, claims.NAME)


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """Return the experiments that are asked for, in their own order; all of them where none is named.

    >>> chosen(["levels", "figure1"])
    ('figure1', 'levels')
    >>> chosen(["figure3"])
    Traceback (most recent call last):
    ...
    replicable_rl.errors.UnknownId: reproduce: no experiment is called 'figure3'. Did you mean 'figure2'?
    """
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f" Known: {', '.join(NAMES)}."
            raise UnknownId(f"reproduce: no experiment is called {name!r}.{hint}")
    return tuple(name for name in NAMES if name in names or not names)


def reproduce(
    names: Sequence[str], store: str | os.PathLike[str], scale: Scale, *, n_jobs: int = -1
) -> Iterator[Dataset]:
    """Make experiments, and yield their data one by one; the first is there soon.

    Runs that the store has are read, the others are made and kept in it. The data depends on names, scale and the store
    alone, and on the store only in the times of runs.
    """
    wanted = chosen(names)
    needed = [name for name in EXPERIMENTS if name in wanted or claims.NAME in wanted]
    plans = {name: list(EXPERIMENTS[name].plan(scale)) for name in needed}
    lab = Lab(store, n_jobs=n_jobs, expected=sum(study.size for plan in plans.values() for study in plan))
    try:
        made: dict[str, Dataset] = {}
        for some in (needed[:1], needed[1:]):  # what remains in one go, so that no worker waits for another
            for name, dataset in _made(lab, {name: plans[name] for name in some}).items():
                made[name] = dataset
                if name in wanted:
                    yield _said(dataset, scale)
        if claims.NAME in wanted:
            yield _said(claims.analyse(made), scale)
    finally:
        lab.close()


def _made(lab: Lab, plans: Mapping[str, list[Study]]) -> dict[str, Dataset]:
    results = iter(lab.audits([study for plan in plans.values() for study in plan]))
    return {name: EXPERIMENTS[name].analyse(plan, [next(results) for _ in plan]) for name, plan in plans.items()}


def _said(dataset: Dataset, scale: Scale) -> Dataset:
    """Add the command that makes this data."""
    options = f"{' --quick' * scale.quick}{'' if scale == Scale.of(quick=scale.quick) else f' --runs {scale.runs}'}"
    command = f"replicable-rl reproduce {dataset.name}{options}"
    return dataclasses.replace(dataset, details={**dataset.details, "command": command})
