"""The experiment `frontier`: its sizes, its second lab, its analysis on made-up counts, its figure and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import AuditResult, run_audits
from replicable_rl.audit.evidence import derived_seed
from replicable_rl.audit.intervals import clopper_pearson
from replicable_rl.experiments.catalogue import experiments
from replicable_rl.experiments.dataset import Dataset, Table
from replicable_rl.experiments.experiment import CANNOT_TELL, HELD, NOT_HELD, Scale, Study
from replicable_rl.experiments.frontier import analysis, curves
from replicable_rl.experiments.frontier.curves import COARSE, DEFAULT, FINE, PLAIN, PUBLISHED, Extent
from replicable_rl.experiments.frontier.lab import FOLLOWED, SecondLab
from replicable_rl.randomness import sample_stream
from replicable_rl.store import RunStore

TINY = Extent(20, (10**3, 10**5), (), (10**5, 10**11), ("two-goals",), (DEFAULT, PUBLISHED, PLAIN, FINE))


def made(extent: Extent) -> tuple[list[Study], list[AuditResult]]:
    store = RunStore()
    studies: list[Study] = []
    results: list[AuditResult] = []
    new = curves.first(extent)
    while new:
        studies, results = [*studies, *new], [*results, *run_audits([one.audit for one in new], store)]
        new = curves.following(extent, studies, results)
    return studies, results


@pytest.fixture(scope="module")
def tiny() -> Dataset:
    return analysis.analyse(*made(TINY))


# --- what is run -----------------------------------------------------------------------------------


def test_epsilon_is_five_per_cent_of_the_gain() -> None:
    mdp, gain, epsilon = curves.stakes("two-goals")
    best = float(mdp.initial @ rr.optimal_values(mdp).value)
    uniform = rr.evaluate_policy(mdp, np.full((8, 4), 0.25)).expected_return
    low, high = mdp.reward_range
    assert gain == pytest.approx(best - uniform)
    assert epsilon == pytest.approx(0.05 * gain * (1.0 - mdp.gamma) / (high - low), rel=5e-3)


def test_all_problems_and_rules_are_run() -> None:
    """Everything the aims name; rPVI but where a run takes a hundred times as long."""
    run = Extent.of(Scale.of()).curves()
    assert len(curves.PROBLEMS) == 12
    assert {rule for _, rule in run} == set(curves.RULES)
    assert {problem for problem, rule in run if rule not in (COARSE, FINE)} == set(curves.PROBLEMS)
    assert {problem for problem, rule in run if rule == FINE} == set(curves.PROBLEMS) - set(curves.SLOW)
    assert sum(curves.stakes(problem).mdp.n_states == 50 for problem in curves.PROBLEMS) == 3


def test_a_curve_goes_on_until_it_is_shown(tiny: Dataset) -> None:
    points = tiny.tables["points"]
    for problem, rule in TINY.curves():
        rows = points.where(problem=problem, rule=rule)
        assert [row["size"] for row in rows] == list(TINY.sizes(rule))[: len(rows)]
        assert {row["pairs"] for row in rows} == {20 if rule != FINE else 12}
        shown = [curves.is_shown(row["same"], row["pairs"], 2) for row in rows]
        assert not any(shown[:-1])
        assert shown[-1] or len(rows) == 2
    assert len(points.where(rule=DEFAULT)) == 1, "a thousand samples are enough on two-goals"
    assert len(points.where(rule=PLAIN)) == 2, "ties never agree"


def stopped_early(pairs: int = 40, sizes: int = 4, agreement: float = 0.8, trials: int = 4000) -> float:
    """How often a curve that only just misses the target is called shown at one of its sizes."""
    rng = np.random.default_rng(5)
    same = rng.binomial(pairs, agreement - 1e-9, (trials, sizes))
    shown = {k: curves.is_shown(k, pairs, sizes) for k in range(pairs + 1)}
    return float(np.mean([any(shown[int(k)] for k in row) for row in same]))


def test_stopping_early_keeps_the_confidence() -> None:
    """A one-sided error of 2.5 % over all sizes; 4000 trials have a deviation of 0.25 %."""
    assert stopped_early() <= 0.025 + 4 * 0.0025


# --- the second lab ----------------------------------------------------------------------------------


def test_two_labs_follow_one_publication() -> None:
    """The publication depends on the shared seed alone, and a lab decides as `PublishedCuts` on its own data."""
    mdp, _, epsilon = curves.stakes("two-goals")
    lab = SecondLab(epsilon, 0.01, 0.2, 1000)
    plain = rr.PlugInPolicy(epsilon, 0.01, 0.2, samples=1000)
    cuts = rr.publish(mdp, plain, sample_seed=derived_seed("publisher", 7))
    theirs = replace(plain, rule=rr.rules.PublishedCuts(cuts))
    for sample_seed in (1, 2):
        run = rr.solve(mdp, lab, shared_seed=7, sample_seed=sample_seed)
        same = rr.solve(mdp, theirs, shared_seed=7, sample_seed=sample_seed)
        assert run.policy.tolist() == same.policy.tolist()
        assert run.samples == 32_000, "its own alone"
        assert run.history[FOLLOWED].tolist() == [float(run.policy.tolist() == cuts.policy.tolist())]
    other = rr.publish(mdp, plain, sample_seed=derived_seed("publisher", 8))
    assert other.digest != cuts.digest


def test_a_remembered_publication_is_that_of_its_seed() -> None:
    mdp, _, epsilon = curves.stakes("two-goals")
    lab = SecondLab(epsilon, 0.01, 0.2, 100)
    again = [rr.solve(mdp, lab, shared_seed=seed, sample_seed=1).fingerprints.policy for seed in (1, 2, 1, 2)]
    assert again[:2] == again[2:]


def test_a_lab_that_does_not_follow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the publisher looks at the lab's own sample, which would make agreement free."""
    mdp, _, epsilon = curves.stakes("two-goals")
    lab = SecondLab(epsilon, 0.01, 0.2, 50)
    streams: list[int] = []

    def watched(seed: int) -> Any:
        streams.append(seed)
        return sample_stream(seed)

    monkeypatch.setattr("replicable_rl.experiments.frontier.lab.sample_stream", watched)
    for sample_seed in (1, 2):
        rr.solve(mdp, lab, shared_seed=3, sample_seed=sample_seed)
    assert set(streams) == {derived_seed("publisher", 3)}, "published from the shared seed's sample alone"


