"""The practical plan of R-max: parameters that can be run, chosen from the bounds of `theory.rmax`."""

from __future__ import annotations

import math

from replicable_rl.errors import InvalidInput, check_integer, check_real, check_share
from replicable_rl.theory.rmax import (
    MAX_EPISODES,
    RMaxPlan,
    check_sizes,
    decisions,
    log_term,
    rounds_needed,
    wrong_entries,
)
from replicable_rl.theory.rstat import (
    SLACK,
    Form,
    check_delta_rho,
    hoeffding_radius,
    hoeffding_samples,
    pieces_of,
    split_tolerance,
)

__all__ = ["rmax_practical"]

_COARSEST = 0.01  # the practical plan never rounds probabilities more coarsely than this by itself
_SLOWEST = 10.0  # and never takes k beyond this many epsilon to replicate: about 80 N rounds could learn nothing


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
    owner: str = "theory.rmax_practical",
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
    n_states, n_actions : int
        S and A.
    gamma : float
        Discount in [0, 1).
    epsilon, delta : float
        Accuracy of the policy, in values normalised to [0, 1], and the probability that it fails.
    rho : float or None
        The probability that two runs may differ.
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
    owner : str
        Whose name error messages bear.

    Examples
    --------
    >>> plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, support=3)
    >>> plan.rounds, f"{plan.episodes:.3g}", plan.replicability_proved, plan.accuracy_proved
    (33, '8.92e+16', True, True)
    >>> plan = rmax_practical(8, 4, 0.9, 0.1, 0.001, 0.2, horizon=60, episodes=10**9)
    >>> plan.visits >= plan.visits_needed, plan.tolerance
    (False, 0.01)
    """
    check_sizes(owner, n_states, n_actions, gamma, epsilon, horizon)
    if rho is None:
        delta = check_share(owner, "delta", delta)
    else:
        rho, delta = check_delta_rho(owner, rho, delta)
    pieces = pieces_of(form, owner)
    N = n_states * n_actions
    K = n_states if support is None else check_integer(owner, "support", support, low=1, high=n_states)
    known, window = (_check_visits(owner, *given) for given in (("known", known), ("window", window)))
    tolerance = None if tolerance is None else check_share(owner, "tolerance", tolerance)
    rounds = None if rounds is None else check_integer(owner, "rounds", rounds, low=1, high=2**62)
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
    asked = _episodes_for_counts(N, gamma, epsilon, delta, rho, horizon, rounds, k, window or k)
    needed = max(_divided(hoeffding_samples(sampling_share(tolerance or finest), delta_sq), k), asked)
    m = _episodes(owner, episodes, budget, horizon, N + 1 if rounds is None else rounds)
    m = min(MAX_EPISODES, needed) if m is None else m
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
        kind="practical",
        n_states=n_states,
        n_actions=n_actions,
        gamma=gamma,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        horizon=horizon,
        known_rewards=known_rewards,
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
    )


def _episodes_for_counts(
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float | None,
    horizon: int,
    rounds: int | None,
    known: float,
    window: float,
) -> int:
    """Return the m with which the known set and stopping cost a quarter of rho - 2 delta each, and accuracy holds."""
    T = rounds_needed(epsilon, pairs, known, window) if rounds is None else rounds
    L = log_term(pairs, T, delta)
    spare = epsilon * (1.0 - gamma) / 2.0 - gamma**horizon  # what the model's entries leave of the loss
    asked = [1]
    if spare > 0.0:
        asked.append(_episodes_for(horizon * epsilon, horizon, L, spare / 2.0))
    if rho is not None:
        share = (rho - 2.0 * delta) / 4.0
        t_known = share * window / (2.0 * decisions(epsilon, pairs, known, window, T))
        asked.append(_episodes_for(2.0 * horizon * (known + window), horizon, L, t_known))
        asked.append(_episodes_for(horizon * epsilon, horizon, L, share * epsilon / (8.0 * T)))
    return max(asked)


def _episodes(owner: str, episodes: int | None, budget: int | None, horizon: int, rounds: int) -> int | None:
    if episodes is not None and budget is not None:
        raise InvalidInput(f"{owner}: give episodes (m) or budget (transitions in all), not both.")
    if budget is not None:
        budget = check_integer(owner, "budget", budget, low=horizon, high=2**200)
        return max(1, min(MAX_EPISODES, budget // (horizon * rounds)))
    return None if episodes is None else check_integer(owner, "episodes", episodes, low=1, high=2**200)


def _check_visits(owner: str, name: str, visits: float | None) -> float | None:
    if visits is None:
        return None
    return check_real(owner, name, visits, low=1e-30, high=1e30, rule="a positive number of visits (1e-30 to 1e30)")


def _episodes_for(variance: float, largest: float, log_term: float, deviation: float) -> int:
    """Return the m that brings `_deviation` down to ``deviation``."""
    slow = 2.0 * variance * log_term
    root = math.sqrt(slow) + math.sqrt(slow + 8.0 * largest * log_term * deviation / 3.0)
    return math.ceil((root / (2.0 * deviation)) ** 2 * SLACK)


def _divided(visits: int, known: float) -> int:
    """Return the smallest m, or hardly more, with floor(known * m) >= visits."""
    return math.ceil(visits / known * SLACK)
