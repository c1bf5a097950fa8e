"""What the runs of an audit are worth, which claims they refute, and why their agreement may say nothing.

*Losses.* A promise has two sides: two runs agree except with probability rho, and each is within epsilon of the best
except with probability delta. An algorithm that always returns the same bad policy keeps the first and breaks the
second, so a verdict looks at both. Losses are exact where the problem is a table.

*Returns.* A training function says what a run is worth through ``evaluate=``: one number, or the returns of several
episodes, which are kept in the run's history. Returns have no bounds that anybody knows, so the intervals are
Student's t. They are *approximate*: they hold for normal means, and nearly for the means of many episodes. Runs of one
shared seed are not independent, so the interval of the mean rests on the shared seeds, each of which counts once.
Where there is one shared seed only, it rests on its runs, and is about this seed.

*Claims.* A claim says that something happens with at most some probability: that a run loses more than epsilon, or that
two runs differ. It is refuted where the interval that holds at every look lies above that. A run that failed, or claims
nothing, is not held against a claim. What is asymptotic says nothing of any run.

*Doubts.* An agreement of 1 is worth nothing if no data were fresh, or if the runs have learned nothing. Each doubt is a
sentence; they are shown before everything else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.agreement import Estimate, every_look
from replicable_rl.audit.evidence import AuditSpec, TrainingCode
from replicable_rl.canonical import Json
from replicable_rl.errors import InvalidInput
from replicable_rl.planning import evaluate_policy, gain, optimal_values
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import ALGORITHMS, build
from replicable_rl.runs import (
    CERTIFICATE,
    FIXED_SEED,
    THIS_SEED,
    Algorithm,
    Claim,
    PromisedLoss,
    Run,
    asks_for_nothing,
)
from replicable_rl.wording import number, sentence, short_repr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.audit.result import AuditResult

RETURNS = "measured return"  # of a run's history: the returns of its episodes
_ROUNDED = 1e-12
_JUDGED = ("proved", "stated")  # kinds of claims
_LARGE = 20_000  # states of a problem that is planned for its uniform policy


# --- losses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyValue:
    """What a distinct policy is worth, exactly, where the model is known.

    ``expected_return`` is from the problem's first states and ``loss`` what it lacks to the best;
    both are known to ``error``. ``worst_loss`` is the largest loss over first states, in values
    normalised to [0, 1], which is what a theorem's epsilon bounds; it is known to ``normalised_error``.
    """

    fingerprint: str
    runs: int
    expected_return: float
    loss: float
    worst_loss: float
    error: float
    normalised_error: float

    __repr__ = short_repr


def policy_values(
    mdp: TabularMDP, classes: Mapping[str, int], policies: Mapping[str, Any], span: float
) -> tuple[PolicyValue, ...]:
    """Return what each class of policies is worth; losses are normalised by ``span``."""
    best, values = optimal_values(mdp), []
    for fingerprint, runs in classes.items():
        worth = evaluate_policy(mdp, policies[fingerprint])
        lacking = np.maximum(best.value - worth.value, 0.0)
        loss, worst, error = float(mdp.initial @ lacking), float(lacking.max()) / span, best.error + worth.error
        values.append(PolicyValue(fingerprint, runs, worth.expected_return, loss, worst, error, error / span))
    return tuple(values)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How many runs keep the promise about their loss.

    Attributes
    ----------
    epsilon, delta : float
        The loss that is allowed, in values normalised to [0, 1], and the probability with which it may be larger.
    over : {"initial", "worst"}
        Whether the loss is that from the initial distribution, or from the worst state.
    kept, runs : int
        Runs that lose at most epsilon, of how many; one that failed does not.
    share : Estimate
        Their share, with an interval that holds at every look.
    """

    epsilon: float
    delta: float
    over: str
    kept: int
    runs: int
    share: Estimate

    __repr__ = short_repr

    @property
    def met(self) -> bool | None:
        """Whether the runs are as accurate as promised: False if that is refuted, None if more runs must tell."""
        if self.kept == self.runs:
            return True
        if self.share.high < 1.0 - self.delta:
            return False
        return True if float(self.share) >= 1.0 - self.delta else None


