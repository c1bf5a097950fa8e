r"""ApproximateMDP, plain and replicable: learn the whole model (Algorithm 4, ``alg:rep-mdp``).

    for every pair (s, a):
        draw n successors
        P(s'|s, a) = rSTAT( mean of 1[successor = s'] )     for every s', address (s, a, s')
        R(s, a)    = r(s, a), or rSTAT( mean reward )       address (s, a)
        divide the row by its sum
    policy = exact planning on the model

The baseline is the same loop with the plain means: the empirical model. The paper's listing draws successors anew for
each of the S queries of a pair, which costs S times as much and gains nothing. A successor that was never seen has mean
0: where a query keeps 0, it is not even asked about, and rows stay as sparse as the data.

R-max learns its rows in the same way, into the same `LearnedModel`. A row that rounding leaves without any probability
is known, too: a self-loop with its own reward. Offsets are addressed by (s, a, s') and by (s, a), never by when a row
was learned: two runs that learn a pair in different rounds still round it on the same grid.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from replicable_rl.algorithms.plan import SHARP_FORM, Promise, Promises, Shape, accurate, replicable
from replicable_rl.errors import InvalidInput
from replicable_rl.planning import Optimum, optimal_values
from replicable_rl.problem.source import Generative, Source
from replicable_rl.problem.table import Rows, TabularMDP
from replicable_rl.queries import Means, Query, RStat
from replicable_rl.runs import Run, Status, StatusCode
from replicable_rl.sampling import TransitionCounts, sums
from replicable_rl.theory import ApproximateMDPNumbers, approximate_mdp
from replicable_rl.theory.numbers import check_parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.randomness import SharedRandomness
    from replicable_rl.theory.approximate_mdp import Norm
    from replicable_rl.theory.rstat import Form

_MAX_DENSE = 10**8  # entries of dense rows, where 0 is rounded to something else


class RowQueries(NamedTuple):
    """The two queries of a row: of its transitions, element (s*A + a)*S + s', and of its reward, element s*A + a."""

    transitions: Query = Means()
    rewards: Query = Means()

    @classmethod
    def rounded(cls, shared: SharedRandomness, label: str, width: float, form: Form) -> RowQueries:
        """Return the queries with offsets at ``label``/offset and ``label``/reward."""
        return cls(RStat(shared, f"{label}/offset", width, form), RStat(shared, f"{label}/reward", width))


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """A model of a problem that grows pair by pair; what is not known is a self-loop with reward R_max.

    Pairs that are not allowed are no part of it: they are neither known nor unknown.
    """

    problem: Source
    known: NDArray[np.bool_]
    key: NDArray[np.int64]  # of its transitions, sorted
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]  # of its pairs

    @classmethod
    def empty(cls, problem: Source) -> LearnedModel:
        """Return the model of which no pair is known."""
        S, A, every = problem.n_states, problem.n_actions, np.flatnonzero(problem.support.mask)
        key, reward = every * S + every // A, np.full(S * A, problem.reward_range[1])
        return cls(problem, np.zeros(S * A, dtype=bool), key, np.ones(every.size), reward)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which pairs there still are to learn."""
        return self.problem.support.of_rows & ~self.known

    def learned(self, pairs: NDArray[np.int64], seen: TransitionCounts, queries: RowQueries) -> LearnedModel:
        """Return the model with the rows and rewards of ``pairs`` estimated from what was seen of them."""
        S, A, visits = self.problem.n_states, self.problem.n_actions, seen.visits
        is_new = np.zeros(self.known.size, dtype=bool)
        is_new[pairs] = True
        chosen = is_new[seen.row] & (seen.count > 0.0)
        key, count = seen.key[chosen], seen.count[chosen]
        if not queries.transitions.keeps_zero:  # then all successors have an answer
            key, count = _dense(key, count, np.sort(pairs), S)
        # The P of Algorithm 4, with rSTAT for a query; then rows are divided by their sums.
        answer = queries.transitions.answer(count / visits[key // S], index=key)
        key, answer = key[answer > 0.0], answer[answer > 0.0]
        total = sums(key // S, answer, self.known.size)
        lost = pairs[total[pairs] == 0.0]
        old = ~is_new[self.key // S]
        key, probability = (
            np.concatenate([self.key[old], key, lost * S + lost // A]),
            np.concatenate([self.probability[old], answer / total[key // S], np.ones(lost.size)]),
        )
        order = np.argsort(key)
        reward, (low, high), known_rewards = self.reward.copy(), self.problem.reward_range, self.problem.known_rewards
        if known_rewards is None:
            mean = np.clip(seen.rewards_above(low)[pairs] / visits[pairs] / ((high - low) or 1.0), 0.0, 1.0)
            reward[pairs] = np.clip(low + (high - low) * queries.rewards.answer(mean, index=pairs), low, high)
        else:
            reward[pairs] = known_rewards.reshape(-1)[pairs]
        return replace(
            self,
            known=self.known | is_new,
            key=key[order],
            probability=probability[order],
            reward=reward,
        )

    @cached_property
    def table(self) -> TabularMDP:
        """The model as it stands: a table that was estimated, and says so."""
        problem, row = self.problem, self.key // self.problem.n_states
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.known.size))])
        successor = (self.key % problem.n_states).astype(np.int32)
        return TabularMDP(
            Rows(indptr, successor, self.probability, self.reward[row]),
            n_actions=problem.n_actions,
            gamma=problem.gamma,
            initial=problem.initial,
            reward_range=problem.reward_range,
            estimated=True,
            allowed=problem.support.given,
        )

    @cached_property
    def planned(self) -> Optimum:
        """The exact plan on it: a function of the model alone, without a warm start."""
        return optimal_values(self.table)


def _dense(
    key: NDArray[np.int64], count: NDArray[np.float64], pairs: NDArray[np.int64], n_states: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the keys and counts of all successors of the pairs, also of those that were never seen."""
    entries = pairs.size * n_states
    if entries > _MAX_DENSE:
        raise InvalidInput(f"model: form='midpoint' makes {entries:.3g} entries of dense rows. Use 'zero-preserving'.")
    every = (pairs[:, None] * n_states + np.arange(n_states)).reshape(-1)
    counts = np.zeros(every.size)
    counts[np.searchsorted(every, key)] = count
    return every, counts


