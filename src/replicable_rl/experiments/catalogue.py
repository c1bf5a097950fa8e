"""All experiments that are there, and how they are made from one store."""

import dataclasses
import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence

from replicable_rl import experiments as package
from replicable_rl.audit import AuditResult, run_audits
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.errors import UnknownId, did_you_mean
from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Experiment, Scale, Study
from replicable_rl.store import RunStore


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in their own order; the folders of this package are looked through.

    >>> list(experiments())
    ['figure1', 'figure2', 'exploration', 'theorem', 'cost', 'levels', 'frontier', 'claims']
    """
    folders = [one.name for one in pkgutil.iter_modules(package.__path__) if one.ispkg]
    found = [importlib.import_module(f"{package.__name__}.{folder}").EXPERIMENT for folder in folders]
    return {one.name: one for one in sorted(found, key=lambda one: (one.order, one.name))}


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments that are asked for, in their own order; all of them where none is named.

    >>> [one.name for one in chosen(["levels", "figure1"])]
    ['figure1', 'levels']
    >>> chosen(["figure3"])
    Traceback (most recent call last):
    ...
    replicable_rl.errors.UnknownId: reproduce: no experiment is called 'figure3'. Did you mean 'figure2'?
    """
    known = experiments()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f" Known: {', '.join(known)}."
            raise UnknownId(f"reproduce: no experiment is called {name!r}.{hint}")
    return [one for one in known.values() if one.name in names or not names]


def reproduce(
    names: Sequence[str], store: str | os.PathLike[str], scale: Scale, *, n_jobs: int | None = -1
) -> Iterator[tuple[Experiment, Dataset]]:
    """Make experiments, and yield each with its data; the first is there soon.

    Runs that the store has are read, the others are made and kept in it. The data depends on names, scale and the store
    alone, and on the store only in the times of runs.
    """
    wanted = chosen(names)
    collecting = [one for one in wanted if one.collect]
    needed = [one for one in experiments().values() if not one.collect and (one in wanted or collecting)]
    made: list[tuple[Experiment, Dataset]] = []
    with RunStore(store) as opened:
        for one, dataset in _made(needed, opened, scale, n_jobs):  # in one go, so that no worker waits for another
            made.append((one, dataset))
            if one in wanted:
                yield one, dataset
        for one in collecting:
            assert one.collect is not None
            yield one, _named(one, one.collect(made), scale)


def _made(
    some: Sequence[Experiment], store: RunStore, scale: Scale, n_jobs: int | None
) -> Iterator[tuple[Experiment, Dataset]]:
    designs = [one.design(scale) for one in some]
    first = _results([study for design in designs for study in design], store, n_jobs)
    for one, studies in zip(some, designs, strict=True):
        results = [next(first) for _ in studies]
        while more := one.more(scale, studies, results):
            studies, results = [*studies, *more], [*results, *_results(more, store, n_jobs)]
        yield one, _named(one, one.analyse(studies, results), scale)


def _results(studies: Sequence[Study], store: RunStore, n_jobs: int | None) -> Iterator[AuditResult]:
    """Make the audits of studies, each once, and yield their results in order, each as soon as it is there."""
    specs = list(dict.fromkeys(study.audit for study in studies))
    made = zip(specs, run_audits(specs, store, n_jobs=n_jobs), strict=True)
    results: dict[AuditSpec, AuditResult] = {}
    for study in studies:
        while study.audit not in results:
            results.update([next(made)])
        yield results[study.audit]


def _named(one: Experiment, dataset: Dataset, scale: Scale) -> Dataset:
    """Add what the data is about, and the command that makes it."""
    options = f"{' --quick' * scale.quick}{'' if scale == Scale.of(quick=scale.quick) else f' --runs {scale.runs}'}"
    command = f"replicable-rl reproduce {one.name}{options}"
    return dataclasses.replace(dataset, name=one.name, title=one.title, details={**dataset.details, "command": command})
