"""What is compared: the rules, rPVI, the replicable model and R-max, by short names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replicable_rl.algorithms import PlugInPolicy, ReplicableApproximateMDP, ReplicablePhasedVI, ReplicableRMax
from replicable_rl.errors import InvalidInput, did_you_mean, shown
from replicable_rl.problem.source import Generative, as_source
from replicable_rl.runs import Algorithm

PLAIN, PUBLISHED, DEFAULT = "greedy", "published", "affordable"
_RULES = (PLAIN, DEFAULT, "tolerance", "rounded", "gumbel", PUBLISHED)
_PHASED, _MODEL, _RMAX = "rpvi", "model", "rmax"
_NAMES = (*_RULES, _PHASED, _MODEL, _RMAX)
REPLICATES = {
    PLAIN: "nothing",
    DEFAULT: "policy",
    "tolerance": "policy",
    "rounded": "Q, policy",
    "gumbel": "policy",
    PUBLISHED: "policy, given cuts",
    _PHASED: "Q, policy",
    _MODEL: "model, Q, policy",
    _RMAX: "model, Q, policy",
}
_LARGEST_MODEL_ERROR = 0.5


def candidates(
    problem: Any, asked: Iterable[Any] | None, promise: tuple[float, float, float], over: str, horizon: int | None
) -> dict[str, Any]:
    """Return the algorithms by their names."""
    draws = isinstance(as_source(problem), Generative)
    if asked is None:
        asked = [*_RULES, *((_PHASED, _MODEL) if draws else ()), *(() if horizon is None else (_RMAX,))]
    if isinstance(asked, str):
        asked = [asked]
    makers = _makers(problem, promise, over, None if draws else horizon, horizon)
    chosen: dict[str, Any] = {}
    try:
        listed = list(asked)
    except Exception:  # whatever somebody's object raises
        raise InvalidInput(f"compare: algorithms must be a list of names or algorithms, got {shown(asked)}.") from None
    for one in listed:
        if isinstance(one, str):
            if one not in makers:
                raise InvalidInput(
                    f"compare: nothing is called {shown(one)}.{did_you_mean(one, _NAMES)} Known: {', '.join(_NAMES)}."
                )
            name, algorithm = one, makers[one]()
        elif isinstance(one, Algorithm):
            name, algorithm = one.id.rpartition(".")[2], one
        else:
            raise InvalidInput(f"compare: algorithms must be names or algorithms, got {shown(one)}.")
        while name in chosen or (name in _NAMES and not isinstance(one, str)):
            name += "'"
        chosen[name] = algorithm
    if not chosen:
        raise InvalidInput("compare: algorithms must name at least one, got an empty list.")
    return chosen


def _makers(
    problem: Any, promise: tuple[float, float, float], over: str, played: int | None, horizon: int | None
) -> dict[str, Callable[[], Any]]:
    epsilon, delta, rho = promise
    made: dict[str, Callable[[], Any]] = {}

    def plug_in(rule: str) -> Callable[[], Any]:
        usual: dict[str, Any] = {"over": over, "horizon": played}
        return lambda: PlugInPolicy(epsilon, delta, rho, rule=DEFAULT if rule == PUBLISHED else rule, **usual)

    for rule in _RULES:
        made[rule] = plug_in(rule)
    made[_PHASED] = lambda: ReplicablePhasedVI(epsilon, delta, rho)
    # Rows that are 2e off in l1 move values by e/(1 - gamma) each way, so this e keeps the loss below epsilon.
    gamma = max(problem.gamma, 1e-9)
    e = min(epsilon * (1.0 - gamma) / (2.0 * gamma), _LARGEST_MODEL_ERROR)
    made[_MODEL] = lambda: ReplicableApproximateMDP(e, delta, rho, norm="l1")
    made[_RMAX] = lambda: _rmax(promise, horizon)
    return made


def _rmax(promise: tuple[float, float, float], horizon: int | None) -> ReplicableRMax:
    if horizon is None:
        raise InvalidInput("compare: R-max plays episodes, so it needs their length, such as horizon=50.")
    return ReplicableRMax(*promise, horizon)
