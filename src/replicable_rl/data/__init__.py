"""Recorded data: counts from logs, where the rows are."""

from replicable_rl.data.dataset import Dataset, Flaws
from replicable_rl.data.process import Bins, Process
from replicable_rl.data.reading import from_transitions
from replicable_rl.data.samples import Homogeneity, same_process
from replicable_rl.data.several import align, compare_logs, from_logs
from replicable_rl.data.summary import Summary

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
