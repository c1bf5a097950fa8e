"""Parameters of R-max: the paper's with every constant 1, and practical ones from the bounds of `theory.rmax`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from replicable_rl.errors import InvalidInput, check_integer, check_real, check_share
from replicable_rl.theory.plan import MAX_CALLS, SLACK
from replicable_rl.theory.rmax import RMaxPlan, decisions, log_term, rounds_needed, wrong_entries
from replicable_rl.theory.rstat import (
    Form,
    check_delta_rho,
    hoeffding_radius,
    hoeffding_samples,
    pieces_of,
    split_tolerance,
)

_COARSEST = 0.01  # the practical plan never rounds probabilities more coarsely than this by itself
_SLOWEST = 10.0  # and never takes k beyond this many epsilon to replicate: about 80 N rounds could learn nothing
_OWNER = "theory.rmax_practical"


def rmax(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    horizon: int,
    *,
    refined: bool = False,
    known_rewards: bool = True,
) -> RMaxPlan:
    """Return the paper's parameters with every constant 1: asymptotic, and not meant to be run.

    Parameters
    ----------
    n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards
        As in :func:`rmax_practical`.
    refined : bool
        Whether T and m are those of the shorter argument of ``docs/rmax.md``, still with every constant 1.

    Examples
    --------
    >>> plan = rmax(8, 4, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2, horizon=30)
    >>> plan.kind, plan.rounds, f"{plan.episodes:.2g}"
    ('asymptotic', 631298, '6.5e+27')
    >>> f"{rmax(8, 4, 0.9, 0.1, 0.001, 0.2, 30, refined=True).episodes:.2g}"
    '3.6e+16'
    """
    sizes = _checked("theory.rmax", n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards)
    N, H = n_states * n_actions, horizon
    T = H * N / epsilon
    if not refined:
        T += H * H * math.log(1.0 / delta) / epsilon**2
    rounds = math.ceil(T)
    episodes = math.ceil(N**2 * float(rounds) ** (3 if refined else 4) * math.log(1.0 / rho) / rho**2)
    queries = N * (n_states if known_rewards else n_states + 1)
    tolerance = epsilon * (1.0 - gamma) ** 2 / n_states
    width, sampling = split_tolerance(tolerance, (rho - 2.0 * delta) / queries, pieces_of("zero-preserving"))
    return RMaxPlan(
        **sizes._asdict(),
        kind="refined" if refined else "asymptotic",
        support=n_states,
        form="zero-preserving",
        rounds=rounds,
        episodes=episodes,
        episodes_needed=episodes,
        known=float(H),
        window=float(H),
        tolerance=tolerance,
        width=width,
        delta_sq=delta / queries,
        rho_sq=rho / queries,
        visits_needed=hoeffding_samples(sampling, delta / queries),
    )


def rmax_practical(
    n_states: int,
    n_actions: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None,
    horizon: int,
    *,
    known_rewards: bool = True,
    support: int | None = None,
    form: Form = "zero-preserving",
    episodes: int | None = None,
    budget: int | None = None,
    rounds: int | None = None,
    known: float | None = None,
    window: float | None = None,
    tolerance: float | None = None,
) -> RMaxPlan:
    """Return parameters that can be run; ``rho=None`` plans the baseline R-max.

    m is given (``episodes``, or a total ``budget`` of transitions) or as large as the bounds ask for, at most
    2**63 - 1. k = epsilon/(8N) lets every round learn a pair, and tau is as fine as replicability allows at
    k*m visits, but not coarser than 0.01; where k*m then falls short of the sample size of the queries, k grows
    until it covers it, up to 10 epsilon. Where m is too small even for that, k*m covers accuracy alone. w = k.
    Half of rho - 2 delta goes to the queries, a quarter each to the known set and to stopping. Every keyword
    overrides its parameter.

    Parameters
    ----------
    n_states, n_actions, gamma
        S, A and the discount.
    epsilon, delta, rho : float
        Accuracy of the policy, in values normalised to [0, 1], the probability that it fails, and the probability
        that two runs may differ.
    horizon : int
        H, the steps of an episode.
    known_rewards : bool
        Whether the reward is a known function of (s, a).
    support : int, optional
        The most successors that any pair has; S when not given.
    form : {"zero-preserving", "midpoint"}
        How rSTAT answers near 0.
    episodes, budget, rounds : int, optional
        m, or the transitions in all from which m follows, and T.
    known, window, tolerance : float, optional
        k, w and tau.

    Examples
    --------
    >>> plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> plan.rounds, f"{plan.episodes:.3g}", plan.replicability_proved, plan.accuracy_proved
    (33, '8.92e+16', True, True)
    >>> plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, episodes=10**9)
    >>> plan.visits >= plan.visits_needed, plan.tolerance
    (False, 0.01)
    """
    sizes = _checked(_OWNER, n_states, n_actions, gamma, epsilon, delta, rho, horizon, known_rewards)
    pieces = pieces_of(form)
    N = n_states * n_actions
    K = n_states if support is None else check_integer(_OWNER, "support", support, low=1, high=n_states)
    known, window = (_check_visits(*given) for given in (("known", known), ("window", window)))
    tolerance = None if tolerance is None else check_share(_OWNER, "tolerance", tolerance)
    rounds = None if rounds is None else check_integer(_OWNER, "rounds", rounds, low=1, high=2**62)
    queries = N * (K if known_rewards else K + 1)
    delta_sq = delta / 2.0 / queries
    rho_sq = None if rho is None else rho / 2.0 / queries
    gap = math.inf if rho_sq is None else rho_sq - 2.0 * delta_sq

    def sampling_share(tau: float) -> float:
        return tau if rho_sq is None else split_tolerance(tau, gap, pieces)[1]

    quickest = epsilon / (8.0 * N)  # the largest k = w with which every round learns a pair
    entries = K if rho is None else wrong_entries(form, n_states, K)
    finest = min(_COARSEST, epsilon * (1.0 - gamma) / (4.0 * max(entries, 1 if known_rewards else 2)))  # for the loss
    k = known or quickest
    asked = _episodes_for_counts(sizes, rounds, k, window or k)
    needed = max(_divided(hoeffding_samples(sampling_share(tolerance or finest), delta_sq), k), asked)
    m = _episodes(episodes, budget, horizon, N + 1 if rounds is None else rounds)
    m = min(MAX_CALLS, needed) if m is None else m
    if tolerance is None:
        radius = hoeffding_radius(max(1, math.floor(k * m)), delta_sq) * SLACK
        reached = radius if rho_sq is None else radius * (1.0 + pieces / gap)
        tolerance = min(max(finest, reached), _COARSEST)
    if known is None:
        visits = hoeffding_samples(sampling_share(tolerance), delta_sq)
        if visits > min(_SLOWEST * epsilon, horizon) * m:  # out of reach: enough for accuracy will have to do
            visits = min(hoeffding_samples(tolerance, delta_sq), horizon * m)
        known = max(quickest, min(float(horizon), visits / m * SLACK))
    window = known if window is None else window
    if rounds is None:
        affordable = 2**62 if budget is None else max(1, budget // (m * horizon))
        rounds = min(affordable, rounds_needed(epsilon, N, known, window))
    return RMaxPlan(
        **sizes._asdict(),
        kind="practical",
        support=K,
        form=form,
        rounds=rounds,
        episodes=m,
        episodes_needed=needed,
        known=known,
        window=window,
        tolerance=tolerance,
        width=0.0 if rho_sq is None else split_tolerance(tolerance, gap, pieces)[0],
        delta_sq=delta_sq,
        rho_sq=rho_sq,
        visits_needed=hoeffding_samples(sampling_share(tolerance), delta_sq),
        threshold="fixed" if rho is None else "randomised",
        estimate="plain" if rho is None else "rstat",
    )


class _Sizes(NamedTuple):
    """The problem and the promise, checked."""

    n_states: int
    n_actions: int
    gamma: float
    epsilon: float
    delta: float
    rho: float | None
    horizon: int
    known_rewards: bool


def _checked(owner: str, *given: Any) -> _Sizes:
    sizes = _Sizes(*given)
    check_integer(owner, "n_states", sizes.n_states, low=1, high=2**40)
    check_integer(owner, "n_actions", sizes.n_actions, low=1, high=2**40)
    check_real(owner, "gamma", sizes.gamma, low=0.0, high=math.nextafter(1.0, 0.0), rule="a discount in [0, 1)")
    check_share(owner, "epsilon", sizes.epsilon)
    check_integer(owner, "horizon", sizes.horizon, low=1, high=2**31 - 1)
    check_delta_rho(owner, sizes.rho, sizes.delta)
    return sizes


def _episodes_for_counts(sizes: _Sizes, rounds: int | None, known: float, window: float) -> int:
    """Return the m with which the known set and stopping cost a quarter of rho - 2 delta each, and accuracy holds."""
    pairs, gamma, epsilon, horizon = sizes.n_states * sizes.n_actions, sizes.gamma, sizes.epsilon, sizes.horizon
    T = rounds_needed(epsilon, pairs, known, window) if rounds is None else rounds
    L = log_term(pairs, T, sizes.delta)
    spare = epsilon * (1.0 - gamma) / 2.0 - gamma**horizon  # what the model's entries leave of the loss
    asked = [1]
    if spare > 0.0:
        asked.append(_episodes_for(horizon * epsilon, horizon, L, spare / 2.0))
    if sizes.rho is not None:
        share = (sizes.rho - 2.0 * sizes.delta) / 4.0
        t_known = share * window / (2.0 * decisions(epsilon, pairs, known, window, T))
        asked.append(_episodes_for(2.0 * horizon * (known + window), horizon, L, t_known))
        asked.append(_episodes_for(horizon * epsilon, horizon, L, share * epsilon / (8.0 * T)))
    return max(asked)


def _episodes(episodes: int | None, budget: int | None, horizon: int, rounds: int) -> int | None:
    if episodes is not None and budget is not None:
        raise InvalidInput(f"{_OWNER}: give episodes (m) or budget (transitions in all), not both.")
    if budget is not None:
        budget = check_integer(_OWNER, "budget", budget, low=horizon, high=2**200)
        return max(1, min(MAX_CALLS, budget // (horizon * rounds)))
    return None if episodes is None else check_integer(_OWNER, "episodes", episodes, low=1, high=2**200)


def _check_visits(name: str, visits: float | None) -> float | None:
    if visits is None:
        return None
    return check_real(_OWNER, name, visits, low=1e-30, high=1e30, rule="a positive number of visits (1e-30 to 1e30)")


def _episodes_for(variance: float, largest: float, log_term: float, deviation: float) -> int:
    """Return the m that brings `_deviation` down to ``deviation``."""
    slow = 2.0 * variance * log_term
    root = math.sqrt(slow) + math.sqrt(slow + 8.0 * largest * log_term * deviation / 3.0)
    return math.ceil((root / (2.0 * deviation)) ** 2 * SLACK)


def _divided(visits: int, known: float) -> int:
    """Return the smallest m, or hardly more, with floor(known * m) >= visits."""
    return math.ceil(visits / known * SLACK)
