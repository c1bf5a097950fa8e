r"""What another log would have said: ``diagnose`` one log, by resampling it.

    another log    c'(s, a, s', r) ~ Poisson(scale * c(s, a, s', r))        first states likewise
    two halves     c' ~ binomial(c, 1/2),  c'' = c - c'

*Bootstrap.* Two logs are drawn from the log's counts and decide with one shared seed. (The Poisson form: the number of
rows is random, too, as it is where a log records behaviour.) How often they agree, A_1, is what two fresh logs would do
if the process were the one that was estimated; but that is off by the noise of a log. What such noise does to the
forecast can be seen: draw a log, and two logs from that one. These agree with a share A_2, and if one more round of
noise moves the forecast by A_2 - A_1, the first round moved it by about as much:

    forecast = A_1 - (A_2 - A_1) = 2 A_1 - A_2

(the bias correction of the bootstrap; simulation-extrapolation with one step).

*Halves.* Two disjoint halves of the log decide. Each row is in one of them by a coin, so they are two independent logs
of the true process, and how often they agree is right on average, ties or not; but it is about logs of half the size.
For the plain best action exact ties are all that matters in the end, and there the bootstrap is too high: its forecast
is never above that of the halves.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from replicable_rl.algorithms import PlugInPolicy
from replicable_rl.audit.agreement import Estimate, clopper_pearson
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.canonical import Json, to_json
from replicable_rl.diagnose.document import diagnosis_document
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, shown
from replicable_rl.logs import Dataset, Summary
from replicable_rl.planning import evaluate_policy
from replicable_rl.progress import bar, track
from replicable_rl.randomness import MAX_SEED, SharedRandomness, sample_stream
from replicable_rl.report import Block, Documented
from replicable_rl.rules import EmpiricalModel, Greedy
from replicable_rl.runs import Status, algorithm_spec
from replicable_rl.solve import solve
from replicable_rl.threads import Answer, Threads, result_of
from replicable_rl.wording import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Policies = tuple[NDArray[np.int64], ...]
    Rows = tuple[NDArray[np.int64], NDArray[np.int64] | None]  # of every outcome, and of every first state

_LARGEST = 100.0  # times the log: more data are never asked for
_SEARCHED = 100  # pairs of logs at most, at every size that is tried
_SOME, _CLEAR = 20, 4.0  # a search goes on after so many draws, if their mean is so many standard errors off
_FEW = 4.0  # as if so many more had been off by one: no interval is a point
_MOST_STATES = 1000  # fragile ones that are listed
_ROUNDING = 1e-9  # losses that are smaller are none: returns are not computed more exactly
_USUAL, _LEAST, _VERY_MANY = 200, 50, 100_000  # pairs of logs; outcomes of a log for which they are fewer
_MANY = 10_000  # outcomes of a log: with fewer, a decision is mostly Python


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
class Diagnosis(Documented):
    """What one log says, and what another one would have said.

    Its document tells what `data_needed` found, which takes long, once it was asked.

    Attributes
    ----------
    policy : (S,) integers
        What the log decides.
    agreement : Estimate
        The replication probability, forecast by the bootstrap: how often two logs of this size agree in every state.
        The interval is that of the resampling; `make bench` measures how far off forecasts are.
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
    needed: dict[float, int | None] = field(default_factory=dict, repr=False)  # rows, by the targets that were asked

    @bar()
    def data_needed(self, target: float = 0.95) -> int | None:
        """Return how many rows like these reach an agreement; None where 100 times as many do not.

        For the plain best action it is None too, unless this log is enough: more data never resolve an exact tie, and
        whether there is one, no log can tell.

        >>> import replicable_rl as rr
        >>> log = {"state": [0, 0, 1, 1] * 50, "action": [0, 1] * 100, "reward": [0, 1] * 100}
        >>> log["next_state"] = [1, 0] * 100
        >>> found = diagnose(rr.from_transitions(log, gamma=0.9), resamples=20)
        >>> found.data_needed(0.8)  # the log itself is enough
        200
        """
        target = check_in_open_interval("Diagnosis", "target", target)
        if target not in self.needed:
            times: float | None = 1.0
            if float(self.agreement) < target:
                forecast = Forecast(self.data, self.algorithm, min(self.resamples, _SEARCHED), self.seed)
                times = None if forecast.is_plain else forecast.times_needed(target)
            self.needed[target] = None if times is None else math.ceil(self.data.rows * times)
        return self.needed[target]

    def document(self) -> list[Block]:
        """Return what the log decides, how likely another log decides alike, and where not."""
        return diagnosis_document(self)

    def __repr__(self) -> str:
        return f"Diagnosis(agreement {self.agreement}, {plural(len(self.states), 'fragile state')})"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form, with what `data_needed` found once it was asked."""
        process = self.data.process
        actions = [process.action_names[a] for a in self.policy.tolist()]
        return {
            "format": "replicable-rl diagnosis",
            "version": 1,
            "problem": self.data.spec.to_json(),
            "algorithm": algorithm_spec(self.algorithm).to_json(),
            "sample": {"kind": "recorded", "digest": self.data.sample.digest},
            "summary": self.summary.to_json(),
            "policy": dict(zip(process.state_names, actions, strict=True)),
            "status": to_json(self.status),
            "agreement": self.agreement.to_json(),
            "halves": self.halves.to_json(),
            "states": [dict(state._asdict()) for state in self.states],
            "rows_needed": {f"{target:g}": rows for target, rows in self.needed.items()},
        }


@bar()
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
    if not isinstance(chosen, PlugInPolicy):
        rule = "algorithm must be a PlugInPolicy, which decides from one batch"
        raise InvalidInput(f"diagnose: {rule}, got {shown(algorithm)}.")
    if resamples is None:
        resamples = _USUAL if data.key.size <= _VERY_MANY else max(_LEAST, _USUAL * _VERY_MANY // data.key.size)
    resamples = check_integer("diagnose", "resamples", resamples, low=2, high=10**6)
    confidence = check_in_open_interval("diagnose", "confidence", confidence)
    shared_seed = check_integer("diagnose", "shared_seed", shared_seed, low=0, high=MAX_SEED)
    seed = check_integer("diagnose", "seed", seed, low=0, high=MAX_SEED)
    run = solve(data, chosen, shared_seed=shared_seed)
    forecast = Forecast(data, chosen, resamples, seed)
    agreement, halves = forecast.estimates(confidence)
    fragile, summary = tuple(_fragile(data, run.policy, forecast)), data.summary()
    return Diagnosis(
        data, chosen, run.policy, agreement, halves, fragile, summary, resamples, confidence, seed, run.status
    )


def _fragile(data: Dataset, policy: NDArray[np.int64], forecast: Forecast) -> Iterator[FragileState]:
    """Yield the states in which resampled logs differ, with what is at stake there."""
    model = EmpiricalModel(data, data.counts)
    states, names = data.process.state_names, data.process.action_names
    most = np.argsort(-forecast.differ, kind="stable")[:_MOST_STATES]
    worth = evaluate_policy(model.table, policy).expected_return
    for s in most[forecast.differ[most] > 0.0].tolist():
        taken = forecast.taken[s].copy()
        taken[policy[s]] = -1.0
        rival = int(taken.argmax())
        gap = float(abs(model.q[s, rival] - model.q[s, policy[s]]))
        other = policy.copy()
        other[s] = rival
        cost = worth - evaluate_policy(model.table, other).expected_return
        share = float(forecast.differ[s] / forecast.resamples)
        stake = cost if cost > _ROUNDING else 0.0
        yield FragileState(states[s], names[policy[s]], names[rival], share, gap, stake)


# --- resampled logs -----------------------------------------------------------------------------------------------


class Forecast:
    """Resampled logs, and what a plug-in policy decides on them: the same logs for every rule.

    ``differ`` is how often two logs differed in a state, and ``taken`` how often an action was taken there.
    """

    def __init__(self, data: Dataset, algorithm: PlugInPolicy, resamples: int, seed: int) -> None:
        self.data, self.algorithm, self.resamples, self.seed = data, algorithm, resamples, seed
        self.plan = algorithm.plan(data)
        self.is_plain = isinstance(algorithm.rule, Greedy)  # the plain best action, which exact ties make arbitrary
        self.differ = np.zeros(data.n_states)
        self.taken = np.zeros((data.n_states, data.n_actions))

    def decide(self, model: EmpiricalModel, shared: SharedRandomness) -> NDArray[np.int64]:
        """Return what a log decides."""
        policy: NDArray[np.int64] = self.algorithm.decide(model, self.plan, shared).decision.outputs["policy"]
        return policy

    def policies(self, what: str, scale: float = 1.0) -> Iterator[Policies]:
        """Yield what resampled logs decide with one shared seed.

        "logs": two drawn from the log, and two from one that was drawn from it. "halves": its halves.
        """
        from replicable_rl.compiled import THREADS

        data, rows = self.data, (self.data.count, self.data.starts)

        def decided(i: int) -> Policies:
            rng = sample_stream(derived_seed(f"diagnose/{what}", self.seed, i))
            shared = SharedRandomness(derived_seed(f"diagnose/shared/{what}", self.seed, i))
            drawn: tuple[Rows, ...]
            if what == "halves":
                drawn = halves(rows, rng)
            else:
                other = again(rows, rng)
                drawn = *(again(rows, rng, scale) for _ in range(2)), *(again(other, rng, scale) for _ in range(2))
            return tuple(self.decide(EmpiricalModel(data, data.counts_of(*log)), shared) for log in drawn)

        threads = THREADS if data.key.size >= _MANY else 1
        if threads < 2:
            yield from track(map(decided, range(self.resamples)), what, self.resamples)
            return
        waiting: deque[Answer] = deque()
        with Threads(threads) as others:  # who has seen enough does not wait for the rest
            for i in track(range(self.resamples), what):
                waiting.append(others.submit(decided, i))
                if len(waiting) > threads:
                    yield result_of(waiting.popleft())
            yield from map(result_of, waiting)

    def reaches(self, target: float, scale: float) -> bool:
        """Whether logs, so many times as large, agree often enough; no more are drawn than tell clearly.

        Both the forecast and A_2 must say so. Much larger logs see the process clearly, and what is not known is which
        process that is: A_2 asks a process that is as far from this log as this log may be from the true one.
        """
        draws: list[tuple[int, bool]] = []
        for policies in self.policies("logs", scale):
            draws.append((corrected(policies), alike(*policies[2:])))
            lowest = min(zip(*draws, strict=True), key=np.mean)
            off = abs(float(np.mean(lowest)) - target)
            if len(draws) >= _SOME and off > _CLEAR * _spread(list(lowest)):
                break
        return float(np.mean(draws, axis=0).min()) >= target - 1e-9  # of a mean that is rounded

    def times_needed(self, target: float) -> float | None:
        """Return how many times as large logs must be to agree so often; None where the largest do not."""
        low, high = 1.0, 4.0
        while not self.reaches(target, high):
            if high >= _LARGEST:
                return None
            low, high = high, min(4.0 * high, _LARGEST)
        for _ in range(4):  # to an eighth of a doubling
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.reaches(target, middle) else (middle, high)
        return high

    def estimates(self, confidence: float) -> tuple[Estimate, Estimate]:
        """Return the forecast, of the plain best action at most that of the halves, and how often halves agree.

        Also note where logs differ.
        """
        draws, everywhere = [], np.arange(self.data.n_states)
        for policies in self.policies("logs"):
            draws.append(corrected(policies))
            self.differ += policies[0] != policies[1]
            for policy in policies[:2]:
                self.taken[everywhere, policy] += 1.0
        same = sum(alike(*policies) for policies in self.policies("halves"))
        of_halves = Estimate(same / self.resamples, *clopper_pearson(same, self.resamples, confidence))
        forecast = extrapolated(draws, confidence)
        return of_halves if self.is_plain and float(forecast) > float(of_halves) else forecast, of_halves


def again(rows: Rows, rng: np.random.Generator, scale: float = 1.0) -> Rows:
    """Return another log with about ``scale`` times as many rows."""
    count, starts = rows
    if starts is not None and starts.sum():
        episodes = max(1, round(float(starts.sum()) * scale))
        starts = rng.multinomial(episodes, starts / starts.sum()).astype(np.int64)
    return rng.poisson(count * scale), starts


def halves(rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return two disjoint parts of the log, each row in one of them by a coin."""
    count, starts = rows
    one = rng.binomial(count, 0.5)
    return (one, starts), (count - one, starts)


def alike(one: NDArray[np.int64], two: NDArray[np.int64]) -> bool:
    """Whether two policies are the same."""
    return bool(np.array_equal(one, two))


def corrected(policies: Policies) -> int:
    """Return 2 [the first two agree] - [the other two agree], the forecast of one draw."""
    return 2 * alike(*policies[:2]) - alike(*policies[2:])


def extrapolated(draws: list[int], confidence: float) -> Estimate:
    """Return the mean of the draws, in [0, 1], with an interval by the normal law.

    >>> print(extrapolated([1, 1, 2, 0] * 25, 0.95))
    1.000 (0.859–1.000)
    """
    mean = min(1.0, max(0.0, float(np.mean(draws))))
    half = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * _spread(draws)
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half))


def _spread(draws: list[int]) -> float:
    """Return the standard error of a mean."""
    n = len(draws)
    return math.sqrt((float(np.var(draws)) * n + _FEW) / (n + _FEW) / n)
