"""What people read about the claims."""

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.experiments.experiment import Finding, Numbers, Texts


def _summary(dataset: Dataset) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in dataset.details["verdicts"].items())


def _finding(dataset: Dataset) -> Finding:
    return Finding(f"Of {len(dataset.tables['claims'])} claims: {_summary(dataset)}.")


TEXTS = Texts(
    title="The paper's claims, and what was measured",
    reading=[
        "A verdict is *held* or *not held* where an interval, or an exact number, says so, and *cannot tell* where the "
        "interval holds both answers."
    ],
    summary=_summary,
    finding=_finding,
    tables=[
        Numbers(
            "claims",
            {"claim": "claim", "where": "where", "measured": "measured", "verdict": "verdict"},
            "Claims in our words; labels are the paper's. Verdicts are computed from the data.",
        ),
        Numbers(
            "errata",
            {"number": "#", "text_says": "the text says", "right_is": "right is", "evidence": "evidence"},
            "Errata of the paper's text, each with a number computed when this page was made.",
        ),
    ],
)
