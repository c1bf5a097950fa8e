"""What a run is (:class:`RunSpec`) and what it yields (:class:`Solution`)."""

from replicable_rl.records.solution import (
    Fingerprints,
    Guarantee,
    Solution,
    Status,
    StatusCode,
)
from replicable_rl.records.spec import ObjectSpec, RunSpec

__all__ = ["Fingerprints", "Guarantee", "ObjectSpec", "RunSpec", "Solution", "Status", "StatusCode"]
