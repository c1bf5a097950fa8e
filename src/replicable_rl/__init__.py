"""Replicable reinforcement learning: train twice on fresh samples, get exactly the same policy.

>>> import replicable_rl as rr
>>> mdp = rr.make("two-goals-v1")
>>> algorithm = rr.ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2)
>>> one = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=1)
>>> two = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=2)
>>> one.fingerprints.policy == two.fingerprints.policy
True
"""

from replicable_rl import testing, theory
from replicable_rl.algorithms import (
    ApproximateMDP,
    PhasedVI,
    ReplicableApproximateMDP,
    ReplicablePhasedVI,
    ReplicableRMax,
    RMax,
    predicted_disagreement,
)
from replicable_rl.audit import (
    Agreement,
    AuditResult,
    Estimate,
    RunFailed,
    StableBaselines3,
    audit,
    audit_callable,
    audit_plan,
)
from replicable_rl.envs import from_gymnasium, gridworld
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import Labels, TabularMDP, evaluate_policy, greedy, load_mdp, optimal_values
from replicable_rl.randomness import SharedRandomness
from replicable_rl.records import Fingerprints, Guarantee, RunSpec, Solution, Status, StatusCode
from replicable_rl.registry import make, make_algorithm
from replicable_rl.sampling import EpisodicEnv, Simulator
from replicable_rl.solve import load_solution, plan, save_solution, solve
from replicable_rl.store import RunStore

__version__ = "0.1.0"

__all__ = [
    "Agreement",
    "ApproximateMDP",
    "AuditResult",
    "EpisodicEnv",
    "Estimate",
    "Fingerprints",
    "Guarantee",
    "InvalidInput",
    "Labels",
    "PhasedVI",
    "RMax",
    "ReplicableApproximateMDP",
    "ReplicablePhasedVI",
    "ReplicableRMax",
    "RunFailed",
    "RunSpec",
    "RunStore",
    "SharedRandomness",
    "Simulator",
    "Solution",
    "StableBaselines3",
    "Status",
    "StatusCode",
    "TabularMDP",
    "audit",
    "audit_callable",
    "audit_plan",
    "evaluate_policy",
    "from_gymnasium",
    "greedy",
    "gridworld",
    "load_mdp",
    "load_solution",
    "make",
    "make_algorithm",
    "optimal_values",
    "plan",
    "predicted_disagreement",
    "save_solution",
    "solve",
    "testing",
    "theory",
]
