"""The bounds of decisions, each at the instances that come closest to it.

Instances are drawn by the hundred thousand, so that their models are arrays and their plans plain numpy: `Coins` are
states whose rewards are coins and nothing follows (gamma = 0), where every bound is nearly an equality, and `Walk` is a
small process with successors. ``tests/test_theory_decisions.py`` holds both against the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicable_rl.rules.model import ROUNDS, WORTH
from replicable_rl.theory import decisions
from replicable_rl.theory.decisions import (
    DOUBT,
    LEAST,
    Sizes,
    affordable_disagreement,
    disagreement_bound,
    loss_bound,
    tolerances,
    usual_parameter,
)

Floats = NDArray[np.float64]
Sampler = Callable[[int, np.random.Generator], Floats]
CHUNK = 20_000  # instances at a time


class Instance(NamedTuple):
    """A bound on a mean or, where ``failure`` is given, on what is exceeded with that probability at most.

    ``about`` names the bound: of all its instances one must come within a factor of ten.
    """

    about: str
    name: str
    bound: float
    sampler: Sampler
    failure: float | None = None


class Finding(NamedTuple):
    """What many draws of an instance say: their mean, or the quantile that the bound is about."""

    about: str
    name: str
    bound: float
    measured: float
    excess: float  # of the mean over the bound, or of the share beyond it over what may be beyond, in standard errors

    @property
    def looseness(self) -> float:
        """The bound as a multiple of what was measured."""
        return self.bound / self.measured if self.measured > 0.0 else math.inf


def measure(one: Instance, size: int, rng: np.random.Generator) -> Finding:
    """Draw an instance ``size`` times, some at a time."""
    parts = [min(CHUNK, size - start) for start in range(0, size, CHUNK)]
    drawn = np.concatenate([one.sampler(part, rng) for part in parts])
    if one.failure is None:
        measured, error, over = float(drawn.mean()), float(drawn.std()) / math.sqrt(size), float(drawn.mean())
        limit = one.bound
    else:
        measured, over, limit = (
            float(np.quantile(drawn, 1.0 - one.failure)),
            float((drawn > one.bound).mean()),
            one.failure,
        )
        error = math.sqrt(limit * (1.0 - limit) / size)
    excess = (over - limit) / error if error > 0.0 else (math.inf if over > limit else -math.inf)
    return Finding(one.about, one.name, one.bound, measured, excess)


# --- coins: gamma = 0, learned rewards ------------------------------------------------------------------------


class Coins:
    """States whose actions pay coins with the chances ``p``, (S, A); nothing follows."""

    def __init__(self, p: Any, n: int) -> None:
        self.p, self.n = np.atleast_2d(np.asarray(p, dtype=np.float64)), n
        self.sizes = Sizes(self.p.shape[0], self.p.shape[1], 0.0, known_rewards=False)

    def q(self, size: int, rng: np.random.Generator) -> Floats:
        """Return Q^ of so many runs, (size, S, A)."""
        return rng.binomial(self.n, self.p, (size, *self.p.shape)) / self.n

    def two(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return Q^ of so many pairs of runs."""
        return self.q(size, rng), self.q(size, rng)

    def loss(self, policy: NDArray[np.int64]) -> Floats:
        """Return what policies lose in their worst state, (size,)."""
        value = np.take_along_axis(np.broadcast_to(self.p, (len(policy), *self.p.shape)), policy[:, :, None], axis=2)
        worst: Floats = (self.p.max(axis=1) - value[:, :, 0]).max(axis=1)
        return worst


def first_within(gap: Floats, tolerance: Any) -> NDArray[np.int64]:
    """Return the first action within the tolerance, the last if there is none, for arrays of gaps (..., A)."""
    within = gap <= tolerance
    within[..., -1] = True
    return np.asarray(within.argmax(axis=-1))


def gaps(q: Floats) -> Floats:
    """Return how much worse than the best every action is."""
    return np.asarray(q.max(axis=-1, keepdims=True) - q)


