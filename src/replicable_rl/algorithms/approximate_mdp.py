r"""ApproximateMDP, plain and replicable: learn the whole model (Algorithm 4, ``alg:rep-mdp``).

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

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from replicable_rl.algorithms.model_rows import LearnedModel, RowQueries
from replicable_rl.algorithms.plan import SHARP_FORM, Promise, Promises, Shape, accurate, replicable, sure_of
from replicable_rl.errors import speaking_as
from replicable_rl.problem.source import Generative
from replicable_rl.queries import Mechanism, Plain, Query, Rounded
from replicable_rl.runs import Run, Status, StatusCode
from replicable_rl.sampling import TransitionCounts
from replicable_rl.theory import ApproximateMDPNumbers, approximate_mdp
from replicable_rl.theory.approximate_mdp import check_approximate_mdp
from replicable_rl.theory.rstat import ARITHMETIC, seed_margin

if TYPE_CHECKING:
    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.approximate_mdp import Norm
    from replicable_rl.theory.rstat import Form


_MOST_ENTRIES = 10**7  # of a model whose distances from the edges are looked at


class _ApproximateMDP(Promise[ApproximateMDPNumbers]):
    """What the two algorithms share: everything but the queries."""

    needs: ClassVar[type] = Generative
    estimate: ClassVar[Mechanism]  # how means are answered
    _check = staticmethod(check_approximate_mdp)

    def __post_init__(self) -> None:
        super().__post_init__()
        with speaking_as(type(self).__name__):
            Mechanism.of(self.estimate)

    def _numbers(self, shape: Shape) -> ApproximateMDPNumbers:
        problem: dict[str, Any] = {"known_rewards": shape.known_rewards, "allowed_pairs": shape.pairs}
        numbers = approximate_mdp(shape.n_states, shape.n_actions, **problem, **self._parameters())
        return replace(numbers, estimate=Mechanism.of(self.estimate).id)

    def _promises(self, shape: Shape, numbers: ApproximateMDPNumbers) -> Promises:
        theorem, same = "obs:rep-mdp", "learn the same model"
        what = "every transition probability" if numbers.norm == "entry" else "every row, in l1,"
        clause = f"{what} is within {numbers.epsilon:g} of the truth"
        if numbers.rho is None:
            return Promises(accurate(numbers, clause, theorem, "model"))
        theorem = f"{SHARP_FORM}{theorem}"
        return Promises(
            accurate(numbers, f"{clause} before rows are divided by their sums", theorem, "model"),
            replicable(numbers.rho, same, theorem, "model"),
            sure_of(same, numbers.delta, "docs/proofs.md, a good shared seed", "model"),
        )

    def solve(self, source: Generative, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, which the baseline does not use, and fresh samples from ``rng``."""
        plan = self.plan(source)
        numbers = plan.numbers
        self._refuse_beyond_64_bits("calls", numbers.calls)
        queries = RowQueries.of(self.estimate, shared, "approximate-mdp", numbers.width, numbers.form)
        counts = source.draw(numbers.calls, rng)
        seen = counts.transitions(source.n_states, source.n_actions, source.reward_range[0])
        empty = LearnedModel.empty(source, source.reward_range[0])
        learned = empty.learned(np.flatnonzero(empty.unknown), seen, queries)
        best = learned.planned
        outputs = {"model": learned.table, "value": best.q, "policy": best.policy}
        claims = plan.claims(good_seed=_keeps_its_distance(queries.transitions, seen, numbers))
        return Run.of(outputs, status=_status(learned), claims=claims, samples=plan.samples)


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
    estimate: ClassVar[Mechanism] = Plain()


@dataclass(frozen=True)
class ReplicableApproximateMDP(_ApproximateMDP):
    """A model that is the same twice, to the last bit, and its optimal policy.

    Parameters
    ----------
    epsilon, delta : float
        Every transition probability, before rows are divided by their sums, is within ``epsilon`` of the
        truth with probability 1 - ``delta``.
    rho : float
        Two runs on fresh samples with one shared seed learn different models with probability at most ``rho``.
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
    estimate: ClassVar[Mechanism] = Rounded()


def _keeps_its_distance(query: Query, seen: TransitionCounts, numbers: ApproximateMDPNumbers) -> bool:
    """Whether every entry is so far from the edges of its bin that another run's cannot be beyond.

    Not asked where rewards are learned, whose spread the counts do not keep, nor of very large models.
    """
    entries = seen.n_states * seen.n_actions * seen.n_states
    log_term = numbers.seed_log_term  # 0 where nothing may be said
    if not (log_term and numbers.known_rewards and numbers.calls > 1):
        return False
    if entries > _MOST_ENTRIES:
        return False
    mean = np.zeros(entries)  # also of what was never seen
    mean[seen.key] = seen.count / float(numbers.calls)
    n = float(numbers.calls)
    needed = seed_margin(mean * (1.0 - mean) * (n / (n - 1.0)), n, 1.0, log_term)
    far = query.room(mean, index=np.arange(entries)) > needed + ARITHMETIC
    return bool((far.reshape(-1, seen.n_states).all(axis=1) | (seen.visits == 0.0)).all())  # not allowed: not asked


def _status(learned: LearnedModel) -> Status:
    rows = int(learned.known.sum())
    if learned.self_loops:
        sentence = f"{learned.self_loops} of {rows} rows were rounded to nothing and became self-loops"
        return Status(StatusCode.COMPLETED, sentence)
    return Status(StatusCode.COMPLETED, f"learned all {rows} rows")