class _ApproximateMDP(Promise[ApproximateMDPNumbers]):
    """What the two algorithms share: everything but the queries."""

    needs: ClassVar[type] = Generative
    _check = staticmethod(partial(check_parameters, "ApproximateMDP"))

    def _numbers(self, shape: Shape) -> ApproximateMDPNumbers:
        problem: dict[str, Any] = {"known_rewards": shape.known_rewards, "allowed_pairs": shape.pairs}
        return approximate_mdp(shape.n_states, shape.n_actions, **problem, **self._parameters())

    def _promises(self, shape: Shape, numbers: ApproximateMDPNumbers) -> Promises:
        theorem, same = "obs:rep-mdp", "learn the same model"
        subject = "every transition probability" if numbers.norm == "entry" else "every row, in l1,"
        clause = f"{subject} is within {numbers.epsilon:g} of the truth"
        if numbers.rho is None:
            return Promises(accurate(numbers, clause, theorem, "model"))
        theorem = f"{SHARP_FORM}{theorem}"
        return Promises(
            accurate(numbers, f"{clause} before rows are divided by their sums", theorem, "model"),
            replicable(numbers.rho, same, theorem, "model"),
        )

    def solve(self, source: Generative, shared: SharedRandomness, rng: np.random.Generator) -> Run:
        """Run with the shared randomness r, which the baseline does not use, and fresh samples from ``rng``."""
        plan = self.plan(source)
        numbers = plan.numbers
        self._refuse_beyond_64_bits("calls", numbers.calls)
        plain, rounding = numbers.rho is None, (shared, "approximate-mdp", numbers.width, numbers.form)
        queries = RowQueries() if plain else RowQueries.rounded(*rounding)
        counts = source.draw(numbers.calls, rng)
        seen = counts.transitions(source.n_states, source.n_actions, source.reward_range[0])
        empty = LearnedModel.empty(source)
        learned = empty.learned(np.flatnonzero(empty.unknown), seen, queries)
        best = learned.planned
        return Run.of(
            {"model": learned.table, "value": best.q, "policy": best.policy},
            status=Status(StatusCode.COMPLETED, f"learned all {numbers.pairs} rows"),
            claims=plan.claims(),
            samples=plan.samples,
        )


@dataclass(frozen=True)
class ApproximateMDP(_ApproximateMDP):
    """The empirical model, solved exactly: accurate, but two runs differ.

    Parameters are as in :class:`ReplicableApproximateMDP`.
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    norm: Norm = "entry"
    calls: int | None = None

    id: ClassVar[str] = "approximate-mdp-v1"


@dataclass(frozen=True)
class ReplicableApproximateMDP(_ApproximateMDP):
    """A model that is the same twice, to the last bit, and its optimal policy.

    Before rows are divided by their sums, every transition probability is within ``epsilon`` of the truth (``norm`` is
    "entry"), or every row in l1 ("l1"), except with probability ``delta``; two runs with one shared seed learn
    different models with probability at most ``rho``. ``form``, "zero-preserving" or "midpoint", says how rSTAT answers
    near 0; the midpoint form makes dense rows. ``calls`` and ``tolerance`` are the successors per pair and the
    tolerance of one query; None means what the theorem says.

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