def _differ(one: NDArray[Any], two: NDArray[Any]) -> Floats:
    return np.asarray((one != two).reshape(len(one), -1).any(axis=1), dtype=np.float64)


def _coin_distances() -> list[Instance]:
    """e, d and m where nothing follows."""
    found = []
    for pairs, delta in ((1, 0.3), (8, 0.3), (8, 0.001)):
        coins = Coins(np.full((pairs, 1), 0.5), 1000)

        def off(size: int, rng: np.random.Generator, coins: Coins = coins) -> Floats:
            return np.asarray(np.abs(coins.q(size, rng) - 0.5).max(axis=(1, 2)))

        name = f"|Q^ - Q*|, {pairs} coins, delta={delta:g}"
        found.append(Instance("e", name, coins.sizes.value_error(1000, delta), off, delta))
    for n in (1, 10, 10_000, 1_000_000):
        coins = Coins(np.full((8, 2), 0.5), n)

        def square(size: int, rng: np.random.Generator, coins: Coins = coins) -> Floats:
            one, two = coins.two(size, rng)
            return np.asarray(((one - two) ** 2).mean(axis=(1, 2)))

        def largest(size: int, rng: np.random.Generator, coins: Coins = coins) -> Floats:
            one, two = coins.two(size, rng)
            return np.asarray(np.abs(one - two).max(axis=(1, 2)))

        found.append(Instance("d", f"d^2, 16 coins, n={n}", coins.sizes.value_distance(n) ** 2, square))
        found.append(Instance("m", f"largest |Q^_1 - Q^_2|, 16 coins, n={n}", coins.sizes.worst_distance(n), largest))
    return found


def _coin_losses() -> list[Instance]:
    """What greedy and all other rules lose where nothing follows, each against its own bound."""
    n, delta = 1000, 0.1
    near = 0.75 / math.sqrt(n)  # so near that the worse of two coins looks better with probability delta
    two = Coins([[0.5 - near / 2, 0.5 + near / 2]], n)

    def greedy(size: int, rng: np.random.Generator) -> Floats:
        return two.loss(two.q(size, rng).argmax(axis=2))

    def any_policy(size: int, rng: np.random.Generator) -> Floats:
        q = two.q(size, rng)
        return np.asarray((gaps(two.p) - gaps(q)).max(axis=(1, 2)))  # loss minus loss on the model, whatever the policy

    found = [
        Instance("f", "loss of greedy, two coins", loss_bound("greedy", two.sizes, n, 0.0, 0.0, delta), greedy, delta),
        Instance("l", "loss above that on the model, two coins", two.sizes.policy_error(n, delta), any_policy, delta),
    ]
    n, spent = 10_000_000, 0.1  # so many that what the rule gives away counts
    for rule, share, decide in (
        ("rounded", 0.5, _rounded),
        ("tolerance", 0.94, _tolerance),
        ("gumbel", 0.65, _gumbel),
    ):
        parameter = usual_parameter(rule, two.sizes, spent, delta)
        coins = Coins([[0.5 - share * spent, 0.5]], n)

        def lost(
            size: int, rng: np.random.Generator, coins: Coins = coins, d: Any = decide, x: float = parameter
        ) -> Floats:
            return coins.loss(d(coins.q(size, rng), x, _shared(size, coins, rng)))

        bound = loss_bound(rule, coins.sizes, n, parameter, spent, delta)
        found.append(Instance(f"loss, {rule}", f"loss of {rule}, two coins", bound, lost, delta))
    return [*found, *_judged_losses(spent, delta)]


