"""The paper's own parameters, to be given to an algorithm in place of ours, which keep the same promises with less."""

from __future__ import annotations

import math
from typing import Any

from replicable_rl.errors import InvalidInput, check_share
from replicable_rl.theory.approximate_mdp import Norm, approximate_mdp
from replicable_rl.theory.numbers import check_parameters
from replicable_rl.theory.phased_vi import Target, phased_vi
from replicable_rl.theory.rstat import Form, hoeffding_samples, pieces_of

_MODEL = "theory.paper_approximate_mdp"
_LARGEST = 650.0  # logarithm of m: floats end near 709


def paper_phased_vi(
    pairs: int,
    gamma: float,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    target: Target = "policy",
    known_rewards: bool = True,
    tolerance: float | None = None,
    printed: bool = False,
) -> dict[str, Any]:
    """Return T, tau and m of the listing of Theorem 4.1 (``thm:rpvi``), for `ReplicablePhasedVI`; 2*delta < rho.

    ``printed`` asks for m as the paper prints it: about four times what its proof needs.

    >>> paper_phased_vi(32, 0.9, epsilon=0.1, delta=0.001, rho=0.2)["calls"]
    8187898146367124
    """
    rho = check_share("theory.paper_phased_vi", "rho", rho)
    kind: dict[str, Any] = {"target": target, "known_rewards": known_rewards, "tolerance": tolerance}
    plain = phased_vi(pairs, gamma, epsilon, delta, **kind)
    listing = phased_vi(pairs, gamma, epsilon, delta, rho, iterations=plain.iterations, **kind)
    tau, gap, calls = listing.tolerance, rho / listing.queries - 2.0 * listing.delta_sq, listing.calls
    if printed:
        calls = math.ceil(2.0 * math.log(2.0 / listing.delta_sq) / (tau * tau * gap * gap))
    return {"iterations": listing.iterations, "tolerance": tau, "calls": calls}


def paper_approximate_mdp(
    n_states: int,
    n_actions: int,
    epsilon: float,
    delta: float,
    rho: float,
    *,
    norm: Norm = "entry",
    form: Form = "zero-preserving",
    known_rewards: bool = True,
) -> dict[str, Any]:
    """Return tau and n of Observation B.1 (``obs:rep-mdp``), for `ReplicableApproximateMDP`; 2*delta < rho.

    >>> paper_approximate_mdp(8, 4, epsilon=0.01, delta=0.001, rho=0.2)["calls"]
    439857142095
    """
    rho, promise = check_share(_MODEL, "rho", rho), (epsilon, delta, rho)
    model = approximate_mdp(n_states, n_actions, *promise, norm=norm, form=form, known_rewards=known_rewards)
    gap = rho / model.queries - 2.0 * model.delta_sq
    if gap <= 0.0:
        raise InvalidInput(f"{_MODEL}: 2*delta < rho is needed, got delta={model.delta:g}, rho={rho:g}.")
    sampling = model.tolerance * gap / (pieces_of(form) + gap)
    return {"tolerance": model.tolerance, "calls": hoeffding_samples(sampling, model.delta_sq)}


def paper_rmax(
    n_states: int, n_actions: int, gamma: float, epsilon: float, delta: float, rho: float, horizon: int
) -> dict[str, Any]:
    """Return T, m, k, w and tau of Theorem 4.2 (``thm:repmax-replicable``), for `ReplicableRMax`.

    The paper gives orders of growth. Every constant is 1 here, so that nothing is proved of them.

    >>> paper = paper_rmax(8, 4, gamma=0.9, epsilon=0.1, delta=0.001, rho=0.2, horizon=30)
    >>> paper["rounds"], f"{paper['episodes']:.2g}"
    (631298, '6.5e+27')
    """
    given = {"gamma": gamma, "epsilon": epsilon, "delta": delta, "rho": rho, "horizon": horizon}
    check_parameters("theory.paper_rmax", n_states=n_states, n_actions=n_actions, **given)
    H, N, log = horizon, n_states * n_actions, math.log(1.0 / delta)
    T = H * N / epsilon + H * H * log / epsilon**2
    if 2.0 * math.log(N / rho) + 4.0 * math.log(T) + math.log(H) > _LARGEST:
        raise InvalidInput("theory.paper_rmax: the paper's m passes 1e280 here. Raise epsilon or rho.")
    rounds = math.ceil(T)
    episodes = math.ceil(N**2 * float(rounds) ** 4 * math.log(1.0 / rho) / rho**2)
    tolerance = epsilon * (1.0 - gamma) ** 2 / n_states
    return {"rounds": rounds, "episodes": episodes, "known": float(H), "window": float(H), "tolerance": tolerance}
