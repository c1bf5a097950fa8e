"""What to do about it: what sharing, ensembles and tolerances buy DQN, in agreement and in return.

    .venv/bin/python -m benchmarks.stable            # part of make bench; half an hour; writes docs/stable.json
    .venv/bin/python -m benchmarks.stable --quick    # small, and printed only

DQN of Stable-Baselines3 is trained on FrozenLake, CartPole and Taxi. Weights that are trained are kept in
results/stable: a command that was interrupted goes on where it stopped. The tables and the figure of docs/stable.md
are made of docs/stable.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

import replicable_rl as rr
from benchmarks import stable_page
from benchmarks.peers import absence, installed
from benchmarks.stable_agents import Trained, kept, q_function
from benchmarks.stable_games import Finite, Game, Played, Policy, games
from replicable_rl import plotting
from replicable_rl.files import write_text

ROOT = Path(__file__).resolve().parent.parent
DOCS, KEPT = ROOT / "docs", ROOT / "results" / "stable"
FOUND, PAGE, PICTURE = DOCS / "stable.json", DOCS / "stable.md", DOCS / "stable.svg"
PLAIN, SHARED = "plain", "shared"
CONFIDENCE = 0.95
Members = tuple[Trained, ...]
Values = NDArray[np.float64]
Decide = Callable[[Game, float, int], Callable[[list[Any]], Policy]]  # game, tolerance, shared seed


class Extent(NamedTuple):
    """How much is measured of a game: runs that share nothing, pairs of runs that share, and so on."""

    plain: int
    shared: int
    ensembles: Sequence[int]
    seeds: int  # of the decisions
    pairs: int  # of ensembles, at most


FULL = {
    "FrozenLake": Extent(20, 10, (3, 5), 8, 60),
    "CartPole": Extent(6, 3, (2,), 2, 12),
    "Taxi": Extent(8, 4, (3,), 6, 60),
}
QUICK = {"FrozenLake": Extent(3, 2, (), 1, 4)}


class Pair(NamedTuple):
    """Two agents to compare, each the mean of its members, and the units that they are made of."""

    one: Members
    two: Members
    units: frozenset[int]


# --- who is compared --------------------------------------------------------------------------


def arms(name: str, extent: Extent) -> dict[str, list[Pair]]:
    """Return the pairs of agents of every arm.

    A unit of the plain arms is a run, a unit of the shared ones is the two runs of a shared seed.
    """
    plain = [Trained(name, False, 0, i) for i in range(extent.plain)]
    both = [(Trained(name, True, i, 2 * i), Trained(name, True, i, 2 * i + 1)) for i in range(extent.shared)]
    found: dict[str, list[Pair]] = {}
    for size in (1, *extent.ensembles):
        of, most = ("", extent.plain**2) if size == 1 else (f" × {size}", extent.pairs)
        found[PLAIN + of] = [
            Pair(tuple(plain[i] for i in one), tuple(plain[i] for i in two), frozenset(one + two))
            for one, two in _some(_disjoint(extent.plain, size), most)
        ]
        found[SHARED + of] = [
            Pair(tuple(both[i][0] for i in each), tuple(both[i][1] for i in each), frozenset(each))
            for each in _some(combinations(range(extent.shared), size), most)
        ]
    return found


def _disjoint(units: int, size: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield all pairs of disjoint sets of so many units; of many, a random choice."""
    if size == 1:
        yield from (((i,), (j,)) for i, j in combinations(range(units), 2))
        return
    rng = np.random.default_rng(units)
    for _ in range(2000):
        both = rng.permutation(units)[: 2 * size].tolist()
        yield tuple(sorted(both[:size])), tuple(sorted(both[size:]))


def _some(candidates: Iterator[Any], most: int) -> list[Any]:
    """Return the candidates, or so many of them at random."""
    listed = list(dict.fromkeys(candidates))
    chosen = np.random.default_rng(most).permutation(len(listed))[:most]
    return [listed[i] for i in sorted(chosen.tolist())]


# --- what is measured -------------------------------------------------------------------------


