"""The parts of experiments: exact intervals, crossings, goals, designs, verdicts, and honest looks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial

import replicable_rl as rr
from replicable_rl.audit import AuditResult
from replicable_rl.experiments import estimates
from replicable_rl.experiments.catalogue import cost, figure1, figure2, levels
from replicable_rl.experiments.experiment import (
    CANNOT_TELL,
    GROWTH,
    HELD,
    LOOKS,
    NOT_HELD,
    Data,
    Experiment,
    Row,
    Scale,
    Study,
    Verdict,
)
from replicable_rl.experiments.reproduction import chosen, experiments, reproduce
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec

UP, DOWN, LEFT, RIGHT = range(4)


# --- intervals of shares under one shared seed --------------------------------------------------


def compositions(runs: int, classes: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(runs + classes - 1), classes - 1):
        yield tuple(b - a - 1 for a, b in itertools.pairwise((-1, *cuts, runs + classes - 1)))


LAWS = [(1.0, 0.0, 0.0), (0.8, 0.1, 0.1), (0.5, 0.5, 0.0), (0.4, 0.35, 0.25), (0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3)]


@pytest.mark.parametrize("law", LAWS)
def test_intervals_of_shares_hold_exactly(law: tuple[float, ...]) -> None:
    """The probability, over all samples, that each interval holds the truth."""
    runs, confidence = 14, 0.9
    expected = sum(1.0 - (1.0 - p) ** runs for p in law) / runs
    hits = [0.0, 0.0]
    for counts in compositions(runs, 3):
        probability = float(multinomial.pmf(counts, runs, law))
        modal = estimates.modal_share(max(counts), runs, confidence)
        unique = estimates.unique_share(sum(count > 0 for count in counts), runs, confidence)
        for i, (row, name, truth) in enumerate([(modal, "modal_share", max(law)), (unique, "unique_share", expected)]):
            hits[i] += probability * (row[f"{name}_low"] - 1e-9 <= truth <= row[f"{name}_high"] + 1e-9)
    assert min(hits) >= confidence


@given(st.integers(1, 40), st.integers(0, 200))
def test_intervals_of_shares_hold_the_estimate(count: int, others: int) -> None:
    modal, unique = estimates.modal_share(count, count + others), estimates.unique_share(count, count + others)
    assert 0.0 <= modal["modal_share_low"] <= modal["modal_share"] <= modal["modal_share_high"] <= 1.0
    assert 0.0 <= unique["unique_share_low"] <= unique["unique_share"] <= unique["unique_share_high"] <= 1.0


def test_unique_shares_of_more_runs_are_means_over_batches() -> None:
    """Twice as many runs of one law have the same unique share in expectation, and a narrower interval."""
    once, twice = (estimates.shares(list("aabc") * n, batch=4) for n in (1, 8))
    assert once["unique_share"] == twice["unique_share"] == 0.75
    assert once["classes"] == twice["classes"] == 3
    widths = [row["unique_share_high"] - row["unique_share_low"] for row in (once, twice)]
    assert widths[1] < widths[0]


# --- where agreement passes a target ------------------------------------------------------------


def test_crossing_has_its_confidence() -> None:
    """Agreement m/(m + 25) passes 0.8 at m = 100: 300 intervals of 0.8 miss it at most 60 times, and 4 deviations."""
    rng, sizes, misses = np.random.default_rng(5), [10, 30, 90, 110, 300, 1000], 0
    for _ in range(300):
        counts = [(int(rng.binomial(60, m / (m + 25.0))), 60) for m in sizes]
        row = estimates.crossing("m", sizes, counts, 0.8, 0.8)
        misses += not ((row["m_low"] or 0.0) <= 100.0 <= (row["m_high"] or math.inf))
    assert misses <= 60 + 28


@pytest.mark.parametrize(
    ("same", "expected"), [([1, 2], (None, 10.0, None)), ([99, 100], (None, None, 1.0)), ([0, 100], (6.31, 1.0, 10.0))]
)
def test_crossings_inside_and_beyond_the_sizes(same: list[int], expected: tuple[Any, ...]) -> None:
    row = estimates.crossing("m", [1.0, 10.0], [(count, 100) for count in same], 0.8, 0.95)
    assert tuple(value and round(value, 2) for value in row.values()) == expected


def test_slopes_of_power_laws() -> None:
    rows: list[Row] = [
        {"pairs_sa": n, "measured": 7.0 * n**1.5, "measured_low": 6.0 * n**1.5, "measured_high": 8.0 * n**1.5}
        for n in (10, 30, 100)
    ]
    row = cost.slope(rows)
    steeper = math.log(8.0 / 6.0) / math.log(10.0)  # the two outer points alone decide how steep a line can be
    assert row["slope"] == pytest.approx(1.5)
    assert (row["slope_low"], row["slope_high"]) == pytest.approx((1.5 - steeper, 1.5 + steeper), abs=0.02)
    assert cost.slope([{**rows[0], "measured_low": None}, *rows[1:]])["slope_high"] is None
    assert cost.slope(rows[:1])["slope"] is None


def test_crossings_of_all_grids_hold_at_once() -> None:
    """89 of 100 pairs show that a size is enough by itself, and not for five grids at once."""
    points: list[Row] = [
        {"pairs_sa": 32, "calls": calls, "same": same, "pairs": 100} for calls, same in ((10.0, 20), (100.0, 92))
    ]
    alone = estimates.crossing("m", [10.0, 100.0], [(20, 100), (92, 100)], 0.8)
    assert (alone["m_low"], alone["m_high"]) == (10.0, 100.0)
    needed = cost.needed_on("a", points, 0.9)
    assert (needed["measured_low"], needed["measured_high"]) == (10.0, None)


# --- exact probabilities of ending in a goal -----------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "left"), [("G.S.G", 0.5), ("GS..G", 0.75), ("G...S.G", 1 / 3), ("GS......G", 7 / 8)]
)
def test_gambler_s_ruin(layout: str, left: float) -> None:
    """Up in a corridor stays, or slips to either side alike: a fair game, of which the odds are known by hand."""
    mdp = rr.make("gridworld-v1", layout=layout, slip=0.3)
    ends = figure1.goal_probabilities(mdp, np.full(mdp.n_states, UP))
    assert ends == pytest.approx((left, 1.0 - left), abs=1e-12)


def test_games_by_hand() -> None:
    """On a plus-shaped map, from above and below down and up return to the start; in circles nobody ends."""
    mdp = rr.make("gridworld-v1", layout="#.#/GSG/#.#", slip=0.4)  # states: above, left goal, start, right goal, below
    policy = np.array([DOWN, UP, LEFT, UP, UP])
    assert figure1.goal_probabilities(mdp, policy) == pytest.approx((1.0, 0.0), abs=1e-12)
    policy[2] = UP  # 0.6 above, which returns; 0.2 left goal, 0.2 right goal
    assert figure1.goal_probabilities(mdp, policy) == pytest.approx((0.5, 0.5), abs=1e-12)
    circle = np.array([0, LEFT, RIGHT, LEFT, 0])
    assert figure1.goal_probabilities(rr.make("gridworld-v1", layout="G.S.G", slip=0.0), circle) == (0.0, 0.0)


# --- designs -------------------------------------------------------------------------------------


def test_figure1_gives_both_algorithms_the_same_samples() -> None:
    studies = figure1.EXPERIMENT.design(Scale())
    for plain, rpvi in zip(studies[::2], studies[1::2], strict=True):
        seeds = [[(run.shared_seed, run.sample_seed) for run in study.audit.runs] for study in (plain, rpvi)]
        assert seeds[0] == seeds[1]
        assert plain.audit.algorithm.params["calls"] == rpvi.audit.algorithm.params["calls"]
        numbers: Any = rr.plan(build(rpvi.audit.problem), build(rpvi.audit.algorithm)).numbers
        assert numbers.calls == numbers.calls_needed, "what the theorem asks for"


def test_figure2_is_the_paper_s_experiment_and_leads_with_the_wide_grid() -> None:
    studies = figure2.EXPERIMENT.design(Scale())
    assert studies[0].point["problem"] == "two-goals-wide-v1"
    assert {(study.audit.runs_per_seed, study.audit.shared_seeds) for study in studies[::2]} == {(150, (2023,))}
    for study in studies:
        params = study.audit.algorithm.params
        assert (params["epsilon"], params["delta"], params["rho"]) == (0.02, 0.001, 0.2)
        assert params["calls"] == 13_000 * study.point["multiple"]


@pytest.mark.parametrize("name", experiments())
def test_designs_build_and_a_quick_one_is_smaller(name: str) -> None:
    full, quick = (experiments()[name].design(Scale(quick=quick)) for quick in (False, True))
    assert len({study.audit for study in full}) == len(full)
    runs = [sum(study.audit.size for study in studies) for studies in (full, quick)]
    assert runs[1] <= runs[0] / 4 or name == "figure1"


def test_pillars_grow_out_of_the_two_goals_grid() -> None:
    maps = [cost.pillars(*size) for size in cost.GRIDS]
    assert maps[0] == "/".join(rr.make("two-goals-v1").labels.layout or ())
    sizes = [rr.make("gridworld-v1", layout=layout).n_states for layout in maps]
    assert sizes == sorted(sizes)


def test_scales_and_names() -> None:
    assert (Scale().runs, Scale().pairs) == (150, 100)
    assert Scale(quick=True).some((1, 2, 3, 4)) == (2, 4)
    assert chosen([]) == list(experiments().values())
    with pytest.raises(rr.InvalidInput, match="'figure22'"):
        chosen(["figure1", "figure22"])


# --- verdicts on made-up data ----------------------------------------------------------------------


def curves(shares: Sequence[Sequence[float]], width: float) -> Data:
    """Curves of Figure 2: for each rho_SQ the same share of every kind at x1 and x1000, with intervals around it."""
    rows: list[Row] = []
    for rho_sq, curve in zip((0.01, 0.9), shares, strict=True):
        for multiple, share in zip((1, 1000), curve, strict=True):
            row: Row = {"problem": "two-goals-v1", "rho_sq": rho_sq, "multiple": multiple}
            for name in ("modal_share", "unique_share", "agreement"):
                row |= estimates.columns(name, share, max(0.0, share - width), min(1.0, share + width))
            rows.append(row)
    return Data({"points": rows})


@pytest.mark.parametrize(
    ("shares", "width", "expected"),
    [
        ([[0.3, 1.0], [0.7, 1.0]], 0.02, [HELD, HELD, NOT_HELD, NOT_HELD, HELD, NOT_HELD]),
        ([[0.7, 1.0], [0.3, 1.0]], 0.02, [HELD, HELD, NOT_HELD, NOT_HELD, HELD, HELD]),
        ([[0.3, 0.7], [0.3, 0.5]], 0.05, [NOT_HELD, CANNOT_TELL, NOT_HELD, CANNOT_TELL, NOT_HELD, HELD]),
        ([[0.3, 0.8], [0.3, 0.8]], 0.3, [CANNOT_TELL] * 6),
    ],
)
def test_verdicts_on_figure2(shares: Any, width: float, expected: list[str]) -> None:
    verdicts = figure2.EXPERIMENT.verdicts(curves(shares, width))
    assert [judged.verdict for judged in verdicts] == expected
    for judged in verdicts:
        assert judged.verdict != CANNOT_TELL or judged.rests_on, "an open verdict says where more runs help"


def test_cheaper_levels_are_judged_by_what_is_shown() -> None:
    """Enough for values is too few for models, the other way round, and intervals that overlap."""
    expected = {(2.0, 3.0): HELD, (0.5, 0.6): NOT_HELD, (0.5, 3.0): CANNOT_TELL}
    for (low, high), verdict in expected.items():
        needed = [
            {"problem": grid, "algorithm": algorithm, "level": level} | estimates.columns("samples", 1.0, *ends)
            for grid in levels.GRIDS
            for algorithm, level, ends in ((levels.VALUE, "value", (0.7, 1.0)), (levels.MODEL, "model", (low, high)))
        ]
        data = Data({"needed": needed, "agreement": []})
        assert levels._cheaper(data, levels.GRIDS[0]).verdict == verdict


# --- looks ---------------------------------------------------------------------------------------


def test_an_agreement_at_the_target_is_seldom_decided_however_often_we_look() -> None:
    """2000 points whose agreement is the target: at most 5 % are ever decided, and three deviations."""
    rng, target, decided = np.random.default_rng(7), 0.8, 0
    for _ in range(2000):
        same = pairs = 0
        for look in range(LOOKS):
            more = 100 * GROWTH**look - pairs
            same, pairs = same + int(rng.binomial(more, target)), pairs + more
            row = estimates.proportion("agreement", same, pairs)
            if not row["agreement_low"] <= target <= row["agreement_high"]:
                decided += 1
                break
    assert decided <= 100 + 30


def test_only_points_of_open_verdicts_are_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two points: an open verdict rests on the second; a third look would, and a decided verdict does not, go on."""
    seen: list[list[int]] = []

    class Mine(Experiment):
        """A title."""

        order, caption = 1, ""

        def design(self, scale: Scale) -> list[Study]:
            algorithm = ObjectSpec("phased-vi-v1", {"epsilon": 0.2, "delta": 0.05, "calls": 5, "iterations": 3})
            return [Study.of({"seeds": n}, "chain-v1", algorithm, 2 if n == "many" else (5,)) for n in ("many", "one")]

        def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
            seen.append([len(result.runs) for result in results])
            return Data({})

        def verdicts(self, data: Data) -> list[Verdict]:
            rests_on: list[Row] = [{"seeds": "one"}]
            return [Verdict("", "", "", len(seen) >= 3, False, rests_on), Verdict("", "", "", True)]

        def draw(self, data: Data) -> Any:
            raise NotImplementedError

    monkeypatch.setattr("replicable_rl.experiments.reproduction.chosen", lambda names: [Mine()])
    (result,) = reproduce([], tmp_path / "runs.sqlite", Scale(), n_jobs=None)
    assert seen == [[4, 2], [4, 2 * GROWTH], [4, 2 * GROWTH**2]]
    assert result.count(HELD) == 2
