"""Replicable reinforcement learning: train twice on fresh samples, get exactly the same policy.

>>> import replicable_rl as rr
>>> mdp = rr.make("two-goals-v1")
>>> algorithm = rr.ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2)
>>> one = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=1)
>>> two = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=2)
>>> one.fingerprints.policy == two.fingerprints.policy
True
"""

from replicable_rl import plot, queries, rules, testing, theory
from replicable_rl.algorithms import (
    ApproximateMDP,
    PhasedVI,
    PlugInPolicy,
    ReplicableApproximateMDP,
    ReplicablePhasedVI,
    ReplicableRMax,
    RMax,
)
from replicable_rl.audit import Agreement, Estimate, audit
from replicable_rl.diagnose import compare, diagnose
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Bins, from_transitions
from replicable_rl.planning import evaluate_policy, optimal_values
from replicable_rl.plot import draw
from replicable_rl.problem.environments import EpisodicEnv, Simulator, from_gymnasium
from replicable_rl.problem.source import Episodic, Generative, Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import quiet
from replicable_rl.randomness import SharedRandomness
from replicable_rl.registry import load, make, register, save
from replicable_rl.runs import (
    Algorithm,
    Claim,
    Claims,
    Level,
    Run,
    Status,
    StatusCode,
)
from replicable_rl.solve import plan, publish, solve
from replicable_rl.store import RunStore
from replicable_rl.training import StableBaselines3, audit_callable

__version__ = "0.1.0"


__all__ = [
    "Agreement",
    "Algorithm",
    "ApproximateMDP",
    "Bins",
    "Claim",
    "Claims",
    "Episodic",
    "EpisodicEnv",
    "Estimate",
    "Generative",
    "InvalidInput",
    "Level",
    "PhasedVI",
    "PlugInPolicy",
    "RMax",
    "ReplicableApproximateMDP",
    "ReplicablePhasedVI",
    "ReplicableRMax",
    "Run",
    "RunStore",
    "SharedRandomness",
    "Simulator",
    "Source",
    "StableBaselines3",
    "Status",
    "StatusCode",
    "TabularMDP",
    "audit",
    "audit_callable",
    "compare",
    "diagnose",
    "draw",
    "evaluate_policy",
    "from_gymnasium",
    "from_transitions",
    "load",
    "make",
    "optimal_values",
    "plan",
    "plot",
    "publish",
    "queries",
    "quiet",
    "register",
    "rules",
    "save",
    "solve",
    "testing",
    "theory",
]
