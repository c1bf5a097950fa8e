r"""ApproximateMDP, plain and replicable: learn the whole model (Algorithm 4, ``obs:rep-mdp``).

    for every pair (s, a):
        draw n successors
        P(s'|s, a) = rSTAT( mean of 1[successor = s'] )     for every s', address (s, a, s')
        R(s, a)    = r(s, a), or rSTAT( mean reward )       address (s, a)
        divide the row by its sum
    policy = exact planning on the model

The baseline is the same loop with the plain means: the empirical model. Drawing each pair's successors
once serves all of its S queries; the paper's listing draws them anew for each, which costs S times as much
and gains nothing.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from replicable_rl.algorithms.model_rows import LearnedModel, PlainRows, RoundedRows, RowQuery
from replicable_rl.algorithms.promise import Promise, guarantee
from replicable_rl.errors import InvalidInput
from replicable_rl.mdp import TabularMDP, optimal_values
from replicable_rl.records import Guarantee, Solution, Status, StatusCode
from replicable_rl.sampling import GenerativeModel, as_generative
from replicable_rl.theory import ApproximateMDPPlan, approximate_mdp

if TYPE_CHECKING:
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.approximate_mdp import Norm
    from replicable_rl.theory.rstat import Form

__all__ = ["ApproximateMDP", "ReplicableApproximateMDP"]


class _ApproximateMDP(Promise):
    """What the two algorithms share."""

    def plan(self, problem: TabularMDP | GenerativeModel) -> ApproximateMDPPlan:
        """Return what a run on this problem will do, and what it may promise."""
        model = as_generative(problem)
        return self._plan(model.n_states, model.n_actions, model.known_rewards is not None)

    def _check(self) -> None:
        self._plan(2, 1, known_rewards=True)

    def _plan(self, n_states: int, n_actions: int, known_rewards: bool) -> ApproximateMDPPlan:
        return approximate_mdp(
            n_states, n_actions, known_rewards=known_rewards, owner=type(self).__name__, **self._parameters()
        )

    def _run(
        self, problem: GenerativeModel, plan: ApproximateMDPPlan, query: RowQuery, rng: np.random.Generator
    ) -> Solution:
        self._refuse_beyond_64_bits("calls", plan.calls)
        S, A = problem.n_states, problem.n_actions
        counts = problem.draw(plan.calls, rng)
        if counts.calls != plan.calls:
            raise InvalidInput(
                f"{type(problem).__name__}: {plan.calls} calls were asked for, {counts.calls} were made."
            )
        seen = counts.transitions(S, A)
        learned = LearnedModel(S, A, problem.reward_range, problem.reward_range[1], problem.known_rewards)
        learned.learn(np.arange(S * A), seen, query)
        model = learned.to_mdp(problem.gamma, getattr(problem, "initial", None))
        best = optimal_values(model)
        return Solution.from_q(
            best.q,
            best.policy,
            samples=counts.calls * S * A,
            status=_status(learned),
            guarantee=_guarantee(plan),
            model=model,
        )


@dataclass(frozen=True)
class ApproximateMDP(_ApproximateMDP):
    """The empirical model, solved exactly: accurate, but two runs differ.

    Parameters
    ----------
    epsilon, delta : float
        Every transition probability is within ``epsilon`` of the truth with probability 1 - ``delta``.
    norm : {"entry", "l1"}
        Whether ``epsilon`` bounds each entry or the l1 error of a row.
    calls : int, optional
        Successors per pair; None means what the theorem says.
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    norm: Norm = "entry"
    calls: int | None = None

    id: ClassVar[str] = "approximate-mdp-v1"

    def solve(
        self, problem: TabularMDP | GenerativeModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run with fresh samples from ``rng``; ``shared`` is not used, for nothing here is replicable."""
        model = as_generative(problem)
        return self._run(model, self.plan(model), PlainRows(), rng)


@dataclass(frozen=True)
class ReplicableApproximateMDP(_ApproximateMDP):
    """A model that is the same twice, to the last bit, and its optimal policy.

    Parameters
    ----------
    epsilon, delta : float
        Every transition probability, before rows are divided by their sums, is within ``epsilon`` of the
        truth with probability 1 - ``delta``.
    rho : float
        Two runs on fresh samples with one shared seed learn different models with probability at most
        ``rho``; 2*delta < rho is required.
    norm : {"entry", "l1"}
        Whether ``epsilon`` bounds each entry or the l1 error of a row.
    form : {"zero-preserving", "midpoint"}
        How rSTAT answers near 0; the midpoint form makes dense rows.
    calls, tolerance : optional
        Successors per pair and tolerance of one query; None means what the theorem says.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> mdp, algorithm = rr.make("chain-v1"), ReplicableApproximateMDP(0.05, 0.001, 0.2)
    >>> one, two = (rr.solve(mdp, algorithm, shared_seed=2023, sample_seed=seed) for seed in (1, 2))
    >>> one.model == two.model, one.fingerprints == two.fingerprints
    (True, True)
    >>> rr.optimal_values(one.model).policy.tolist()
    [0, 0, 0, 0, 0]
    """

    epsilon: float
    delta: float
    rho: float
    _: KW_ONLY
    norm: Norm = "entry"
    form: Form = "zero-preserving"
    calls: int | None = None
    tolerance: float | None = None

    id: ClassVar[str] = "replicable-approximate-mdp-v1"

    def solve(
        self, problem: TabularMDP | GenerativeModel, shared: SharedRandomness, rng: np.random.Generator
    ) -> Solution:
        """Run with the shared randomness r and fresh samples from ``rng``."""
        model = as_generative(problem)
        plan = self.plan(model)
        return self._run(model, plan, RoundedRows(shared, "approximate-mdp", plan.width, plan.form), rng)


def _status(learned: LearnedModel) -> Status:
    rows = learned.known.size
    if learned.self_loops:
        sentence = f"{learned.self_loops} of {rows} rows were rounded to nothing and became self-loops"
        return Status(StatusCode.COMPLETED, sentence)
    return Status(StatusCode.COMPLETED, f"learned all {rows} rows")


def _guarantee(plan: ApproximateMDPPlan) -> Guarantee:
    what = "every transition probability" if plan.norm == "entry" else "every row, in l1,"
    before = "" if plan.rho is None else " before rows are divided by their sums"
    departures: dict[str, tuple[float | None, float | None]] = {}
    if plan.calls < plan.calls_needed:
        departures["calls"] = plan.calls, plan.calls_needed
    if plan.tolerance > plan.tolerance_needed:
        departures["tolerance"] = plan.tolerance, plan.tolerance_needed
    return guarantee(
        "obs:rep-mdp",
        departures,
        accuracy=f"{what} is within {plan.epsilon:g} of the truth{before}, except with probability {plan.delta:g}",
        accurate=plan.accuracy_proved,
        replicability=None
        if plan.rho is None
        else f"two runs learn the same model, except with probability {plan.rho:g}",
        replicable=plan.replicability_proved,
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=plan.rho,
    )
