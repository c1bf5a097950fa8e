"""Replicable reinforcement learning: train twice on fresh samples, get exactly the same policy.

>>> import replicable_rl as rr
>>> mdp = rr.make("two-goals-v1")
>>> algorithm = rr.ReplicablePhasedVI(epsilon=0.1, delta=0.001, rho=0.2)
>>> one = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=1)
>>> two = rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=2)
>>> one.fingerprints.policy == two.fingerprints.policy
True
"""

import replicable_rl.pages.audit_tables
import replicable_rl.pages.diagnose_figures
import replicable_rl.pages.diagnose_tables
import replicable_rl.pages.diagnosis_text  # noqa: F401  # they show results
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
from replicable_rl.audit import Agreement, AuditResult, Estimate, RunFailed, audit, read_audits, run_audits
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.diagnose import Calibration, Comparison, Diagnosis, calibrate, compare, diagnose
from replicable_rl.errors import InvalidInput
from replicable_rl.logs import Bins, Dataset, align, compare_logs, from_logs, from_transitions, same_process
from replicable_rl.pages.drawing import draw
from replicable_rl.planning.exact import evaluate_policy, optimal_values
from replicable_rl.problem.environments import EpisodicEnv, from_gymnasium
from replicable_rl.problem.labels import Labels
from replicable_rl.problem.shipped import gridworld
from replicable_rl.problem.simulator import Simulator
from replicable_rl.problem.source import Source, greedy
from replicable_rl.problem.table import TabularMDP
from replicable_rl.progress import quiet
from replicable_rl.randomness import SharedRandomness
from replicable_rl.registry import build, load, make, register, save
from replicable_rl.runs import (
    Algorithm,
    Claim,
    Claims,
    Drawn,
    Fingerprints,
    Level,
    Logged,
    ObjectSpec,
    Run,
    RunSpec,
    Status,
    StatusCode,
)
from replicable_rl.solve import plan, publish, solve
from replicable_rl.store import RunStore
from replicable_rl.training import EpisodeReturns, StableBaselines3, audit_callable, visited_observations

__version__ = "0.1.0"

__all__ = [
    "Agreement",
    "Algorithm",
    "ApproximateMDP",
    "AuditResult",
    "AuditSpec",
    "Bins",
    "Calibration",
    "Claim",
    "Claims",
    "Comparison",
    "Dataset",
    "Diagnosis",
    "Drawn",
    "EpisodeReturns",
    "EpisodicEnv",
    "Estimate",
    "Fingerprints",
    "InvalidInput",
    "Labels",
    "Level",
    "Logged",
    "ObjectSpec",
    "PhasedVI",
    "PlugInPolicy",
    "RMax",
    "ReplicableApproximateMDP",
    "ReplicablePhasedVI",
    "ReplicableRMax",
    "Run",
    "RunFailed",
    "RunSpec",
    "RunStore",
    "SharedRandomness",
    "Simulator",
    "Source",
    "StableBaselines3",
    "Status",
    "StatusCode",
    "TabularMDP",
    "align",
    "audit",
    "audit_callable",
    "build",
    "calibrate",
    "compare",
    "compare_logs",
    "diagnose",
    "draw",
    "evaluate_policy",
    "from_gymnasium",
    "from_logs",
    "from_transitions",
    "greedy",
    "gridworld",
    "load",
    "make",
    "optimal_values",
    "plan",
    "plot",
    "publish",
    "queries",
    "quiet",
    "read_audits",
    "register",
    "rules",
    "run_audits",
    "same_process",
    "save",
    "solve",
    "testing",
    "theory",
    "visited_observations",
]
