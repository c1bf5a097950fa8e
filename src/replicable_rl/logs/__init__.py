"""Recorded data: counts from logs, where the rows are."""

from replicable_rl.logs.dataset import Dataset, Flaws
from replicable_rl.logs.process import Bins, Process
from replicable_rl.logs.reading import from_transitions
from replicable_rl.logs.samples import Homogeneity, same_process
from replicable_rl.logs.several import align, compare_logs, from_logs
from replicable_rl.logs.summary import Summary

__all__ = [
    "Bins",
    "Dataset",
    "Flaws",
    "Homogeneity",
    "Process",
    "Summary",
    "align",
    "compare_logs",
    "from_logs",
    "from_transitions",
    "same_process",
]
