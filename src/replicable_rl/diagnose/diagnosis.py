r"""What another log would have said: ``diagnose`` one log.

How it forecasts is in :mod:`replicable_rl.diagnose.forecast`; docs/diagnosis.md says how
right it is.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit.agreement import Estimate
from replicable_rl.diagnose.forecast import Forecast, corrected, extrapolated
from replicable_rl.diagnose.resampling import usual_resamples
from replicable_rl.diagnose.tail import times_for_the_next
from replicable_rl.display import Displayed
from replicable_rl.display import shown as shows
from replicable_rl.errors import InvalidInput, check_flag, check_in_open_interval, check_integer, shown
from replicable_rl.logs import Dataset, Summary
from replicable_rl.planning import evaluate_policy
from replicable_rl.progress import bar_where_it_is_seen
from replicable_rl.randomness import MAX_SEED
from replicable_rl.rules import SHIPPED, EmpiricalModel, Greedy
from replicable_rl.runs.specs import algorithm_spec
from replicable_rl.solve import solve
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.canonical import Json
    from replicable_rl.runs import Status

_LARGEST = 2**20  # times the log: more data are never asked for
_SEARCHED = 100  # pairs of logs at most, at every size that is tried
_MOST_STATES = 1000  # fragile ones that are listed
_ROUNDING = 1e-9  # losses that are smaller are none: returns are not computed more exactly
_RULES = ("affordable", "tolerance", "rounded", "gumbel", "greedy")


class FragileState(NamedTuple):
    """A state whose action another log may decide otherwise.

    ``share`` is how often two resampled logs differ there, ``rival`` the action that is taken most often instead,
    ``gap`` how far their values are apart, and ``at_stake`` what it costs from the first state on to take the rival
    there and to follow the policy elsewhere; both in values normalised to [0, 1].
    """

    state: str
    action: str
    rival: str
    share: float
    gap: float
    at_stake: float


@dataclass(frozen=True, eq=False)
class Diagnosis(Displayed):
    """What one log says, and what another one would have said.

    Attributes
    ----------
    policy : (S,) integers
        What the log decides.
    agreement : Estimate
        The replication probability, forecast by the bootstrap: how often two logs of this size agree in every state.
        The interval is that of the resampling; dev/benchmarks/forecasts.py measures how far off forecasts are.
    halves : Estimate
        How often two disjoint halves of the log agree: about logs of half the size.
    states : tuple of FragileState
        Where another log may decide otherwise, the most fragile first.
    summary : Summary
        What is in the log, and what is wrong with it.
    status : Status
        What the run says of itself: what it cost, which pairs had too few rows, whether the loss allowed asks for
        anything.
    """

    data: Dataset
    algorithm: PlugInPolicy
    policy: NDArray[np.int64]
    agreement: Estimate
    halves: Estimate
    states: tuple[FragileState, ...]
    summary: Summary
    resamples: int
    confidence: float
    seed: int
    status: Status | None = None
    _known: dict[float, int | None] = field(default_factory=dict, repr=False)

    def data_needed(self, target: float = 0.95) -> int | None:
        """Return how many rows like these reach an agreement; None where 10^6 times as many do not.

        For the plain best action it is None too, unless this log is enough: more data never resolve an exact tie, and
        whether there is one, no log can tell. Where the log reached some states hardly ever and others never, it is at
        least what the next of them takes.

        >>> import replicable_rl as rr
        >>> log = {"state": [0, 0, 1, 1] * 50, "action": [0, 1] * 100, "reward": [0, 1] * 100}
        >>> log["next_state"] = [1, 0] * 100
        >>> found = diagnose(rr.from_transitions(log, gamma=0.9), resamples=20)
        >>> found.data_needed(0.8)  # the log itself is enough
        200
        """
        target = check_in_open_interval("Diagnosis", "target", target)
        if target not in self._known:  # texts, pages and JSON all ask for it
            self._known[target] = self._data_needed(target)
        return self._known[target]

    @bar_where_it_is_seen()
    def _data_needed(self, target: float) -> int | None:
        forecast = Forecast(self.data, self.algorithm, min(self.resamples, _SEARCHED), self.seed)
        next_state = times_for_the_next(self.data, target)
        if float(self.agreement) >= target and next_state == 1.0:
            return self.data.rows
        if isinstance(self.algorithm.rule, Greedy):
            return None
        low, high = 1.0, 4.0
        while not forecast.reaches(target, high):
            low, high = high, 4.0 * high
            if high > _LARGEST:
                return None
        for _ in range(4):  # to an eighth of a doubling
            middle = math.sqrt(low * high)
            low, high = (low, middle) if forecast.reaches(target, middle) else (middle, high)
        return math.ceil(self.data.rows * max(high, next_state))

    def rules(self) -> dict[str, Estimate]:
        """Return the agreement that every rule would have today, by the bootstrap; all decide on the same logs."""
        return self._rules

    @functools.cached_property
    @bar_where_it_is_seen()
    def _rules(self) -> dict[str, Estimate]:
        others = {name: rule for name in _RULES if (rule := SHIPPED[name]()) != self.algorithm.rule}
        algorithms = (dataclasses.replace(self.algorithm, rule=rule) for rule in others.values())
        forecasts = [Forecast(self.data, algorithm, self.resamples, self.seed) for algorithm in algorithms]

        def all_rules(models: Any, shared: Any) -> list[int]:
            return [corrected(tuple(one.decide(model, shared) for model in models)) for one in forecasts]

        each = zip(*forecasts[0].each("logs", all_rules), strict=True)
        found = dict.fromkeys(_RULES, self.agreement)  # that of its own rule is known
        for name, forecast, seen in zip(others, forecasts, each, strict=True):
            found[name] = extrapolated(list(seen), self.confidence)
            if forecast.is_plain:
                found[name] = forecast.bounded(found[name], forecast.of_halves(self.confidence))
        return found

    def text(self, *, width: int = 80, target: float | None = None, rules: bool = False) -> str:
        """Return it as text; with how much data an agreement of ``target`` takes, and other rules, where asked for."""
        width = check_integer("Diagnosis.text", "width", width, low=1, high=10**4)
        target, rules = _target("Diagnosis.text", target), check_flag("Diagnosis.text", "rules", rules)
        said: str = shows("diagnosis text", self, width, target, rules)
        return said

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Diagnosis(agreement {self.agreement}, {plural(len(self.states), 'fragile state')})"

    def save_page(self, path: str | os.PathLike[str], *, target: float = 0.95, name: str = "a log") -> None:
        """Write it as one HTML file that opens without a server; ``name`` is what people call the log."""
        for what, value, kind in (("path", path, (str, os.PathLike)), ("name", name, str)):
            if not isinstance(value, kind):
                raise InvalidInput(f"Diagnosis.save_page: {what} must be a text, got {shown(value)}.")
        target = check_in_open_interval("Diagnosis.save_page", "target", target)
        shows("diagnosis page", self, path, target, name)

    def to_json(self, *, target: float | None = None, rules: bool = False) -> dict[str, Json]:
        """Return the JSON form; with the rows that an agreement of ``target`` takes, and other rules, if asked for."""
        names = self.data.process.action_names
        target, rules = _target("Diagnosis.to_json", target), check_flag("Diagnosis.to_json", "rules", rules)
        asked: dict[str, Json] = {}
        if target is not None:
            asked |= {"target": target, "rows_needed": self.data_needed(target)}
        if rules:
            asked["rules"] = {name: agreement.to_json() for name, agreement in self.rules().items()}
        each = zip(self.data.process.state_names, self.policy.tolist(), strict=True)
        policy: dict[str, Json] = {state: names[a] for state, a in each}
        return {
            "format": "replicable-rl diagnosis",
            "version": 1,
            "problem": self.data.spec.to_json(),
            "algorithm": algorithm_spec(self.algorithm).to_json(),
            "sample": {"kind": "recorded", "digest": self.data.sample.digest},
            "summary": self.summary.to_json(),
            "policy": policy,
            "status": None if self.status is None else self.status.to_json(),
            "agreement": self.agreement.to_json(),
            "halves": self.halves.to_json(),
            "states": [dict(one._asdict()) for one in self.states],
            "resamples": self.resamples,
            "confidence": self.confidence,
            "seed": str(self.seed),
            **asked,
        }


@bar_where_it_is_seen()
def diagnose(
    data: Dataset,
    algorithm: PlugInPolicy | None = None,
    *,
    shared_seed: int = 0,
    resamples: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Diagnosis:
    """Say what a log decides, and what another log of the same process would have decided.

    Parameters
    ----------
    data : Dataset
        From :func:`replicable_rl.from_transitions`.
    algorithm : PlugInPolicy, optional
        The default allows a loss of 0.05 (values normalised to [0, 1]) and takes the rule "affordable".
    shared_seed : int
        With which the log itself decides.
    resamples : int, optional
        Pairs of new logs, and splits into halves. None: 200, and fewer where a log has very many different outcomes,
        at least 50.
    confidence : float
        Of the intervals.
    seed : int
        What the resampling follows from.

    Examples
    --------
    >>> import replicable_rl as rr
    >>> log = {"state": [0, 0, 1, 1] * 50, "action": [0, 1] * 100, "reward": [0, 1] * 100, "next_state": [1, 0] * 100}
    >>> diagnose(rr.from_transitions(log, gamma=0.9), resamples=50).policy.tolist()
    [1, 1]
    """
    if not isinstance(data, Dataset):
        raise InvalidInput(f"diagnose: data must be a Dataset, as from_transitions returns it, got {shown(data)}.")
    chosen = PlugInPolicy(0.05, 0.05, 0.2) if algorithm is None else algorithm
    _refuse(chosen)
    many = usual_resamples(data.key.size) if resamples is None else resamples
    many = check_integer("diagnose", "resamples", many, low=2, high=10**6)
    confidence = check_in_open_interval("diagnose", "confidence", confidence)
    shared_seed = check_integer("diagnose", "shared_seed", shared_seed, low=0, high=MAX_SEED)
    seed = check_integer("diagnose", "seed", seed, low=0, high=MAX_SEED)
    run = solve(data, chosen, shared_seed=shared_seed)
    forecast = Forecast(data, chosen, many, seed)
    agreement, halves = forecast.estimates(confidence)
    fragile = tuple(_fragile(data, run.policy, forecast))
    return Diagnosis(
        data,
        chosen,
        run.policy,
        agreement,
        halves,
        fragile,
        data.summary(),
        many,
        confidence,
        seed,
        status=run.status,
    )


def _refuse(algorithm: Any) -> None:
    """Refuse what cannot be diagnosed on a log."""
    if not isinstance(algorithm, PlugInPolicy):
        raise InvalidInput(
            f"diagnose: algorithm must be a PlugInPolicy, which decides from one batch, got {shown(algorithm)}."
        )


def _fragile(data: Dataset, policy: NDArray[np.int64], forecast: Forecast) -> list[FragileState]:
    """Return the states in which resampled logs differ, with what is at stake there."""
    model = EmpiricalModel(data, data.counts)
    found, states, names = [], data.process.state_names, data.process.action_names
    most = np.argsort(-forecast.differ, kind="stable")[:_MOST_STATES]
    worth = evaluate_policy(model.table, policy).expected_return
    for s in most[forecast.differ[most] > 0.0].tolist():
        taken = forecast.taken[s].copy()
        taken[policy[s]] = -1.0
        rival = int(taken.argmax())
        gap = float(abs(model.q[s, rival] - model.q[s, policy[s]]))
        often = float(forecast.differ[s] / forecast.resamples)
        other = policy.copy()
        other[s] = rival
        cost = worth - evaluate_policy(model.table, other).expected_return
        cost = cost if cost > _ROUNDING else 0.0
        found.append(FragileState(states[s], names[policy[s]], names[rival], often, gap, cost))
    return found


def _target(owner: str, target: float | None) -> float | None:
    return None if target is None else check_in_open_interval(owner, "target", target)