def test_workers_make_the_same_runs() -> None:
    (study,) = curves.first(replace(TINY, pairs=3, rules=(PUBLISHED,)))
    here, there = (list(run_audits([study.audit], RunStore(), n_jobs=n)) for n in (1, 2))
    assert [run.fingerprints for run in here[0].runs] == [run.fingerprints for run in there[0].runs]
    assert [run.history[FOLLOWED][0] for run in here[0].runs] == [run.history[FOLLOWED][0] for run in there[0].runs]


# --- the analysis on made-up counts --------------------------------------------------------------------


def point(problem: str, rule: str, size: int, same: int, **changes: Any) -> dict[str, Any]:
    low, high = clopper_pearson(same, 100, 0.95)
    usual = {"problem": problem, "rule": rule, "size": size, "sizes": 4, "states": 8, "actions": 4, "epsilon": 0.02}
    usual |= {"samples_per_pair": size, "samples_a_run": 32 * size, "pairs": 100, "same": same}
    usual |= {"agreement": same / 100, "agreement_low": low, "agreement_high": high}
    usual |= {"loss": 0.01, "worst_loss": 0.02, "runs_over_budget": 0}
    return usual | {"publisher": None, "publisher_low": None, "publisher_high": None} | changes


def dataset(points: Sequence[dict[str, Any]]) -> Dataset:
    both = dict.fromkeys((row["problem"], row["rule"]) for row in points)
    needed = [analysis.needed_of([row for row in points if (row["problem"], row["rule"]) == curve]) for curve in both]
    details = {"budget": 0.05, "rho": 0.2}
    return Dataset({"points": Table.of(points), "needed": Table.of(needed)}, details)


def test_needed_of_a_rising_curve() -> None:
    """60 % at 10^3 and 100 % at 10^5: halfway between them, on a logarithmic axis."""
    row = analysis.needed_of([point("p", "r", 10**3, 60), point("p", "r", 10**5, 100, loss=0.03)])
    assert row["samples"] == pytest.approx(10**4)
    assert (row["samples_low"], row["samples_high"]) == (10**3, 10**5)
    assert (row["loss"], row["within_budget"], row["at_the_first_size"]) == (0.03, True, False)