def promised_loss(spec: AuditSpec) -> PromisedLoss | None:
    """Return what an audit promises about losses: what was asked for, or what its algorithm says of itself."""
    return spec.evidence.promised or _loss_of_algorithm(spec)


def _loss_of_algorithm(spec: AuditSpec) -> PromisedLoss | None:
    """Return the loss that the algorithm of an audit promises; None where it promises none, or is not at hand."""
    algorithm: Algorithm | None = None if spec.job is None else spec.job.algorithm
    if spec.job is None and spec.algorithm.id in ALGORITHMS:
        try:
            algorithm = build(spec.algorithm)
        except InvalidInput:  # settings that it no longer takes
            return None
    return None if algorithm is None else algorithm.promised_loss


def measure_accuracy(
    promised: PromisedLoss, losses: Sequence[float | None], runs_per_seed: int, confidence: float
) -> Accuracy:
    """Return how many runs lose at most epsilon; losses are normalised, None for a run that failed.

    >>> accuracy = measure_accuracy(PromisedLoss(0.1, 0.05, "worst"), [0.0, 0.05, 0.2, None], 2, 0.95)
    >>> accuracy.kept, accuracy.runs, accuracy.met
    (2, 4, None)
    """
    kept: NDArray[np.float64] = np.array([float(loss is not None and loss <= promised.epsilon) for loss in losses])
    unknown = np.array([loss is None for loss in losses])
    low, high = (values.reshape(-1, runs_per_seed).mean(axis=1) for values in (kept, np.maximum(kept, unknown)))
    return Accuracy(*promised, int(kept.sum()), kept.size, every_look(low, confidence, high))


def empty_promise(result: AuditResult) -> str:
    """Say that the loss that is promised, or claimed, is no less than what can be gained; '' where it is, or may be."""
    promised = promised_loss(result.spec)
    if promised is not None and result.mdp is not None:
        gained = gain(result.mdp)
        return f"ε = {promised.epsilon:g} {asks_for_nothing(gained)}." if promised.epsilon >= gained else ""
    gains = [run.claims.gain for run in result.runs if run.claims.gain is not None]
    return f"A run says: ε {asks_for_nothing(gains[0])}." if gains else ""


