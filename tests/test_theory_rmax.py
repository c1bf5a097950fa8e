"""Plans of R-max: every promise recomputed from its argument, and every bound at its edge."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dev.benchmarks.proofs_rmax import Instance, instances, measure
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import replicable_rl as rr
from replicable_rl.queries import RStat
from replicable_rl.theory import MAX_CALLS, RMaxNumbers, rmax
from replicable_rl.theory.rstat import Form
from tests.statistics import ALPHA, SEED

probabilities = st.tuples(st.floats(1e-3, 0.99), st.floats(1e-4, 0.49)).map(lambda x: (x[0], x[0] * x[1]))  # rho, delta
forms: st.SearchStrategy[Form] = st.sampled_from(["midpoint", "zero-preserving"])
PIECES: dict[Form, int] = {"midpoint": 1, "zero-preserving": 2}
EXAMPLE: dict[str, Any] = {
    "n_states": 8, "n_actions": 2, "gamma": 0.9, "epsilon": 0.1, "delta": 0.01, "rho": 0.2, "horizon": 60, "support": 3,
}  # fmt: skip


# --- the paper's own parameters --------------------------------------------------------------------------------


# --- every bound recomputed ---------------------------------------------------------------------------


def idle_rounds(plan: RMaxNumbers) -> int:
    """Rounds that add eps/4 each and together less than N(k + w)."""
    most = 4 * plan.pairs * (plan.known + plan.window) / plan.epsilon / (1 + 1e-13)  # but for rounding
    return max(0, math.ceil(most) - 1)


def check_rmax(plan: RMaxNumbers) -> None:
    """The bounds of theory/rmax.py, and the two verdicts, from the numbers a run uses."""
    exact_visits = Fraction(plan.known) * plan.episodes
    assert abs(plan.visits - exact_visits) <= 1 + abs(exact_visits) * Fraction(1, 10**14)
    entry, loss, parts = recomputed(plan)
    assert plan.sampling_error + PIECES[plan.form] * plan.width / 2 == pytest.approx(entry)
    assert plan.error_proved == pytest.approx(loss, rel=1e-6)
    assert plan.accuracy_proved == (loss <= plan.epsilon) or loss == pytest.approx(plan.epsilon)
    enough = plan.pairs + idle_rounds(plan)  # rounds that learn, or leave eps/4 in counts that stay below k + w
    assert plan.rounds_needed == pytest.approx(enough + 1, abs=1.5)
    if plan.rho is None:
        assert plan.rho_proved is None
        assert not plan.replicability_proved
        return
    parts = tuple(min(1.0, part) for part in parts)
    assert (plan.rho_queries, plan.rho_known, plan.rho_stop) == pytest.approx(parts, rel=1e-6)
    total = sum(parts)
    assert plan.rho_proved == pytest.approx(min(1.0, total), rel=1e-6)
    assert plan.replicability_proved == (total <= plan.rho) or total == pytest.approx(plan.rho)


def recomputed(plan: RMaxNumbers) -> tuple[float, float, tuple[float, ...]]:
    N, H, m, eps, K = plan.n_states * plan.n_actions, plan.horizon, plan.episodes, plan.epsilon, plan.support
    T = min(plan.rounds, N + 1 + idle_rounds(plan))
    n0, learned = max(1, plan.visits), not plan.known_rewards
    sets = N * (2**K - 2 + 2 * learned)  # one-sided events of a run: sets of successors, and rewards up and down
    radius = math.sqrt(math.log(2 * sets / plan.delta) / (2 * n0)) if sets else 0.0
    assert sets * math.exp(-2 * n0 * radius**2) == pytest.approx(plan.delta / 2 if sets else 0.0)
    rounding = 0.0 if plan.rho is None else PIECES[plan.form] * plan.width / 2
    E = plan.n_states if plan.form == "midpoint" and plan.rho is not None else K
    row = (radius if K > 1 else 0.0) + ((E - 1) * rounding / (1 - E * rounding) if E * rounding < 1 else 1.0)
    reward = radius + plan.width / 2 if learned else 0.0
    seen = stopped_rate(eps / 2, H, math.log(2 * T / plan.delta), m)
    g = plan.gamma / (1 - plan.gamma)
    loss = 2 * (g * row + reward) + seen + plan.gamma**H + 2e-10 / (1 - plan.gamma)
    if plan.rho is None:
        return radius, loss, ()
    deviations = (math.sqrt(K - 1) + learned / 2) / math.sqrt(n0)  # of the entries of a row, summed
    few = 37 * (K * (K > 1) + learned) / n0
    queries = N * min(2 * deviations, 1.63 * deviations + few) / plan.width
    made = math.sqrt(min(N * plan.rounds, N * (N + 1) // 2 + N * idle_rounds(plan)) * N * T)
    edge, b = plan.known + plan.window, H / m
    x = math.log(200 * N * T * max(1.0, math.sqrt(edge / b)))  # the second term is 2 N T exp(-x)
    eta = b * x / edge + math.sqrt((b * x / edge) ** 2 + 2 * b * x / edge)
    known = made * math.sqrt(2 * b * (1 + eta) * edge) / plan.window + 2 * N * T * math.exp(-x)
    return radius + rounding, loss, (queries, known, T * math.sqrt(b * eps) / (eps / 4))


def stopped_rate(seen: float, H: int, L: float, m: int) -> float:
    """The largest u with u - sqrt(2 H u L/m) <= seen, by bisection."""
    low, high = seen, seen + 10.0 * (H * L / m + 1.0)
    for _ in range(200):
        u = (low + high) / 2
        low, high = (u, high) if u - math.sqrt(2 * H * u * L / m) <= seen else (low, u)
    return low


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of rmax, with some overrides."""
    rho, delta = draw(probabilities)
    S = draw(st.integers(1, 60))

    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    return {
        "n_states": S,
        "n_actions": draw(st.integers(1, 5)),
        "gamma": draw(st.sampled_from([0.0, 0.5, 0.9, 0.99])),
        "epsilon": draw(st.floats(1e-3, 0.95)),
        "delta": delta,
        "rho": draw(st.sampled_from([rho, rho, None])),
        "horizon": draw(st.integers(1, 3000)),
        "known_rewards": draw(st.booleans()),
        "support": maybe(st.integers(1, S)),
        "form": draw(forms),
        "rounds": maybe(st.integers(1, 10**6)),
        "known": maybe(st.floats(1e-8, 1e4)),
        "window": maybe(st.floats(1e-8, 1e4)),
        "tolerance": maybe(st.floats(1e-5, 0.9)),
        "episodes": maybe(st.integers(1, 10**20)),
    }