def _judged_losses(spent: float, delta: float) -> list[Instance]:
    """What rules lose that look at the loss, and the noise that published cuts have the benefit of."""
    n = 1000
    judged = Coins([[0.5 - 0.94 * spent, 0.5]], 10_000_000)
    doubtful = Coins([[0.5 - spent - 0.02, 0.5]], n)

    def lost(size: int, rng: np.random.Generator) -> Floats:
        return judged.loss(affordable(judged.q(size, rng), spent, rng.random((size, 2)), worst=False))

    def deviation(q: Floats) -> Floats:
        return np.asarray(np.sqrt((q * (1.0 - q)).sum(axis=(1, 2)) / n))  # of the difference of two coins

    def followed(size: int, rng: np.random.Generator) -> Floats:  # cuts that let everything pass
        q = doubtful.q(size, rng)
        affordable = gaps(q)[:, 0, 0] <= spent + DOUBT * deviation(q)
        return doubtful.loss(np.where(affordable, 0, q[:, 0].argmax(axis=1))[:, None])

    def noise(size: int, rng: np.random.Generator) -> Floats:
        return deviation(doubtful.q(size, rng))

    bounds = (
        loss_bound(rule, coins.sizes, coins.n, parameter, spent, delta)
        for rule, coins, parameter in (("affordable", judged, 0.0), ("published", doubtful, DOUBT))
    )
    return [
        Instance("loss, affordable", "loss of affordable, two coins", next(bounds), lost, delta),
        Instance("loss, published", "loss by published cuts, two coins", next(bounds), followed, delta),
        Instance("noise", "deviation of a loss, two coins", doubtful.sizes.loss_deviation(n), noise, delta),
    ]


def _shared(size: int, coins: Coins, rng: np.random.Generator) -> Floats:
    return rng.random((size, *coins.p.shape))


def _rounded(q: Floats, width: float, u: Floats) -> NDArray[np.int64]:
    return np.asarray(_rounded_q(q, width, u).argmax(axis=2))


def _rounded_q(q: Floats, width: float, u: Floats) -> Floats:
    low = (u + np.floor(q / width - u)) * width
    return np.asarray((np.clip(low, 0.0, 1.0) + np.clip(low + width, 0.0, 1.0)) / 2.0)


def _tolerance(q: Floats, x: float, u: Floats) -> NDArray[np.int64]:
    return first_within(gaps(q), x * (1.0 + u[:, :1, :1]))


def _gumbel(q: Floats, rate: float, u: Floats) -> NDArray[np.int64]:
    return np.asarray((q - np.log(-np.log(np.maximum(u, 2.0**-54))) / rate).argmax(axis=2))


def _coin_rules() -> list[Instance]:
    """Two runs of every rule differ, with a bound of about 0.2, where nothing follows."""
    n, S = 1_000_000, 8
    ties, found = Coins(np.full((S, 2), 0.5), n), []
    settings: Sequence[tuple[str, float, Any, Coins]] = (
        ("rounded", 0.06, _rounded_q, ties),
        ("gumbel", 50.0, _gumbel, ties),
        ("gumbel", 50.0, _gumbel, Coins(np.full((S, 6), 0.5), n)),
        (
            "tolerance",
            0.06,
            _tolerance,
            Coins(np.stack([0.55 - np.linspace(0.063, 0.117, S), np.full(S, 0.55)], axis=1), n),
        ),
    )
    for rule, parameter, decide, coins in settings:

        def differ(
            size: int, rng: np.random.Generator, coins: Coins = coins, d: Any = decide, x: float = parameter
        ) -> Floats:
            (one, two), shared = coins.two(size, rng), _shared(size, coins, rng)
            return _differ(d(one, x, shared), d(two, x, shared))

        bound = disagreement_bound(rule, coins.sizes, n, parameter, 0.0)
        name = f"two runs of {rule} differ, S={S}, A={coins.sizes.n_actions}"
        found.append(Instance(f"differ, {rule}", name, bound, differ))
    return found


def affordable(
    q: Floats, spent: float, shared: Floats, *, worst: bool, sizes: Sizes | None = None, weight: float = 1.0
) -> NDArray[np.int64]:
    """Return what the affordable rule decides where nothing follows and all states come first alike.

    With ``sizes`` and ``weight`` it is one state of many, the first one, and others have no choice.
    """
    gap = gaps(q)
    sizes = sizes or Sizes(q.shape[1], q.shape[2], 0.0, known_rewards=False, weighed=not worst)
    limit, done = spent * (LEAST + (1.0 - LEAST) * shared[:, 1]), np.zeros(len(q), dtype=bool)
    policy: NDArray[np.int64] = np.asarray(gap.argmin(axis=2))
    for x in tolerances(sizes, spent):
        tried = first_within(weight * gap, (x * (1.0 + shared[:, 0]))[:, None, None])
        given = np.take_along_axis(gap, tried[:, :, None], axis=2)[:, :, 0]
        taken = ~done & ((given.max(axis=1) if worst else given.mean(axis=1)) <= limit)
        policy[taken], done = tried[taken], done | taken
    return policy


