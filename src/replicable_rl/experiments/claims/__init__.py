"""The paper's claims one by one: what was measured, and whether it held; and its errata, with evidence.

Claims are in our words. A verdict is computed from the other experiments' data: *held* or *not held* where an interval
(or a count that needs none) says so, *cannot tell* where it holds both answers. Change the data and the verdicts
change.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicable_rl.experiments.claims.errata import errata
from replicable_rl.experiments.claims.texts import TEXTS
from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.experiment import Experiment
from replicable_rl.experiments.verdicts import CANNOT_TELL, HELD, NOT_HELD


def collect(made: Sequence[tuple[Experiment, Dataset]]) -> Dataset:
    """Return the verdicts of all other experiments on their data, and the errata with their evidence."""
    verdicts = [verdict for experiment, dataset in made for verdict in experiment.verdicts(dataset)]
    found = errata({experiment.name: dataset for experiment, dataset in made})
    tables = {"claims": Table.of([one._asdict() for one in verdicts]), "errata": Table.of([e._asdict() for e in found])}
    said = [one.verdict for one in verdicts]
    return Dataset(tables, {"verdicts": {name: said.count(name) for name in (HELD, NOT_HELD, CANNOT_TELL)}})


EXPERIMENT = Experiment("claims", 90, TEXTS, collect=collect)
