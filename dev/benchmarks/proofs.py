"""The bounds against what happens: Monte Carlo at the edge, and 100 000 runs of rPVI at the sharp sample size.

    .venv/bin/python -m dev.benchmarks.proofs            # part of make bench; one to two minutes
    .venv/bin/python -m dev.benchmarks.proofs --quick    # small, and printed only

*At the edge*: instances that come as close to a bound as we could make them (fair coins at exactly n, uniform rows,
rewards at the ends of their range). A bound that is exceeded by more than 4.8 standard errors ends the command with
an error: among all instances of the page that happens to a true bound with a probability below 1e-4.

*Runs*: on every problem the disagreement, with its upper end, must stay below rho, and the loss of every policy below
epsilon.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import replicable_rl as rr
from dev.benchmarks import proofs_rmax
from dev.benchmarks.proofs_rmax import Finding, Floats, Instance, Sampler, measure
from replicable_rl.theory.approximate_mdp import row_distance
from replicable_rl.theory.rstat import Form, mean_distance, rstat, seed_margin

INSTANCES, RUNS, SEED, MOST_ERRORS = 100_000, 100_000, 2023, 4.8
EPSILON, DELTA, RHO = 0.1, 0.001, 0.2


# --- at the edge --------------------------------------------------------------------------------------------


def instances() -> list[Instance]:
    """Return the instances of rSTAT, of models, of rPVI and of shared seeds; those of R-max are `proofs_rmax`'s."""
    return [*_queries(), *_distances(), *_margins(), *_models(), *_phased()]


def _queries() -> list[Instance]:
    """Answers of rSTAT at exactly n, for a fair coin and for a rare event."""
    found = []
    forms: tuple[tuple[Form, float], ...] = (("midpoint", 0.5), ("zero-preserving", 0.02))
    for form, p in forms:
        plan = rstat(RHO, 0.05, tolerance=0.1, form=form)
        name = f"rSTAT, {form}, p={p:g}, n={plan.samples}"
        found.append(Instance(f"{name}: two answers differ", RHO, _differ(plan.samples, p, plan.width)))
        off = _off(plan.samples, p, plan.width, plan.tolerance, keeps_zero=form == "zero-preserving")
        found.append(Instance(f"{name}: further than tau from the mean", 0.05, off))
    return found


def _differ(n: int, p: float, width: float) -> Sampler:
    def sampler(size: int, rng: np.random.Generator) -> Floats:
        offset = width * rng.random(size)
        one, two = (np.floor((rng.binomial(n, p, size) / n - offset) / width) for _ in range(2))
        return np.asarray(one != two, dtype=np.float64)

    return sampler


def _off(n: int, p: float, width: float, tau: float, *, keeps_zero: bool) -> Sampler:
    def sampler(size: int, rng: np.random.Generator) -> Floats:
        from replicable_rl.queries import rstat as rounded

        form: Any = "zero-preserving" if keeps_zero else "midpoint"
        answer = rounded(rng.binomial(n, p, size) / n, rng.random(size), width, form=form).answer
        return np.asarray(np.abs(answer - p) > tau, dtype=np.float64)

    return sampler


def _distances() -> list[Instance]:
    """The mean distance of two means, and of two rows."""

    def coins(n: int) -> Sampler:
        return lambda size, rng: np.abs(rng.binomial(n, 0.5, size) - rng.binomial(n, 0.5, size)) / n

    def rows(S: int, n: int) -> Sampler:
        law = np.full(S, 1.0 / S)
        return lambda size, rng: np.abs(rng.multinomial(n, law, size) - rng.multinomial(n, law, size)).sum(axis=1) / n

    found = [Instance(f"mean distance, fair coin, n={n}", mean_distance(n), coins(n)) for n in (1, 10, 10_000)]
    sizes = (2, 100), (8, 1000), (30, 1000)
    return found + [
        Instance(f"row distance, S={S} equal successors, n={n}", row_distance(S, n, known_rewards=True), rows(S, n))
        for S, n in sizes
    ]


def _margins() -> list[Instance]:
    """A second run beyond the margin of the first: at most delta, for one query."""

    def beyond(n: int, p: float, delta: float) -> Sampler:
        def sampler(size: int, rng: np.random.Generator) -> Floats:
            one, two = (rng.binomial(n, p, size) / n for _ in range(2))
            margin = seed_margin(one * (1.0 - one) * n / (n - 1), float(n), 1.0, math.log(3.0 / delta))
            return np.asarray(np.abs(one - two) > margin, dtype=np.float64)

        return sampler

    chances = (100, 0.5), (100, 0.02), (10_000, 0.5), (10_000, 0.001)
    return [Instance(f"margin of a seed, n={n}, p={p:g}", 0.3, beyond(n, p, 0.3)) for n, p in chances]


