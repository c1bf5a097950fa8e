"""The verbs: ``solve`` a problem, ``plan`` a run, ``save`` and ``load`` it, ``publish`` tie-breaks."""

from replicable_rl.solve.files import load_run, save_run
from replicable_rl.solve.publish import publish
from replicable_rl.solve.run import Algorithm, algorithm_spec, plan, solve, source_of

__all__ = [
    "Algorithm",
    "algorithm_spec",
    "load_run",
    "plan",
    "publish",
    "save_run",
    "solve",
    "source_of",
]
