"""The paper's claims one by one: what was measured, and whether it held; and its errata, with evidence.

Claims are in our words. A verdict is computed from the other experiments' data: *held* or *not held* where an interval
(or a count that needs none) says so, *cannot tell* where it holds both answers. Change the data and the verdicts
change.
"""

from collections.abc import Sequence

from replicable_rl.experiments.claims.errata import errata
from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.experiment import CANNOT_TELL, HELD, NOT_HELD, Experiment, FigureTable, Finding
from replicable_rl.paper import cited


def collect(made: Sequence[tuple[Experiment, Dataset]]) -> Dataset:
    """Return the verdicts of all other experiments on their data, and the errata with their evidence."""
    judged = (verdict for experiment, dataset in made for verdict in experiment.verdicts(dataset))
    verdicts = [one._replace(where=cited(one.where)) for one in judged]
    found = [
        one._replace(text_says=cited(one.text_says))
        for one in errata({experiment.name: dataset for experiment, dataset in made})
    ]
    tables = {"claims": Table.of([one._asdict() for one in verdicts]), "errata": Table.of([e._asdict() for e in found])}
    said = [one.verdict for one in verdicts]
    return Dataset(tables, {"verdicts": {name: said.count(name) for name in (HELD, NOT_HELD, CANNOT_TELL)}})


def _summary(dataset: Dataset) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in dataset.details["verdicts"].items())


def _finding(dataset: Dataset) -> Finding:
    return Finding(f"Of {len(dataset.tables['claims'])} claims: {_summary(dataset)}.")


EXPERIMENT = Experiment(
    "claims",
    90,
    title="The paper's claims, and what was measured",
    reading=[
        "A verdict is *held* or *not held* where an interval, or an exact number, says so, and *cannot tell* where the "
        "interval holds both answers."
    ],
    summary=_summary,
    finding=_finding,
    tables=[
        FigureTable(
            "claims",
            {"claim": "claim", "where": "where", "measured": "measured", "verdict": "verdict"},
            "Claims in our words; numbers are those of the paper's PDF, labels those of its LaTeX. Verdicts are "
            "computed from the data.",
        ),
        FigureTable(
            "errata",
            {"number": "#", "text_says": "the text says", "right_is": "right is", "evidence": "evidence"},
            "Errata of the paper's text, each with a number computed when this page was made.",
        ),
    ],
    collect=collect,
)
