"""The bounds of decisions at their edge, and hostile cuts.

    .venv/bin/python -m dev.benchmarks.proofs_decisions            # part of make bench
    .venv/bin/python -m dev.benchmarks.proofs_decisions --quick    # small, and printed only

The instances are those of `decision_edges`. Hostile cuts go through the package itself.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import replicable_rl as rr
from dev.benchmarks.decision_edges import Finding, Floats, Walk, first_within, instances, measure, mixing_walk
from replicable_rl.randomness import SharedRandomness
from replicable_rl.rules import Cuts, EmpiricalModel, PublishedCuts, Tuning
from replicable_rl.solve import source_of
from replicable_rl.theory.decisions import DOUBT, estimated_loss

INSTANCES, CUTS, SEED, MOST_ERRORS, LOOSEST = 100_000, 10_000, 2023, 4.8, 10.0


# --- hostile cuts -----------------------------------------------------------------------------------------------


class Hostile(NamedTuple):
    """What became of many runs that followed cuts of one kind."""

    kind: str
    runs: int
    followed: int  # the others found that the cuts cost too much
    on_the_model: float  # the largest loss on the own estimate
    loss: float  # the largest true loss


SPENT, DELTA, N_HOSTILE = 0.094, 0.05, 2000


def hostile(total: int, rng: np.random.Generator) -> tuple[list[Hostile], float, float]:
    """Let runs follow hostile cuts; return what became of them, the most that is granted, and the bound on the loss."""
    walk = mixing_walk(4, 3, 0.6, N_HOSTILE, 7)
    mdp = rr.TabularMDP.from_dense(walk.P, walk.r, gamma=walk.gamma, reward_range=(0.0, 1.0 - walk.gamma))
    kinds: dict[str, Callable[[Floats], Floats]] = {
        "random": lambda gap: np.asarray(rng.random(4) * 10.0 ** rng.uniform(-4, 0)),
        "all 0": lambda gap: np.zeros(4),
        "all huge": lambda gap: np.full(4, 1e300),
        "just beside gaps": lambda gap: np.maximum(
            gap[np.arange(4), rng.integers(3, size=4)] * (1.0 + rng.choice([-1e-15, 0.0, 1e-15])), 0.0
        ),
        "the worst that is affordable": lambda gap: np.empty(0),
    }
    found = [_hostile(kind, choose, walk, mdp, total // len(kinds), rng) for kind, choose in kinds.items()]
    granted = SPENT + DOUBT * walk.sizes.loss_deviation(N_HOSTILE)
    return found, granted, estimated_loss(walk.sizes, N_HOSTILE, granted, DELTA)


def _hostile(
    kind: str, choose: Callable[[Floats], Floats], walk: Walk, mdp: Any, runs: int, rng: np.random.Generator
) -> Hostile:
    followed, on_the_model, worst = 0, 0.0, 0.0
    best, algorithm = walk.q_true.max(axis=1), rr.PlugInPolicy(SPENT, DELTA, 0.5, samples=walk.n)
    source = source_of(mdp, algorithm)
    plan = algorithm.plan(source)
    for _ in range(runs):
        model = algorithm.estimate(source, plan, rng)[0]
        cuts = choose(model.gap)
        if not cuts.size:
            cuts = _worst_cuts(walk, model)
        published = Cuts(cuts, np.zeros(4, dtype=np.int64), np.zeros(4), (0, 1, 2), mdp.spec, SPENT, walk.n)
        decision = PublishedCuts(published).decide(
            model, SharedRandomness(int(rng.integers(2**32))), Tuning(SPENT, 0.0)
        )
        policy = np.asarray(decision.outputs["policy"])
        followed += "not followed" not in decision.said
        on_the_model = max(on_the_model, model.loss(policy))
        worst = max(worst, float(mdp.initial @ (best - walk.values(walk.P[None], policy)[0])))
    return Hostile(kind, runs, followed, on_the_model, worst)


def _worst_cuts(walk: Walk, model: EmpiricalModel) -> Floats:
    """Return the cuts that make the second run lose most in truth, by somebody who knows the truth and its data."""
    P = np.zeros((1, 4, 3, 4))
    rows = model.table.rows
    row = np.repeat(np.arange(12), np.diff(rows.indptr))
    np.add.at(P[0].reshape(12, 4), (row, rows.next_state), rows.probability)
    value, first = model.best.value, model.table.initial
    worst, chosen = -1.0, np.zeros(4)
    levels = [sorted({*gap.tolist()}) for gap in model.gap]
    for one in itertools.product(*levels):
        r = np.array(one)
        policy = first_within(model.gap.copy(), r[:, None])
        granted = SPENT + DOUBT * model.loss_deviation(policy)
        if float(first @ (value - walk.values(P, policy)[0])) > granted - 1e-9:
            continue
        lost = float(first @ (walk.q_true.max(axis=1) - walk.values(walk.P[None], policy)[0]))
        if lost > worst:
            worst, chosen = lost, r
    return chosen


# --- the page ---------------------------------------------------------------------------------------------------

_HEAD = """\
# Bounds of decisions against what happens