# --- returns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Returns:
    """The returns of the runs of an audit, as they were measured.

    Attributes
    ----------
    mean : Estimate
        Over all runs, with an approximate interval (Student's t over the shared seeds).
    per_run : tuple of float or None
        The mean over the episodes of every run, in the order of ``result.runs``; None for one that failed.
    uniform : Estimate or None
        What the uniform policy earns, where that is known.
    """

    mean: Estimate
    per_run: tuple[float | None, ...]
    uniform: Estimate | None = None

    __repr__ = short_repr

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form; ends of an interval that nobody knows are null."""
        mean = {name: value if math.isfinite(value) else None for name, value in self.mean.to_json().items()}
        uniform = None if self.uniform is None else self.uniform.to_json()
        return {"mean": mean, "per_run": list(self.per_run), "uniform": uniform}


def measure_returns(runs: Sequence[Run], spec: AuditSpec) -> Returns | None:
    """Return what the runs earned; None where nobody measured it."""
    means = np.array([np.mean(run.history[RETURNS]) if RETURNS in run.history else np.nan for run in runs])
    known = ~np.isnan(means)
    if not known.any():
        return None
    groups, uniform = means.reshape(-1, spec.runs_per_seed), None
    if isinstance(spec.evidence, TrainingCode) and spec.evidence.uniform is not None:
        mean, half = spec.evidence.uniform, spec.evidence.uniform_error * _quantile(10**9, spec.confidence)
        uniform = Estimate(mean, mean - half, mean + half)  # of very many episodes
    whole = ~np.isnan(groups).all(axis=1)
    return Returns(
        mean_with_interval(np.nanmean(groups[whole], axis=1) if len(groups) > 1 else means[known], spec.confidence),
        tuple(float(mean) if is_known else None for mean, is_known in zip(means, known, strict=True)),
        uniform,
    )


def mean_with_interval(values: NDArray[np.float64], confidence: float) -> Estimate:
    """Return the mean of independent values with Student's interval, which is approximate; infinite for one value.

    >>> print(mean_with_interval(np.array([1.0, 2.0, 3.0]), 0.95))
    2.000 (-0.484–4.484)
    """
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.inf
    half = error * _quantile(values.size - 1, confidence) if values.size > 1 else math.inf
    return Estimate(mean, mean - half, mean + half)


def _quantile(degrees: int, confidence: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1.0 - (1.0 - confidence) / 2.0))


# --- claims -------------------------------------------------------------------------------------------------------


def refutations(result: AuditResult) -> Iterator[str]:
    """Yield a sentence for every claim that the runs refute; of one that differs by run, the most cautious is shown."""
    claims: dict[tuple[str, str, str | None], dict[int, Claim]] = defaultdict(dict)
    for i, run in enumerate(result.runs):
        for claim in run.claims:
            level = claim.level or ("policy" if claim.about == "accuracy" else result.level)
            claims[claim.about, level, claim.definition][i] = claim
    for (about, level, definition), by_run in claims.items():
        if about == "accuracy":
            share = _lose(result, level, by_run)
        else:
            share = _differ(result, level, by_run if definition in (THIS_SEED, CERTIFICATE) else None)
        # Where a run claims more than another, together they claim their mean.
        allowed = np.mean([claim.failure if about == "accuracy" else claim.bound for claim in by_run.values()])
        judged = all(claim.kind in _JUDGED for claim in by_run.values())
        if share is not None and judged and share.low > allowed:
            cautious = max(by_run.values(), key=lambda claim: (claim.failure, claim.bound))
            happened = "Runs are further off" if about == "accuracy" else "Two runs differ"
            fails = ", or its condition fails" if set(cautious.conditions) - {FIXED_SEED} else ""
            allows = f"it allows {allowed:g}."
            yield f"This claim is refuted{fails}: {cautious} {happened} in {share} of the cases; {allows}"


def _differ(result: AuditResult, level: str, claims: Mapping[int, Claim] | None) -> Estimate | None:
    """Return how often two runs differ at a level, and the first has claimed that they do not; None if nobody knows."""
    if level not in result.levels or result.evidence.differ:
        return None
    if claims is None:
        same = result.agreement(level).every_look
        return Estimate(1.0 - same, 1.0 - same.high, 1.0 - same.low)
    prints, R = result.prints(level), result.spec.runs_per_seed
    wrong = np.zeros(len(prints) // R)
    for i in claims:
        wrong[i // R] += sum(output not in (None, prints[i]) for output in prints[i - i % R : i - i % R + R])
    return every_look(wrong / (R * (R - 1)), result.spec.confidence)


def _lose(result: AuditResult, level: str, claims: Mapping[int, Claim]) -> Estimate | None:
    """Return how often a run is further off than it claims; None where nobody knows."""
    if result.mdp is None or level not in result.levels:
        return None
    if level == "policy" and result.policies is not None:
        promised = _loss_of_algorithm(result.spec)
        worst = promised is not None and promised.over == "worst"
        off = {
            policy.fingerprint: (policy.worst_loss if worst else policy.loss / result.span) - policy.normalised_error
            for policy in result.policies
        }
    elif level == "value":
        off = {output: _error(result.mdp, q) / result.span for output, q in result.outputs("value").items()}
    else:
        return None
    prints = (run.fingerprints.get(level, "") for run in result.runs)
    further = [i in claims and off.get(output, 0.0) > claims[i].bound for i, output in enumerate(prints)]
    per_seed = np.array(further, dtype=np.float64).reshape(-1, result.spec.runs_per_seed).mean(axis=1)
    return every_look(per_seed, result.spec.confidence)


def _error(mdp: TabularMDP, q: NDArray[np.float64]) -> float:
    """Return how far off action values are at least, where an action is allowed; 0 for those of another problem."""
    best = optimal_values(mdp)
    if q.shape != best.q.shape:
        return 0.0
    return float(np.abs(q - best.q)[mdp.allowed].max()) - best.error


# --- doubts -------------------------------------------------------------------------------------------------------


def doubts(result: AuditResult) -> Iterator[str]:
    """Yield what there is to doubt, the gravest first."""
    yield from filter(None, (_not_repeatable(result), result.unsampled, _no_better(result)))


def nothing_fresh(result: AuditResult) -> str:
    """Return why nothing was fresh in any run; '' where something was, or may have been."""
    runs = [run for run in result.runs if run.error is None]
    nothing_drawn = bool(runs) and all(run.samples == 0 for run in runs)  # None: nobody knows
    return "no run drew a sample" if nothing_drawn else result.evidence.stale


def unsampled(result: AuditResult) -> str:
    """Say that nothing was fresh, so that no agreement is shown; '' where something was, or may have been."""
    why = nothing_fresh(result)
    return f"Nothing was fresh, for {why}: agreement says nothing about other samples here." if why else ""


def unrepeated(result: AuditResult) -> str:
    """Say that a run came out otherwise when it was made again, or that none was; '' where they came out the same."""
    runs = {run.key: run for run in result.runs}
    for repeat in result.repeats:
        if repeat.same is False and repeat.run in runs:
            run = runs[repeat.run]
            which = repeat.why or f"shared seed {run.shared_seed}, {result.evidence.sample_of(run)}"
            return (
                "The same seeds gave other results: a run was made again, in a fresh process, and came out otherwise "
                f"({which}). The code keeps something from earlier calls, or depends on what has no seed, such as "
                "threads, a GPU or the clock. So agreement is neither shown nor refuted."
            )
    if not result.spec.foreign or not runs or any(repeat.run in runs for repeat in result.repeats):
        return ""
    return (
        "No run was made again in a fresh process, so nobody knows whether the code keeps something from earlier "
        "calls. The same audit does it when it has made all runs."
    )


def _not_repeatable(result: AuditResult) -> str:
    """Say why no run could be made again; '' where one could, or none had to be."""
    keys = {run.key for run in result.runs}
    repeats = [repeat for repeat in result.repeats if repeat.run in keys]
    if not repeats or any(repeat.same is not None for repeat in repeats):
        return ""
    return (
        f"No run could be made again in a fresh process ({sentence(repeats[0].why)}), so nobody knows whether the code "
        "keeps something from earlier calls."
    )


def _no_better(result: AuditResult) -> str:
    """Say that the runs earn no more than the uniform policy: exactly where the problem is known, or as measured."""
    measured = result.returns
    if measured is not None and measured.uniform is not None:
        mean, uniform = float(measured.mean), float(measured.uniform)
        half = math.hypot(mean - measured.mean.low, measured.uniform.high - uniform)
        rounding = _ROUNDED * max(abs(mean), abs(uniform))  # a mean of equal returns need not be that return
        if mean - uniform <= half + rounding:
            how = "are no better than" if mean <= uniform else "are not shown to be better than"
            return f"The returns {how} those of the uniform policy: {number(mean)} against {number(uniform)}."
    if result.mdp is None or result.mdp.n_states > _LARGE or result.policies is None:
        return ""
    policy = evaluate_policy(result.mdp, result.mdp.support.uniform())
    best = float(result.mdp.initial @ optimal_values(result.mdp).value)
    returns = [value.expected_return for value in result.policies]
    average = float(np.average(returns, weights=[value.runs for value in result.policies]))
    off = policy.error + max(value.error for value in result.policies)
    if average > policy.expected_return + off or best <= policy.expected_return + 2.0 * off:
        return ""  # better, or there is nothing to be learned
    start = "The policies are no better than the uniform one: they return"
    return f"{start} {number(average)} on average, and it returns {number(policy.expected_return)}."