class Estimated(NamedTuple):
    """An estimate with an interval."""

    estimate: float
    low: float
    high: float


def jackknifed(values: Values, units: Sequence[frozenset[int]], lowest: float, highest: float) -> Estimated:
    """Return the mean over pairs, and an interval from the means without each of the units.

    Pairs of the same runs depend on each other. By the inequality of Efron and Stein the variance that is found by
    leaving out one unit after the other is, on average, not too small.
    """
    mean, listed = float(values.mean()), sorted(frozenset().union(*units))
    without = [
        float(left.mean()) for i in listed if (left := values[[i not in each for each in units]]).size
    ]  # where a unit is in all pairs, nothing is left
    n = len(without)
    if n < 2:
        return Estimated(mean, lowest, highest)
    width = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * float(np.std(without)) * (n - 1) ** 0.5
    return Estimated(mean, max(lowest, mean - width), min(highest, mean + width))


class Table:
    """The agents of a game with one kind of decision, each played once."""

    def __init__(self, game: Game, agents: dict[Trained, Any], decide: Callable[[list[Any]], Policy]) -> None:
        self.game, self.agents, self.decide = game, agents, decide
        self._known: dict[Members, tuple[Policy, Played]] = {}

    def __getitem__(self, members: Members) -> tuple[Policy, Played]:
        """Return the policy of an ensemble and what came of it."""
        if members not in self._known:
            policy = self.decide([self.agents[one] for one in members])
            if isinstance(self.game.rules, Finite):  # asked once about all states
                actions = policy(np.arange(self.game.rules.first.size))
                policy = actions.__getitem__
            self._known[members] = policy, self.game.rules.play(policy)
        return self._known[members]

    def compare(self, pair: Pair) -> tuple[float, float, float, float]:
        """Return in which share of states and steps two agents act alike, whether in all, and what they earn."""
        (one, first), (two, second) = self[pair.one], self[pair.two]
        either = self.game.rules.union(first.visited, second.visited)
        states = one(either) == two(either)
        steps = [float(played.share[one(played.visited) == two(played.visited)].sum()) for played in (first, second)]
        earned = (first.earned + second.earned) / 2
        return float(states.mean()), (steps[0] + steps[1]) / 2, float(states.all()), earned


def compared(game: Game, agents: dict[Trained, Any], pairs: list[Pair], decisions: list[Any]) -> Values:
    """Return what a comparison says of every pair, (pairs, 4), averaged over decisions."""
    tables = [Table(game, agents, decide) for decide in decisions]
    values: Values = np.mean([[table.compare(pair) for pair in pairs] for table in tables], axis=0)
    return values


def summary(game: Game, pairs: list[Pair], values: Values, without: Values) -> dict[str, Any]:
    """Return estimates with intervals, also of what changes against the same pairs without a tolerance."""
    units, change = [pair.units for pair in pairs], values - without
    return {
        "alike": list(jackknifed(values[:, 0], units, 0.0, 1.0)),
        "alike_change": list(jackknifed(change[:, 0], units, -1.0, 1.0)),
        "steps": float(values[:, 1].mean()),
        "identical": float(values[:, 2].mean()),
        "return": list(jackknifed(values[:, 3], units, *game.returns)),
        "return_change": list(jackknifed(change[:, 3], units, -np.inf, np.inf)),
        "pairs": len(pairs),
        "units": len(frozenset().union(*units)),
    }


def stakes(game: Game, agents: dict[Trained, Any], pairs: list[Pair]) -> dict[str, float]:
    """Return how much worse the second-best action is, and how far two agents are apart about it: medians.

    Both are about the states that the first agent of a pair visits.
    """
    table = Table(game, agents, deciding(0.0, 0))
    gaps, apart = [], []
    for pair in pairs:
        visited = table[pair.one][1].visited
        one, two = (
            rr.StableDecisions([agents[each] for each in members], 0.0, shared_seed=0).gaps(visited)
            for members in (pair.one, pair.two)
        )
        second = np.arange(len(one)), np.argsort(one, axis=1)[:, 1]
        gaps.append(one[second])
        apart.append(np.abs(one[second] - two[second]))
    return {"gap": float(np.median(np.concatenate(gaps))), "apart": float(np.median(np.concatenate(apart)))}


