"""What a run is (:class:`RunSpec`) and what it yields (:class:`Solution`, :class:`RunRecord`)."""

from replicable_rl.records.run import LEVELS, Level, RunRecord
from replicable_rl.records.solution import (
    Fingerprints,
    Guarantee,
    Solution,
    Status,
    StatusCode,
)
from replicable_rl.records.spec import ObjectSpec, RunFamily, RunSpec

__all__ = [
    "LEVELS",
    "Fingerprints",
    "Guarantee",
    "Level",
    "ObjectSpec",
    "RunFamily",
    "RunRecord",
    "RunSpec",
    "Solution",
    "Status",
    "StatusCode",
]