def test_needed_at_once_and_never() -> None:
    at_once = analysis.needed_of([point("p", "r", 10**3, 100)])
    assert (at_once["samples"], at_once["samples_low"], at_once["samples_high"]) == (10**3, None, 10**3)
    assert at_once["at_the_first_size"]
    never = analysis.needed_of([point("p", "r", 10**k, 30) for k in range(3, 7)])
    assert (never["samples"], never["samples_low"], never["samples_high"]) == (None, 10**6, None)
    assert (never["tried_from"], never["tried_to"], never["agreement"]) == (10**3, 10**6, 0.3)


@pytest.mark.parametrize(
    ("counts", "loss", "expected"),
    [
        ({10**3: 60, 10**4: 100}, 0.01, HELD),
        ({10**3: 60, 10**4: 60, 10**5: 100}, 0.01, NOT_HELD),
        ({10**3: 60, 10**4: 82, 10**5: 100}, 0.01, CANNOT_TELL),
        ({10**3: 100}, 0.06, NOT_HELD),  # the same policy twice, and a bad one
    ],
)
def test_aims_are_judged_by_intervals_and_loss(counts: dict[int, int], loss: float, expected: str) -> None:
    data = dataset([point("two-goals", DEFAULT, size, same, loss=loss) for size, same in counts.items()])
    verdict = analysis.verdicts(data)[0]
    assert "1e+04 samples per pair" in verdict.claim
    assert verdict.verdict == expected


@pytest.mark.parametrize(("ours", "expected"), [(97, HELD), (80, NOT_HELD)])
def test_worse_than_the_plain_model(ours: int, expected: str) -> None:
    data = dataset([point("p", DEFAULT, 10**3, ours), point("p", PLAIN, 10**3, 99)])
    verdict = next(one for one in analysis.verdicts(data) if "plain model" in one.claim)
    assert verdict.verdict == expected


def test_where_the_plain_model_is_not_replicable_nothing_is_compared() -> None:
    data = dataset([point("p", DEFAULT, 10**3, 10), point("p", PLAIN, 10**3, 60)])
    verdict = next(one for one in analysis.verdicts(data) if "plain model" in one.claim)
    assert (verdict.verdict, verdict.measured) == (CANNOT_TELL, "the plain model was replicable nowhere")


@pytest.mark.parametrize(("theirs", "expected"), [(10**9, HELD), (10**6, NOT_HELD), (10**7, CANNOT_TELL)])
def test_samples_against_rpvi(theirs: int, expected: str) -> None:
    """Ours between 300 and 1000; theirs between a tenth of what is enough for them and that."""
    ours = [point("two-goals", DEFAULT, 300, 50), point("two-goals", DEFAULT, 1000, 100)]
    rpvi = [point("two-goals", FINE, theirs // 10, 50), point("two-goals", FINE, theirs, 100)]
    assert analysis.verdicts(dataset([*ours, *rpvi]))[-1].verdict == expected


# --- a tiny version of it all --------------------------------------------------------------------------


def test_what_the_tiny_version_finds(tiny: Dataset) -> None:
    rows = {row["rule"]: row for row in tiny.tables["needed"]}
    assert rows[DEFAULT]["samples"] == rows[PUBLISHED]["samples"] == 1000
    assert rows[PLAIN]["samples"] is None
    assert rows[FINE]["samples"] > 10**6 * rows[DEFAULT]["samples"]
    assert rows[PUBLISHED]["publisher"] >= 0.9
    assert rows[DEFAULT]["publisher"] is None
    assert all(0.0 <= row["loss"] <= row["worst_loss"] <= 0.05 for row in rows.values())
    claims = {one.claim: one.verdict for one in experiments()["frontier"].verdicts(tiny)}
    assert set(claims.values()) <= {HELD, CANNOT_TELL}
    assert "affordable: 1e+04 on 1 of 1 problems" in experiments()["frontier"].summary(tiny)


def test_the_figure_draws_every_curve(tiny: Dataset, tmp_path: Path) -> None:
    named = replace(tiny, name="frontier", title="x")
    files = {path.name for path in experiments()["frontier"].save(named, tmp_path)}
    assert {"frontier.png", "frontier.json", "frontier-points.csv", "frontier-needed.csv"} <= files
    figure = experiments()["frontier"].figure(tiny)
    assert figure is not None
    panel = figure.axes[0]
    assert panel.get_title(loc="left") == "two-goals (S = 8)"
    hollow = [line for line in panel.lines if line.get_markerfacecolor() == "white" and line.get_marker() == "X"]
    assert len(hollow) == 1, "the plain model is not reached, and is drawn as such"