def deciding(tolerance: float, seed: int, **options: Any) -> Callable[[list[Any]], Policy]:
    """Return what makes a policy of Q-functions."""
    return lambda q: rr.StableDecisions(q, tolerance, shared_seed=seed, **options)


def by_cell(game: Game, tolerance: float, seed: int) -> Callable[[list[Any]], Policy]:
    """Return the same with a choice for every cell of the game."""
    return deciding(tolerance, seed, cells=game.rules.cells)


def by_bins(game: Game, tolerance: float, seed: int) -> Callable[[list[Any]], Policy]:
    """Return the same with bins; without a width, there are none."""
    return deciding(tolerance, seed, rule="rounded" if tolerance else "tolerance")


VARIANTS: dict[str, Decide] = {stable_page.CELLS: by_cell, stable_page.BINS: by_bins}


def curve(game: Game, agents: dict[Trained, Any], pairs: list[Pair], decide: Decide, seeds: int) -> list[Any]:
    """Return what was found at every tolerance, averaged over so many shared seeds of the decisions."""
    every = [
        compared(game, agents, pairs, [decide(game, x, seed) for seed in range(seeds if x else 1)])
        for x in game.tolerances
    ]
    return [
        {"tolerance": x} | summary(game, pairs, values, every[0])
        for x, values in zip(game.tolerances, every, strict=True)
    ]


def found_of(name: str, game: Game, extent: Extent, keep: Path) -> dict[str, Any]:
    """Train what is not kept, and measure all arms of a game."""
    listed = arms(name, extent)
    needed = sorted({one for pairs in listed.values() for pair in pairs for one in pair.one + pair.two})
    needed.sort(key=lambda agent: agent.sample_seed)  # so that what is kept early is of all kinds
    agents = {}
    for i, agent in enumerate(needed):
        print(f"{name}: agent {i + 1} of {len(needed)}", flush=True)
        agents[agent] = q_function(game, kept(keep, game, agent))
    found: dict[str, Any] = {"steps": game.steps, "uniform": game.rules.play(None).earned}
    found |= {"arms": {}, "stakes": {}, "variants": {}}
    for arm, pairs in listed.items():
        print(f"{name}: {arm}", flush=True)
        found["stakes"][arm] = stakes(game, agents, pairs)
        found["arms"][arm] = curve(game, agents, pairs, lambda _, x, seed: deciding(x, seed), extent.seeds)
    for variant, made in VARIANTS.items():
        print(f"{name}: {variant}", flush=True)
        found["variants"][variant] = curve(game, agents, listed[PLAIN], made, extent.seeds)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Train, measure, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stable", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, and printed only")
    parser.add_argument("--render", action="store_true", help="only the page and the figure, from docs/stable.json")
    parser.add_argument("--keep", type=Path, default=KEPT, help="where trained weights are kept")
    options = parser.parse_args(arguments)
    if not (options.render or installed("stable_baselines3")):
        print(f"{absence('Stable-Baselines3')} docs/stable.md is left as it is.")
        return
    found: dict[str, Any] = {}
    if options.render:
        found = json.loads(FOUND.read_text(encoding="utf-8"))
    else:
        for name, extent in (QUICK if options.quick else FULL).items():
            game = games()[name]
            game = game._replace(steps=min(game.steps, 300), tolerances=game.tolerances[:3]) if options.quick else game
            with tempfile.TemporaryDirectory() if options.quick else nullcontext(options.keep) as keep:
                found[name] = found_of(name, game, extent, Path(keep))
    for line in stable_page.lines(found):
        print(line)
    if not options.quick:
        write_text(FOUND, json.dumps(found, indent=1) + "\n")
        write_text(PAGE, stable_page.page(PAGE.read_text(encoding="utf-8"), found))
        plotting.save_as(stable_page.draw(found), PICTURE)


if __name__ == "__main__":
    main()