def affordable_coins(n: int, spent: float, S: int, *, worst: bool) -> Coins:
    """Return coins where the affordable rule must try all tolerances, and many gaps lie in the last window."""
    sizes = Sizes(S, 3, 0.0, known_rewards=False, weighed=not worst)
    last = tolerances(sizes, spent)[-1]
    middle, best = last * np.linspace(1.55, 1.95, S), np.full(S, 0.9)
    return Coins(np.stack([best - 3.0 * last, best - middle, best], axis=1), n)


def last_spent(S: int, *, worst: bool) -> float:
    """Return eps' such that the last tolerance, 1/16, spends hardly less than is allowed."""
    sizes = Sizes(S, 3, 0.0, known_rewards=False, weighed=not worst)
    return 2.0 / (sizes.lightest * LEAST * 16.0) * (1.0 + 1e-6)


def _coin_affordable() -> list[Instance]:
    found, S = [], 40
    for worst in (True, False):
        n, spent = 100_000_000, last_spent(S, worst=worst)
        coins = affordable_coins(n, spent, S, worst=worst)
        sizes = coins.sizes if not worst else Sizes(S, 3, 0.0, known_rewards=False, weighed=False)

        def differ(
            size: int, rng: np.random.Generator, coins: Coins = coins, x: float = spent, w: bool = worst
        ) -> Floats:
            (one, two), shared = coins.two(size, rng), rng.random((size, 2))
            return _differ(affordable(one, x, shared, worst=w), affordable(two, x, shared, worst=w))

        over = "worst state" if worst else "first state"
        name = f"two runs of affordable differ, S={S}, A=3, loss in the {over}"
        found.append(Instance("differ, affordable", name, affordable_disagreement(sizes, n, spent), differ))
    return found


class OneChoice:
    """Coins in the first of many states, and no choice in the others: masks forbid all actions there but one."""

    def __init__(self, p: Sequence[float], n_states: int, n: int, *, worst: bool = False) -> None:
        self.coins, self.n = Coins([p], n), n
        pairs = n_states + len(p) - 1
        self.sizes = Sizes(n_states, len(p), 0.0, known_rewards=False, weighed=not worst, allowed_pairs=pairs)
        share = 1.0 if n_states > 1 and not worst else 0.0  # of the first step in that state
        self.weight = math.sqrt((decisions.FLOOR + n_states * share) / (decisions.FLOOR + 1.0)) if share else 1.0

    def decide(self, q: Floats, spent: float, shared: Floats) -> NDArray[np.int64]:
        """Return what the affordable rule decides in the first state."""
        worst = not self.sizes.weighed
        return affordable(q, spent, shared, worst=worst, sizes=self.sizes, weight=self.weight)


