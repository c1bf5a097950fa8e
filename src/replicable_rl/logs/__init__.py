"""Recorded data: counts from logs, where the rows are."""

from replicable_rl.logs.dataset import Bins, Dataset, Flaws, Process, Summary
from replicable_rl.logs.reading import Logs, align, compare_logs, from_logs, from_transitions, same_process
from replicable_rl.logs.samples import Homogeneity

__all__ = [
    "Bins",
    "Dataset",
    "Flaws",
    "Homogeneity",
    "Logs",
    "Process",
    "Summary",
    "align",
    "compare_logs",
    "from_logs",
    "from_transitions",
    "same_process",
]