@settings(max_examples=300, deadline=None)
@given(arguments())
def test_every_bound_is_what_its_argument_gives(parameters: dict[str, Any]) -> None:
    plan = rmax(**parameters)
    for name in ("known", "window", "rounds", "episodes"):
        if parameters[name] is not None:
            assert getattr(plan, name) == parameters[name]
    check_rmax(plan)


def proves_everything(plan: RMaxNumbers) -> bool:
    return plan.accuracy_proved and plan.replicability_proved == (plan.rho is not None)


OVERRIDES = ("rounds", "known", "window", "tolerance", "episodes")


@settings(max_examples=300, deadline=None)
@given(arguments())
def test_episodes_needed_prove_every_promise(parameters: dict[str, Any]) -> None:
    """Either the m that is named proves every promise, or no m does, and what is too short is named."""
    check_what_is_needed({**parameters, **dict.fromkeys(OVERRIDES)})


def check_what_is_needed(parameters: dict[str, Any]) -> None:
    plan = rmax(**parameters)
    if plan.episodes_needed is not None:
        assert proves_everything(rmax(**{**parameters, "episodes": plan.episodes_needed}))
        assert proves_everything(rmax(**{**parameters, "episodes": min(2**200, 7 * plan.episodes_needed)}))
        fewer = rmax(**{**parameters, "episodes": max(1, plan.episodes_needed // 1000)})
        assert fewer.episodes_needed == plan.episodes_needed  # what is needed does not depend on what is used
        return
    for m in (1, 10**6, 2**63):  # what can be drawn; far beyond, plans that the search does not try may prove more
        assert not proves_everything(rmax(**{**parameters, "episodes": m}))
    if plan.horizon < plan.horizon_needed < 2**31:
        assert "horizon" in plan.short("accuracy")
        longer = rmax(**{**parameters, "horizon": plan.horizon_needed})
        assert longer.horizon_needed == longer.horizon


@settings(max_examples=100, deadline=None)
@given(arguments())
def test_default_plans_prove_all_that_64_bits_allow(parameters: dict[str, Any]) -> None:
    """Nothing overridden, and the horizon long enough: both promises hold."""
    gamma, epsilon = parameters["gamma"], parameters["epsilon"]
    horizon = 2 if gamma == 0.0 else math.ceil(math.log(epsilon * (1 - gamma) / 8) / math.log(gamma))
    names = ("n_states", "n_actions", "gamma", "epsilon", "delta", "rho", "known_rewards", "support", "form")
    plan = rmax(horizon=horizon, **{name: parameters[name] for name in names})
    check_rmax(plan)
    assert plan.episodes_needed is not None
    assert proves_everything(plan) or plan.episodes_needed > MAX_CALLS
    if plan.episodes_needed <= MAX_CALLS:
        assert plan.episodes == plan.episodes_needed
        assert plan.rounds == plan.rounds_needed
        if plan.rho is not None:
            assert plan.rho_proved is not None
            assert plan.rho_proved > 0.99 * plan.rho or plan.episodes < 10**6  # all of rho is spent


def test_the_rounds_of_the_progress_argument_are_tight_enough() -> None:
    """Adversarial counts: no run of rates >= eps/4 lasts as long as rounds_needed without knowing every pair."""
    for N, k, w, H, eps in itertools.product((1, 2, 5), (0.01, 0.4), (0.01, 0.3), (1, 3), (0.2, 0.9)):
        plan = rmax(N, 1, 0.5, eps, 0.001, 0.2, H, known=k, window=w, episodes=100)
        counts, rounds = [0.0] * N, 0
        while min(counts) < k + w:  # thresholds as high as they can be; visits as useless as they can be
            unknown = [i for i in range(N) if counts[i] < k + w]
            worst = max(unknown, key=lambda i: counts[i])  # hardly below the threshold, then wasted on
            counts[worst] += eps / 4
            rounds += 1
        assert rounds <= plan.rounds_needed
        even, rounds = 0.0, 0
        while even < k + w:  # or spread over all pairs, so that none is learned for long
            even += eps / 4 / N
            rounds += 1
        assert rounds <= plan.rounds_needed


# --- the mathematics behind the bounds ----------------------------------------------------------------------


@pytest.mark.parametrize("instance", instances(), ids=lambda one: one.name)
def test_no_bound_is_exceeded_at_its_edge(instance: Instance) -> None:
    """A mean that its bound allows is further above it with probability < ALPHA, by the normal law."""
    found = measure(instance, 4000, np.random.default_rng(SEED))
    assert found.excess < stats.norm.isf(ALPHA)


def test_the_edge_would_notice_a_bound_that_is_too_small() -> None:
    loose = {one.name: measure(one, 4000, np.random.default_rng(SEED)) for one in instances()}
    close = [name for name, one in loose.items() if one.looseness < 1.85 and one.error < 0.02 * one.mean]
    assert {name.partition(":")[0] for name in close} >= {"query", "row", "known set", "stopping"}
    for name in close:  # half the bound is exceeded, and seen to be
        halved = loose[name]._replace(bound=loose[name].bound / 2)
        assert halved.excess > stats.norm.isf(ALPHA)


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("n0", [1, 10, 40])
def test_no_stopping_rule_beats_the_second_moment(p: float, n0: int) -> None:
    """The best rule of all, by backward induction: its E (v_N - p)^2 is at most 2 p(1-p)/n0."""
    last = 12 * n0
    worth = (np.arange(last + 1) / last - p) ** 2  # of stopping at the last n, by the number of successes
    for n in range(last - 1, n0 - 1, -1):
        later = p * worth[1 : n + 2] + (1 - p) * worth[: n + 1]
        worth = np.maximum((np.arange(n + 1) / n - p) ** 2, later)
    best = float(stats.binom.pmf(np.arange(n0 + 1), n0, p) @ worth)
    assert best < 1.3276 * p * (1 - p) / n0 or n0 * p < 1  # what is proved where p(1-p) n0 >= 10^4
    assert p * (1 - p) / n0 * (1 - 1e-12) <= best <= 2 * p * (1 - p) / n0
    assert best > 1.1 * p * (1 - p) / n0 or n0 * p < 1  # patience pays, so that one look's bound would be wrong


@pytest.mark.parametrize(("p", "n"), [(0.5, 40_000), (0.3, 50_000), (0.02, 520_000), (0.3, 10**7), (0.01, 10**9)])
def test_a_step_of_the_supermartingale(p: float, n: int) -> None:
    """G(s, n) = s^2/n^2 + C var/n (y - s^2/(var n))_+^2 does not rise in the mean, where var n is 10^4 or more."""
    var, y, C = p * (1 - p), 1.7, 0.17
    assert var * n >= 10**4
    z = np.concatenate([np.linspace(-4, 4, 4001), math.sqrt(y) * (1 + np.linspace(-1e-3, 1e-3, 401))])
    s = z * math.sqrt(var * n)

    def bounding(s: Floats, n: int) -> Floats:
        return np.asarray((s / n) ** 2 + C * var / n * np.maximum(0.0, y - s * s / (var * n)) ** 2)

    later = p * bounding(s + 1 - p, n + 1) + (1 - p) * bounding(s - p, n + 1)
    assert ((later - bounding(s, n)) * n**2 / var).max() < (1e-4 if n == 10**9 else 0.0)  # but for rounding, 1e-16 n
    assert bounding(s, n)[np.abs(z) > 2] == pytest.approx((s[np.abs(z) > 2] / n) ** 2)
    assert 1 + C * y**2 * (2 / 3 + 1e-4 / 9) < 1.63**2 / 2


def test_hoeffding_holds_for_every_later_mean_at_once() -> None:
    """The reverse martingale: whoever chooses n >= n0 after looking, the radius at n0 is broken with <= delta."""
    delta, n0, n_max, paths = 0.2, 40, 4000, 4000
    rng = np.random.default_rng(SEED)
    for p in (0.5, 0.1):
        sums = np.cumsum(rng.random((paths, n_max)) < p, axis=1, dtype=np.int32)
        n = np.arange(n0, n_max + 1)
        off = np.abs(sums[:, n0 - 1 :] / n - p)
        radius = math.sqrt(math.log(2 / delta) / (2 * n0))
        broken = int((off.max(axis=1) > radius).sum())
        assert stats.binomtest(broken, paths, delta, alternative="greater").pvalue > ALPHA
        if p == 0.5:  # the radius at n, for an n chosen after looking, would be broken far more often
            own = np.sqrt(math.log(2 / delta) / (2 * n))
            often = int((off > own).any(axis=1).sum())
            assert stats.binomtest(often, paths, delta, alternative="greater").pvalue < ALPHA


TINY: dict[str, Any] = {"n_states": 2, "n_actions": 2, "gamma": 0.0, "delta": 0.01, "rho": 0.3, "horizon": 5}


@pytest.mark.parametrize("m", [10, 1000, 10**5, 10**7])
@pytest.mark.parametrize("epsilon", [1e-4, 0.02, 0.5])
def test_a_rate_above_the_bound_is_not_seen_below_the_threshold(m: int, epsilon: float) -> None:
    """With gamma = 0 the loss is the rate alone. The worst law puts all H visits into one episode: a binomial."""
    plan = rmax(**TINY, epsilon=epsilon, episodes=m, known=0.1, rounds=50)
    T = min(50, plan.rounds_needed)
    L = math.log(2 * T / plan.delta)
    rate = plan.error_proved - 2e-10
    for u in (rate, 1.2 * rate, 3 * rate):
        if u < plan.horizon:
            seen_below = stats.binom.cdf(math.floor(m * epsilon / 2 / plan.horizon), m, u / plan.horizon)
            assert seen_below <= math.exp(-L)


Floats = NDArray[np.float64]


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(1e-4, 0.3), st.sampled_from(["extreme", "uniform", "up"])
)
def test_rounded_rows_are_close_in_total_variation(seed: int, E: int, e: float, how: str) -> None:
    """A row whose entries are off by up to e, divided by its sum: within (E-1) e/(1 - E e)."""
    rng = np.random.default_rng(seed)
    v = rng.dirichlet(np.full(E, 0.3))
    signs = {"extreme": rng.choice([-1, 1], E), "uniform": rng.uniform(-1, 1, E), "up": np.ones(E)}[how]
    answer = np.clip(v + e * signs, 0.0, 1.0)
    if E * e >= 1.0 or answer.sum() == 0.0:
        return
    off = np.abs(answer / answer.sum() - v).sum() / 2
    bound = replace(rmax(E, 1, 0.9, 0.1, 0.01, 0.2, 5), width=e).rounded_row
    assert off <= bound + 1e-12
    assert bound == pytest.approx((E - 1) * e / (1 - E * e))
    if E == 2:  # and it is nearly that much where one entry has everything
        answer = np.array([1.0 - e, e])
        assert np.abs(answer - [1.0, 0.0]).sum() / 2 == pytest.approx(e)


def value(P: Floats, r: Floats, gamma: float, policy: NDArray[np.int64]) -> Floats:
    at = np.arange(P.shape[0])
    return np.asarray(np.linalg.solve(np.eye(at.size) - gamma * P[at, policy], r[at, policy]), dtype=np.float64)


def best_policy(P: Floats, r: Floats, gamma: float) -> NDArray[np.int64]:
    """By policy iteration."""
    policy = np.zeros(P.shape[0], dtype=np.int64)
    for _ in range(100):
        q = r + gamma * P @ value(P, r, gamma, policy)
        better = np.where(q.max(axis=1) > q[np.arange(policy.size), policy] + 1e-12, q.argmax(axis=1), policy)
        if (better == policy).all():
            break
        policy = better
    return policy


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.sampled_from([0.0, 0.5, 0.9, 0.97]),
    st.floats(1e-4, 0.6),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from(["extreme", "uniform", "gone"]),
)
def test_the_loss_of_any_model_that_is_close_is_bounded(
    seed: int, S: int, gamma: float, entry: float, H: int, learned_rewards: bool, how: str
) -> None:
    """Rows wrong by up to ``entry`` in every entry of the support, divided by their sums; unknown pairs optimistic.

    The bound is 2(gamma TV/(1-gamma) + [entry]) + u + gamma^H, with TV the largest total variation of a known row,
    itself at most K entry, and u the expected visits to unknown pairs.
    """
    rng = np.random.default_rng(seed)
    A, K = 2, int(rng.integers(1, S + 1))
    P, P_hat = np.zeros((S, A, S)), np.zeros((S, A, S))
    r = rng.random((S, A)).round() if rng.random() < 0.5 else rng.random((S, A))
    known = rng.random((S, A)) < 0.7
    r_hat = np.clip(r + (entry * rng.choice([-1, 1], (S, A)) if learned_rewards else 0.0), 0, 1)
    for s, a in itertools.product(range(S), range(A)):
        support = rng.choice(S, K, replace=False)
        P[s, a, support] = rng.dirichlet(np.full(K, 0.5))
        error = {
            "extreme": entry * rng.choice([-1, 1], K),
            "uniform": entry * rng.uniform(-1, 1, K),
            "gone": np.full(K, -entry),
        }[how]
        answer = np.clip(P[s, a, support] + error, 0, 1)
        if answer.sum() > 0:
            P_hat[s, a, support] = answer / answer.sum()
        else:
            P_hat[s, a, s] = 1.0
    P_hat[~known], r_hat[~known] = np.eye(S)[np.nonzero(~known)[0]], 1.0
    initial = rng.dirichlet(np.ones(S))
    policy = best_policy(P_hat, (1 - gamma) * r_hat, gamma)  # normalised: values in [0, 1]
    best = best_policy(P, (1 - gamma) * r, gamma)
    loss = initial @ (value(P, (1 - gamma) * r, gamma, best) - value(P, (1 - gamma) * r, gamma, policy))
    here, u = initial, 0.0
    for _ in range(H):
        u += float(here[~known[np.arange(S), policy]].sum())
        here = here @ P[np.arange(S), policy]
    row = float(np.abs(P - P_hat)[known].sum(axis=1).max() / 2) if known.any() else 0.0
    assert row <= K * entry + 1e-12 or how == "gone"
    bound = 2 * (gamma / (1 - gamma) * row + (entry if learned_rewards else 0.0)) + u + gamma**H
    assert loss <= bound + 1e-9


def test_midpoint_rows_are_wrong_in_every_entry() -> None:
    """The midpoint form spreads weight over successors that do not exist: the support does not bound its l1 error."""
    S, K = 200, 1
    plans = {
        form: rmax(S, 1, 0.9, 0.5, 0.001, 0.2, 50, support=K, form=form, episodes=10**15, tolerance=0.002)
        for form in PIECES
    }
    l1 = {}
    for form, plan in plans.items():
        query = RStat(rr.SharedRandomness(SEED), "rmax/offset", plan.width, plan.form)
        answer = query.answer(np.eye(S)[0], index=np.arange(S))
        l1[form] = float(np.abs(answer / answer.sum() - np.eye(S)[0]).sum())
        rounding = PIECES[form] * plan.width / 2
        entries = S if form == "midpoint" else K
        rows = (entries - 1) * rounding / (1 - entries * rounding)
        assert l1[form] <= 2 * rows + 1e-12
        assert plan.error_proved >= 2 * plan.gamma / (1 - plan.gamma) * rows + plan.epsilon / 2
    assert l1["midpoint"] > 0.1  # so the bound with K would be wrong
    assert l1["zero-preserving"] == 0.0