def _masked() -> list[Instance]:
    """Many states of which one decides: it has all the weight that there is, and its gap is where thresholds lie."""
    found = []
    for S, A, each, worst in itertools.product((10**4, 10**5, 10**8), (2, 5), (3, 3000), (False, True)):
        weight = OneChoice([0.5] * A, S, each * S, worst=worst).weight
        apart = 0.8 if worst else 1.5 / weight  # in the window of losses, or in that of the first tolerance
        one = OneChoice([*[0.5 - apart / 2.0] * (A - 1), 0.5 + apart / 2.0], S, each * S, worst=worst)

        def differ(size: int, rng: np.random.Generator, one: OneChoice = one) -> Floats:
            shared = rng.random((size, 2))
            return _differ(*(one.decide(q, 0.9, shared) for q in one.coins.two(size, rng)))

        name = f"two runs of affordable differ, 1 of S={S} decides, A={A}, n={each}S, {'worst' if worst else 'first'}"
        found.append(Instance("differ, affordable", name, affordable_disagreement(one.sizes, each * S, 0.9), differ))
    for S, n in ((10**4, 100), (10**6, 10**4)):
        x = 3.0 / math.sqrt(n)
        one = OneChoice([0.5 - 1.5 * x, 0.5], S, n)

        def within(size: int, rng: np.random.Generator, one: OneChoice = one, x: float = x) -> Floats:
            u = rng.random((size, 1, 1))
            return _differ(*(first_within(gaps(q), x * (1.0 + u)) for q in one.coins.two(size, rng)))

        bound = disagreement_bound("tolerance", one.sizes, n, x, 0.0)
        found.append(Instance("differ, tolerance", f"two runs of tolerance differ, 1 of S={S} decides", bound, within))
    for rule, parameter, decide in (("rounded", 0.06, _rounded_q), ("gumbel", 50.0, _gumbel)):
        allowed = np.arange(40)[:, None] < np.array([40, 2])  # in 2 of 40 states both are, else the first alone
        sizes = Sizes(40, 2, 0.0, known_rewards=False, allowed_pairs=int(allowed.sum()))

        def masked(
            size: int, rng: np.random.Generator, allowed: Any = allowed, d: Any = decide, x: float = parameter
        ) -> Floats:
            many = Coins(np.full((40, 2), 0.5), 1_000_000)
            shared = _shared(size, many, rng)
            return _differ(*(_of_allowed(d(np.where(allowed, q, -np.inf), x, shared)) for q in many.two(size, rng)))

        bound = disagreement_bound(rule, sizes, 1_000_000, parameter, 0.0)
        found.append(Instance(f"differ, {rule}", f"two runs of {rule} differ, 2 of S=40 decide", bound, masked))
    return found


def _of_allowed(answer: NDArray[Any]) -> NDArray[Any]:
    """Return a policy as it is, and of rounded values those of actions that are allowed."""
    return np.asarray(np.nan_to_num(answer, nan=-1.0))


# --- a walk: successors, a discount, and plans ------------------------------------------------------------------


class Walk:
    """A small process with known rewards in [0, 1-gamma]: transitions ``P``, (S, A, S), and rewards ``r``, (S, A)."""

    def __init__(self, P: Any, r: Any, gamma: float, n: int) -> None:
        self.P, self.r, self.gamma, self.n = np.asarray(P, dtype=np.float64), np.asarray(r, dtype=np.float64), gamma, n
        self.sizes = Sizes(self.r.shape[0], self.r.shape[1], gamma, known_rewards=True)
        self.q_true = self.plan(self.P[None])[0]

    def models(self, size: int, rng: np.random.Generator) -> Floats:
        """Return the empirical models of so many runs, (size, S, A, S)."""
        return rng.multinomial(self.n, self.P, (size, *self.r.shape)) / self.n

    def plan(self, P: Floats, rewards: Floats | None = None) -> Floats:
        """Return Q of models, (size, S, A), by value iteration."""
        r = self.r if rewards is None else rewards
        q = np.broadcast_to(r, P.shape[:3])
        for _ in range(math.ceil(math.log(1e-12) / math.log(self.gamma))):
            q = r + self.gamma * np.einsum("bsat,bt->bsa", P, q.max(axis=2))
        return q

    def values(self, P: Floats, policy: NDArray[np.int64]) -> Floats:
        """Return the values of one policy on models, (size, S)."""
        S = self.sizes.n_states
        here = P[:, np.arange(S), policy]
        return np.asarray(np.linalg.solve(np.eye(S) - self.gamma * here, self.r[np.arange(S), policy][:, None])[..., 0])

    def error(self, P: Floats, q: Floats, delta: float) -> tuple[Floats, Floats]:
        """Return w, (size, S, A), and what bounds a second run's error, (size,): as `EmpiricalModel.value_error`."""
        n, pairs, value = self.n, self.sizes.pairs, q.max(axis=2)
        c = np.full(q.shape, min(1.0, self.gamma * math.sqrt(math.log(8.0 * pairs / delta) / (2.0 * n))))
        w = np.minimum(self.plan(P, c) + decisions.ROUNDING, 1.0)
        log_term = math.log(6.0 * pairs / delta)
        mean = np.einsum("bsat,bt->bsa", P, value)
        seen = np.sqrt(np.maximum(np.einsum("bsat,bt->bsa", P, value**2) - mean**2, 0.0))
        more = np.ones((len(P), 1, 1), dtype=bool)
        for _ in range(ROUNDS):
            off = np.sqrt(np.einsum("bsat,bt->bsa", P, w.max(axis=2) ** 2))
            sigma = (seen + off) * math.sqrt(n / (n - 1)) + math.sqrt(2.0 * log_term / (n - 1))
            bernstein = self.gamma * (math.sqrt(2.0 * log_term / n) * sigma + log_term / (3.0 * n))
            c, before = np.where(more, np.minimum(c, bernstein), c), w.max(axis=(1, 2), keepdims=True)
            w = np.where(more, np.minimum(self.plan(P, c) + decisions.ROUNDING, 1.0), w)
            more &= w.max(axis=(1, 2), keepdims=True) <= WORTH * before
        return w, np.minimum(1.0, c.max(axis=(1, 2)) / (1.0 - self.gamma) + decisions.ROUNDING)