The proofs are in docs/proofs.md, with the letters of this table.

## At the edge

Every bound at the worst cases that we know, {instances} draws each. A bound on a mean stands beside the mean; a bound
that holds except with probability δ stands beside the value that was exceeded with probability δ. *Loose* says how many
times the bound is what happened: 1 is tight. A bound that is exceeded by more than chance explains, {errors} standard
errors, ends the command with an error, and so does one that comes within a factor of {loosest:g} in none of its cases.

| bound | instance | bound is | measured | loose |
|---|---|---:|---:|---:|
{edges}

## Hostile cuts

{cuts} runs on fresh data (4 states, 3 actions, γ = 0.6, n = {n} of every pair), each with cuts by somebody who means
harm and sees the data of the run. The rule may spend ε′ = {rule:g}, and grants the cuts the benefit of {doubt:g}
deviations, which is {spent:.3g} in all at most; the true loss is proved to be at most {bound:.3g}, except with
probability {delta:g}.

| cuts | runs | followed | largest loss on the own estimate | largest true loss |
|---|---:|---:|---:|---:|
{hostile}
"""


def page(edges: Sequence[Finding], cuts: Sequence[Hostile], spent: float, bound: float, size: int) -> str:
    """Return the tables as Markdown."""
    cells = [(one.about, one.name.replace("|", "\\|"), one.bound, one.measured, one.looseness) for one in edges]
    lines = [
        f"| {about} | {name} | {bound:.4g} | {seen:.4g} | {loose:.3g}× |" for about, name, bound, seen, loose in cells
    ]
    rows = [f"| {one.kind} | {one.runs} | {one.followed} | {one.on_the_model:.4f} | {one.loss:.4f} |" for one in cuts]
    return _HEAD.format(
        instances=size,
        errors=MOST_ERRORS,
        loosest=LOOSEST,
        edges="\n".join(lines),
        cuts=sum(one.runs for one in cuts),
        n=N_HOSTILE,
        rule=SPENT,
        doubt=DOUBT,
        spent=spent,
        bound=bound,
        delta=DELTA,
        hostile="\n".join(rows),
    )


def failures(edges: Sequence[Finding], cuts: Sequence[Hostile], spent: float, bound: float) -> list[str]:
    """Say what does not hold."""
    wrong = [f"{one.name}: {one.measured:.4g} exceeds {one.bound:.4g}" for one in edges if one.excess > MOST_ERRORS]
    for about in dict.fromkeys(one.about for one in edges):
        closest = min(one.looseness for one in edges if one.about == about)
        wrong += [f"{about}: {closest:.3g} times what happens, at best"] if closest > LOOSEST else []
    wrong += [
        f"cuts, {one.kind}: the loss on the model is {one.on_the_model:.4g}"
        for one in cuts
        if one.on_the_model > spent + 1e-9
    ]
    return wrong + [f"cuts, {one.kind}: the loss is {one.loss:.4g}" for one in cuts if one.loss > bound]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m dev.benchmarks.proofs_decisions", description="Bounds of decisions."
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of it")
    quick = parser.parse_args().quick
    size, total, rng = INSTANCES // (100 if quick else 1), CUTS // (100 if quick else 1), np.random.default_rng(SEED)
    edges = [measure(one, size, rng) for one in instances()]
    cuts, spent, bound = hostile(total, rng)
    text = page(edges, cuts, spent, bound, size)
    print(text)
    if wrong := failures(edges, cuts, spent, bound):
        raise SystemExit("A bound does not hold:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