def _models() -> list[Instance]:
    """A whole model of uniform rows at exactly n: two runs learn different ones."""
    S, A, epsilon = 6, 2, 0.2
    plan = rr.theory.approximate_mdp(S, A, epsilon, 0.05, RHO)
    law = np.full(S, 1.0 / S)

    def differ(size: int, rng: np.random.Generator) -> Floats:
        offset = plan.width * rng.random((size, S * A, S))
        one, two = (
            np.floor((rng.multinomial(plan.calls, law, (size, S * A)) / plan.calls - offset) / plan.width)
            for _ in range(2)
        )
        return np.asarray((one != two).any(axis=(1, 2)), dtype=np.float64)

    name = f"ApproximateMDP, sharp, {S} equal successors, n={plan.calls}: two models differ"
    return [Instance(name, RHO, differ)]


def coins_mdp(coins: int, gamma: float) -> rr.TabularMDP:
    """Heaven, hell and coins between them: every query about a coin has the largest variance there is."""
    P = np.zeros((coins + 2, 1, coins + 2))
    P[0, 0, 0] = P[1, 0, 1] = 1.0
    P[2:, 0, :2] = 0.5
    return rr.TabularMDP.from_dense(P, np.eye(coins + 2)[:1].T, gamma=gamma)


class _Coins:
    """Pairs of runs of one algorithm on coins, made once for all questions about them."""

    def __init__(self, listed: bool) -> None:
        self.mdp, promise = coins_mdp(20, 0.5), (0.2, 0.05, RHO)
        paper = rr.theory.paper_phased_vi(self.mdp.n_states, self.mdp.gamma, *promise) if listed else {}
        self.algorithm = rr.ReplicablePhasedVI(*promise, **paper)
        self.plan, self.best = self.algorithm.plan(self.mdp), rr.optimal_values(self.mdp)
        self._runs: tuple[rr.Run, ...] = ()

    def runs(self, size: int, rng: np.random.Generator) -> tuple[rr.Run, ...]:
        """Return two runs for each of a tenth as many shared seeds."""
        if not self._runs:
            seed = int(rng.integers(2**32))
            self._runs = rr.audit(self.mdp, self.algorithm, shared_seeds=size // 10, seed=seed, n_jobs=2).runs
        return self._runs

    def differ(self, size: int, rng: np.random.Generator) -> Floats:
        """Whether two runs have different Q."""
        prints = np.array([run.fingerprints["value"] for run in self.runs(size, rng)])
        return np.asarray(prints[::2] != prints[1::2], dtype=np.float64)

    def off(self, size: int, rng: np.random.Generator) -> Floats:
        """Whether Q is further from the optimum than its bound."""
        errors = (np.abs(run.q - self.best.q).max() * (1.0 - self.mdp.gamma) for run in self.runs(size, rng))
        return np.fromiter((error > self.plan.numbers.value_error for error in errors), dtype=np.float64)


def _phased() -> list[Instance]:
    """Whole runs of rPVI on coins: two runs differ, and Q is off by more than it may."""
    found = []
    for listed in (False, True):
        coins = _Coins(listed)
        name = f"rPVI{', as listed' * listed}, 20 coins, {coins.plan.samples:.2g} samples"
        found.append(Instance(f"{name}: two runs differ", RHO, coins.differ))
        found.append(Instance(f"{name}: Q is off by more than its bound", 0.05, coins.off))
    return found


# --- runs at the sharp sample size ---------------------------------------------------------------------------


def problems() -> dict[str, rr.TabularMDP]:
    """Return the problems of the runs: what ships, larger ones of these, Gymnasium's, coins, and one of rewards."""
    ids = ("two-goals-v1", "two-goals-wide-v1", "riverswim-v1", "chain-v1", "garnet-v1", "machine-repair-v1")
    found = {id: rr.make(id) for id in ids}
    found["riverswim-v1:n_states=20"] = rr.make("riverswim-v1", n_states=20)
    for seed in (1, 2):
        found[f"garnet-v1:n_states=50,seed={seed}"] = rr.make("garnet-v1", n_states=50, seed=seed)
    found["FrozenLake-v1 (4x4)"] = rr.from_gymnasium("FrozenLake-v1", gamma=0.9)
    found["FrozenLake-v1 (8x8)"] = rr.from_gymnasium("FrozenLake-v1", gamma=0.9, map_name="8x8")
    found["CliffWalking-v1"] = rr.from_gymnasium("CliffWalking-v1", gamma=0.9)
    found["20 coins"] = coins_mdp(20, 0.9)
    arms = [[[(0.5, 0, 0.0), (0.5, 0, 1.0)], [(0.45, 0, 0.0), (0.55, 0, 1.0)]]]  # rewards at the ends of their range
    found["two noisy arms"] = rr.TabularMDP.from_outcomes(arms, gamma=0.9)
    return found


def runs_of(name: str, mdp: rr.TabularMDP, runs: int) -> dict[str, Any]:
    """Run one problem and return a row of the table."""
    algorithm = rr.ReplicablePhasedVI(EPSILON, DELTA, RHO)
    result = rr.audit(mdp, algorithm, shared_seeds=runs // 2, seed=SEED, n_jobs=2)
    found, known = result.agreement("value"), mdp.known_rewards is not None
    paper = rr.theory.paper_phased_vi(mdp.support.pairs, mdp.gamma, EPSILON, DELTA, RHO, known_rewards=known)
    drawn = max(run.samples or 0 for run in result.runs)
    return {
        "problem": name,
        "S": mdp.n_states,
        "A": mdp.n_actions,
        "runs": len(result.runs),
        "differ": found.pairs - found.same,
        "pairs": found.pairs,
        "at most": 1.0 - found.low,
        "worst loss": max(one.worst_loss + one.normalised_error for one in result.policies or ()),
        "samples": drawn,
        "fewer": mdp.support.pairs * paper["iterations"] * paper["calls"] / drawn,
        "seeds": sum(run.claims.of_this_seed is not None for run in result.runs) / len(result.runs),
    }


# --- the page ---------------------------------------------------------------------------------------------------

_HEAD = """\
# Bounds against what happens

The proofs are in docs/proofs.md and docs/proofs.md.

## At the edge

Every bound at the worst case that we know, {instances} draws each ({runs} pairs of runs for whole algorithms). *Loose*
says how many times the bound is what happened: 1 is tight. A mean that exceeds its bound by more than chance explains,
{errors} standard errors, ends the command with an error.

| instance | bound | measured | standard error | loose |
|---|---:|---:|---:|---:|
{edges}

## rPVI at the sharp sample size

{total} runs in all, ε = {epsilon:g}, δ = {delta:g}, ρ = {rho:g}, every run with fresh samples, two for every shared
seed. *At most* is the upper end of a 95 % interval for the disagreement, fixed beforehand: ρ = {rho:g} is what is
promised. The loss is that of the worst policy of all runs from the worst state, values in [0, 1]: ε = {epsilon:g} is
promised. *Fewer* is how many times the paper's listing would draw as much by the tight formula. *Good seeds* is the
share of the runs that could say of their shared seed that a second run has the same Q.

| problem | S | A | runs | pairs that differ | at most | worst loss | samples of a run | fewer | good seeds |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{table}
"""


def page(edges: Sequence[Finding], rows: Sequence[dict[str, Any]], size: int) -> str:
    """Return the tables as Markdown."""
    lines = [
        f"| {one.name} | {one.bound:.4g} | {one.mean:.4g} | {one.error:.1g} | {_times(one.looseness)} |"
        for one in edges
    ]
    table = [
        f"| {row['problem']} | {row['S']} | {row['A']} | {row['runs']} | {row['differ']} of {row['pairs']} "
        f"| {row['at most']:.4f} | {row['worst loss']:.4f} | {row['samples']:.1e} | {row['fewer']:.1e} "
        f"| {row['seeds']:.2f} |"
        for row in rows
    ]
    return _HEAD.format(
        instances=size,
        runs=size // 10,
        errors=MOST_ERRORS,
        edges="\n".join(lines),
        total=sum(row["runs"] for row in rows),
        epsilon=EPSILON,
        delta=DELTA,
        rho=RHO,
        table="\n".join(table),
    )


def _times(looseness: float) -> str:
    return "never seen" if math.isinf(looseness) else f"{looseness:.3g}×"


def failures(edges: Sequence[Finding], rows: Sequence[dict[str, Any]]) -> list[str]:
    """Say what does not hold."""
    wrong = [f"{one.name}: {one.mean:.4g} exceeds {one.bound:.4g}" for one in edges if one.excess > MOST_ERRORS]
    wrong += [f"{row['problem']}: disagreement up to {row['at most']:.3g}" for row in rows if row["at most"] >= RHO]
    return wrong + [f"{row['problem']}: loss {row['worst loss']:.3g}" for row in rows if row["worst loss"] > EPSILON]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m dev.benchmarks.proofs", description="Bounds against what happens.")
    parser.add_argument("--quick", action="store_true", help="a hundredth of it")
    quick = parser.parse_args().quick
    size, total, rng = INSTANCES // (100 if quick else 1), RUNS // (100 if quick else 1), np.random.default_rng(SEED)
    edges = [measure(one, size, rng) for one in [*instances(), *proofs_rmax.instances()]]
    share = 2 * math.ceil(total / (2 * len(problems())))
    rows = [runs_of(name, mdp, share) for name, mdp in problems().items()]
    text = page(edges, rows, size)
    print(text)
    if wrong := failures(edges, rows):
        raise SystemExit("A bound does not hold:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