def coin_walk(S: int, A: int, gamma: float, n: int, tilt: float = 0.0) -> Walk:
    """Heaven, hell and states that lead to either with equal chances: all variance that there is, in every pair.

    ``tilt`` is by how much likelier action 0 leads to heaven.
    """
    P = np.zeros((S, A, S))
    P[0, :, 0] = P[1, :, 1] = 1.0
    P[2:, :, :2] = 0.5
    P[2:, 0, :2] += [tilt, -tilt]
    r = np.zeros((S, A))
    r[0] = 1.0 - gamma
    return Walk(P, r, gamma, n)


def staying_walk(gamma: float, n: int) -> Walk:
    """Heaven, hell, and a state that is mostly left for itself: the error of one pair counts many times."""
    leave = (1.0 - gamma) / gamma
    P = np.zeros((3, 1, 3))
    P[0, 0, 0] = P[1, 0, 1] = 1.0
    P[2, 0] = [leave / 2, leave / 2, 1.0 - leave]
    return Walk(P, [[1.0 - gamma], [0.0], [0.0]], gamma, n)


def mixing_walk(S: int, A: int, gamma: float, n: int, seed: int) -> Walk:
    """Return a process that leads anywhere, with ties."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.4), (S, A))
    r = rng.random((S, A)) * (1.0 - gamma)
    r[0], r[1] = 0.0, 1.0 - gamma  # the ends of the range, whatever is done
    P[:, 1], r[:, 1] = P[:, 0], r[:, 0]
    return Walk(P, r, gamma, n)


def _walk_distances() -> list[Instance]:
    """e, d, m and l with successors; R and D, which have no rewards."""
    found = []
    walks = {
        "coins, gamma=0.5": coin_walk(4, 2, 0.5, 1_000_000),
        "staying, gamma=0.9": staying_walk(0.9, 10**10),
        "anywhere, gamma=0.5": mixing_walk(4, 2, 0.5, 50, 1),
        "anywhere, gamma=0.8": mixing_walk(3, 3, 0.8, 1000, 2),
    }
    for name, walk in walks.items():
        n, delta = walk.n, 0.3

        def off(size: int, rng: np.random.Generator, walk: Walk = walk) -> Floats:
            return np.asarray(np.abs(walk.plan(walk.models(size, rng)) - walk.q_true).max(axis=(1, 2)))

        def square(size: int, rng: np.random.Generator, walk: Walk = walk) -> Floats:
            one, two = (walk.plan(walk.models(size, rng)) for _ in range(2))
            return np.asarray(((one - two) ** 2)[:, -1, 0])

        def largest(size: int, rng: np.random.Generator, walk: Walk = walk) -> Floats:
            one, two = (walk.plan(walk.models(size, rng)) for _ in range(2))
            return np.asarray(np.abs(one - two).max(axis=(1, 2)))

        found.append(Instance("e", f"|Q^ - Q*|, {name}, delta={delta:g}", walk.sizes.value_error(n, delta), off, delta))
        found.append(Instance("d", f"d^2, {name}, n={n}", walk.sizes.value_distance(n) ** 2, square))
        found.append(Instance("m", f"largest |Q^_1 - Q^_2|, {name}, n={n}", walk.sizes.worst_distance(n), largest))
    walk = coin_walk(4, 2, 0.5, 200, tilt=0.08)
    policies = [np.array(one) for one in itertools.product(range(2), repeat=4)]

    def above(size: int, rng: np.random.Generator) -> Floats:
        P = walk.models(size, rng)
        best, worst = walk.plan(P).max(axis=2), np.zeros(size)
        for policy in policies:
            true = walk.q_true.max(axis=1) - walk.values(walk.P[None], policy)[0]
            worst = np.maximum(worst, (true - (best - walk.values(P, policy))).max(axis=1))
        return worst

    found.append(
        Instance("l", "loss above that on the model, coins, gamma=0.5", walk.sizes.policy_error(200, 0.3), above, 0.3)
    )
    for S, N, n in ((2, 2, 100), (8, 16, 400)):
        law, sizes = np.full(S, 1.0 / S), Sizes(S, N // S, 0.5, known_rewards=True)

        def row(size: int, rng: np.random.Generator, law: Floats = law, N: int = N, n: int = n) -> Floats:
            return np.asarray(np.abs(rng.multinomial(n, law, (size, N)) / n - law).sum(axis=2).max(axis=1))

        def rows(size: int, rng: np.random.Generator, law: Floats = law, N: int = N, n: int = n) -> Floats:
            one, two = (rng.multinomial(n, law, (size, N)) for _ in range(2))
            return np.asarray(np.abs(one - two).sum(axis=2).max(axis=1)) / n

        found.append(Instance("R", f"largest |P^ - P|_1, {N} rows of {S}, n={n}", sizes.row_error(n, 0.3), row, 0.3))
        found.append(Instance("D", f"largest |P^_1 - P^_2|_1, {N} rows of {S}, n={n}", sizes.row_distance(n), rows))
    return found


def _given_the_data() -> list[Instance]:
    """What one run says of its own error and of a second run: at most 1, except with probability delta or 2 delta."""
    found, delta = [], 0.1
    for name, walk in (("coins", coin_walk(4, 2, 0.5, 2000)), ("anywhere", mixing_walk(3, 2, 0.8, 2000, 3))):

        def own(size: int, rng: np.random.Generator, walk: Walk = walk) -> Floats:
            P = walk.models(size, rng)
            q = walk.plan(P)
            return np.asarray((np.abs(q - walk.q_true) / walk.error(P, q, delta)[0]).max(axis=(1, 2)))

        def other(size: int, rng: np.random.Generator, walk: Walk = walk) -> Floats:
            P = walk.models(size, rng)
            q = walk.plan(P)
            w, second = walk.error(P, q, delta)
            two = walk.plan(walk.models(size, rng))
            return np.asarray((np.abs(q - two) / (w + second[:, None, None])).max(axis=(1, 2)))

        n = walk.n
        found.append(Instance("w", f"|Q^ - Q*|/w, {name}, n={n}, delta={delta:g}", 1.0, own, delta))
        about = f"|Q^_1 - Q^_2|/(margin of a seed), {name}, n={n}, delta={delta:g}"
        found.append(Instance("margin", about, 1.0, other, 2.0 * delta))
    return found


def instances() -> list[Instance]:
    """Return all instances."""
    return [
        *_coin_distances(),
        *_walk_distances(),
        *_coin_losses(),
        *_coin_rules(),
        *_coin_affordable(),
        *_masked(),
        *_given_the_data(),
    ]
