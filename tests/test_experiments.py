"""The parts of experiments: tables, exact intervals, crossings, absorbing chains, designs and verdicts."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

import replicable_rl as rr
from replicable_rl.audit import run_audits
from replicable_rl.errors import InvalidFile, InvalidInput, UnknownId
from replicable_rl.experiments import crossing, shares
from replicable_rl.experiments.catalogue import chosen, experiments, reproduce
from replicable_rl.experiments.cost import analysis as cost
from replicable_rl.experiments.cost.analysis import GRIDS as COST_GRIDS
from replicable_rl.experiments.cost.analysis import pillars
from replicable_rl.experiments.dataset import Dataset, Table, estimate_columns
from replicable_rl.experiments.experiment import Scale, study
from replicable_rl.experiments.figure1 import goals
from replicable_rl.experiments.figure1.analysis import GRIDS, first_left_and_right
from replicable_rl.experiments.figure1.goals import goal_states
from replicable_rl.experiments.figure2.analysis import captions
from replicable_rl.experiments.theorem.analysis import FORMS
from replicable_rl.problem.shipped import gridworld
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec
from replicable_rl.store import RunStore

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('a,\n"é')


# --- datasets ----------------------------------------------------------------------------------


def a_dataset(rows: Sequence[Sequence[Any]]) -> Dataset:
    table = Table(("one", "two"), tuple(map(tuple, rows)))
    tables, details = {"first": table, "empty": Table((), ())}, {"rho": 0.2, "maps": {"a": [1]}}
    return Dataset(tables, details, "some", "Some data")


@settings(max_examples=20)  # each writes five files
@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_a_dataset_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]]) -> None:
    folder = tmp_path_factory.mktemp("data")
    data = a_dataset(rows)
    files = data.save(folder)
    assert [path.name for path in files] == ["some.json", "some-first.csv", "some-empty.csv"]
    again = Dataset.load(files[0])
    assert again == data
    assert again.save(folder) == files
    csv_equals_json(folder, "some")


def csv_equals_json(folder: Path, name: str) -> None:
    """Every CSV file says what the JSON file says, cell by cell."""
    data = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    for table, content in data["tables"].items():
        with (folder / f"{name}-{table}.csv").open(newline="", encoding="utf-8") as stream:
            lines = list(csv.reader(stream))
        if not content["rows"]:
            continue
        assert lines[0] == content["columns"]
        cells = [["" if cell is None else str(cell) for cell in row] for row in content["rows"]]
        assert [line or [""] for line in lines[1:]] == cells


def test_integers_beyond_json_are_strings() -> None:
    table = Table.of([{"samples": 2**53}, {"samples": 2**53 - 1}])
    assert table.rows == (("9007199254740992",), (9007199254740991,))


@pytest.mark.parametrize("cell", [math.nan, math.inf, object(), [1], np.array([1.0])])
def test_cells_that_no_file_can_hold(cell: Any) -> None:
    with pytest.raises(InvalidInput, match="a cell must be"):
        Table(("one",), ((cell,),))


def test_ragged_tables_are_refused() -> None:
    with pytest.raises(InvalidInput, match="2 cells for 1 columns"):
        Table(("one",), ((1, 2),))
    with pytest.raises(InvalidInput, match="same columns"):
        Table.of([{"a": 1}, {"b": 1}])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other", "version": 1}', "\x00"])
def test_files_that_are_no_datasets(tmp_path: Path, text: str) -> None:
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(InvalidFile):
        Dataset.load(tmp_path / "some.json")
    with pytest.raises(InvalidFile, match="no such file"):
        Dataset.load(tmp_path / "none.json")


# --- intervals of shares under one shared seed --------------------------------------------------


def compositions(runs: int, classes: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(runs + classes - 1), classes - 1):
        ends = (-1, *cuts, runs + classes - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


LAWS = [(1.0, 0.0, 0.0), (0.8, 0.1, 0.1), (0.5, 0.5, 0.0), (0.4, 0.35, 0.25), (0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3)]


def least_coverage(runs: int = 14, confidence: float = 0.9) -> tuple[float, float]:
    """The exact probability, over all samples, that each interval holds the truth; the least over the laws."""
    modal, unique = [], []
    for law in LAWS:
        expected = sum(1.0 - (1.0 - p) ** runs for p in law) / runs
        hits = [0.0, 0.0]
        for counts in compositions(runs, 3):
            probability = float(multinomial.pmf(counts, runs, law))
            sizes = [count for count in counts if count]
            one, two = shares.modal_share(sizes, confidence), shares.unique_share(sizes, confidence)
            hits[0] += probability * (one.low - 1e-9 <= max(law) <= one.high + 1e-9)
            hits[1] += probability * (two.low - 1e-9 <= expected <= two.high + 1e-9)
        modal.append(hits[0])
        unique.append(hits[1])
    return min(modal), min(unique)


def test_intervals_of_shares_hold_exactly() -> None:
    modal, unique = least_coverage()
    assert modal >= 0.9
    assert unique >= 0.9


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_intervals_of_shares_hold_the_estimate(sizes: list[int]) -> None:
    for share in (shares.modal_share(sizes, 0.95), shares.unique_share(sizes, 0.95)):
        assert 0.0 <= share.low <= share <= share.high <= 1.0


# --- where agreement passes a target ------------------------------------------------------------


def crossings_that_miss(n: int = 300) -> int:
    """How often the interval misses a known crossing: m = 100, agreement m/(m + 25)."""
    rng, sizes, pairs = np.random.default_rng(5), [10, 30, 90, 110, 300, 1000], [60] * 6
    misses = 0
    for _ in range(n):
        same = [int(rng.binomial(60, m / (m + 25.0))) for m in sizes]
        found = crossing.crossing(sizes, same, pairs, 0.8, 0.8)
        misses += not ((found.low or 0.0) <= 100.0 <= (found.high or math.inf))
    return misses


def test_crossing_has_its_confidence() -> None:
    assert crossings_that_miss() <= 60 + 28  # 0.2 of 300, and four standard deviations


def test_crossing_beyond_what_was_tried() -> None:
    none = crossing.crossing([1, 10], [1, 2], [100, 100], 0.8, 0.95)
    assert (none.samples, none.low, none.high) == (None, 10.0, None)
    every = crossing.crossing([1, 10], [99, 100], [100, 100], 0.8, 0.95)
    assert (every.samples, every.low, every.high) == (None, None, 1.0)


def test_counts_that_fall_are_made_to_rise_by_their_weights() -> None:
    """50 of 100 and then 40 of 300 are pooled to 90 of 400, from which the target is 0.575 of the way to 1."""
    found = crossing.crossing([1.0, 10.0, 1000.0], [50, 40, 100], [100, 300, 100], 0.8, 0.95)
    pooled = 90 / 400
    way = (0.8 - pooled) / (1.0 - pooled)
    assert found.samples == pytest.approx(10.0 * 100.0**way)


def test_intervals_of_all_grids_hold_at_once() -> None:
    """83 of 92 pairs show that a size is enough for one grid, and do not for three grids at once."""
    points = [
        {"grid": grid, "calls": calls, "pairs": 92, "same": same}
        for grid in "abc"
        for calls, same in ((10.0, 20), (100.0, 83))
    ]
    needed = [{"grid": grid} | cost.crossing_of(points[:2], 0.95).columns("measured") for grid in "abc"]
    assert [row["measured_high"] for row in needed] == [100.0] * 3
    together = cost.together(needed, points)
    assert [row["grid"] for row in together] == list("abc")
    assert [row["measured_high"] for row in together] == [None] * 3
    assert [row["measured_low"] for row in together] == [10.0] * 3


def test_slopes_of_power_laws() -> None:
    rows = [{"pairs_sa": n, "m": 7.0 * n**1.5, "m_low": 6.0 * n**1.5, "m_high": 8.0 * n**1.5} for n in (10, 30, 100)]
    found = cost.slope("m", rows)
    assert found["slope"] == pytest.approx(1.5)
    assert math.exp(found["constant"]) == pytest.approx(7.0)
    steepest = math.log(8.0 / 6.0) / math.log(10.0)  # the two outer points alone decide how steep a line can be
    assert found["slope_low"] == pytest.approx(1.5 - steepest, abs=0.02)
    assert found["slope_high"] == pytest.approx(1.5 + steepest, abs=0.02)
    assert cost.slope("m", [{**rows[0], "m_low": None}, *rows[1:]])["slope_high"] is None
    assert cost.slope("m", rows[:1])["slope"] is None


# --- exact probabilities of ending in a goal -----------------------------------------------------

UP, DOWN, LEFT, RIGHT = range(4)


@pytest.mark.parametrize(
    ("layout", "left"), [("G.S.G", 0.5), ("GS..G", 0.75), ("G...S.G", 1 / 3), ("GS......G", 7 / 8)]
)
def test_gambler_s_ruin(layout: str, left: float) -> None:
    """Up in a corridor stays, or slips to either side alike: a fair game, of which the odds are known by hand."""
    mdp = gridworld(layout, slip=0.3)
    ends = goals.goal_probabilities(mdp, np.full(mdp.n_states, UP))
    assert ends == pytest.approx([left, 1.0 - left], abs=1e-12)


def test_an_unfair_game_by_hand() -> None:
    """Aim left with slip 0.4 on a plus-shaped map: 0.6 left; up and down lead to cells from which right is taken."""
    mdp = gridworld("#.#/GSG/#.#", slip=0.4)  # states: 0 above, 1 left goal, 2 start, 3 right goal, 4 below
    policy = np.array([DOWN, UP, LEFT, UP, UP])
    # From above, down aims at the start with 0.6 and stays with 0.4: it always returns. So x = 0.6 + 0.4 x.
    assert goals.goal_probabilities(mdp, policy) == pytest.approx([1.0, 0.0], abs=1e-12)
    policy[2] = UP  # 0.6 above, which returns; 0.2 left goal, 0.2 right goal
    assert goals.goal_probabilities(mdp, policy) == pytest.approx([0.5, 0.5], abs=1e-12)


def test_who_walks_in_circles_ends_nowhere() -> None:
    mdp = gridworld("G.S.G", slip=0.0)
    assert goals.goal_probabilities(mdp, np.array([0, LEFT, RIGHT, LEFT, 0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("grid", GRIDS)
def test_optimal_policies_end_in_some_goal(grid: str) -> None:
    mdp = rr.make(grid)
    best = rr.optimal_values(mdp)
    rng = np.random.default_rng(1)
    for _ in range(20):
        policy = np.array([rng.choice(np.flatnonzero(row >= row.max() - 1e-9)) for row in best.q])
        ends = goals.goal_probabilities(mdp, policy)
        assert ends.sum() == pytest.approx(1.0, abs=1e-12)
        moves = np.zeros((mdp.n_states, mdp.n_states))  # against walking for a long time
        for s in range(mdp.n_states):
            i = s * mdp.n_actions + policy[s]
            row = slice(mdp.rows.indptr[i], mdp.rows.indptr[i + 1])
            np.add.at(moves[s], mdp.rows.next_state[row], mdp.rows.probability[row])
        assert (mdp.initial @ np.linalg.matrix_power(moves, 4096))[goal_states(mdp)] == pytest.approx(ends)


def test_goals_are_found_from_left_to_right() -> None:
    assert goal_states(rr.make("two-goals-v1")) == [0, 2]
    assert first_left_and_right([(0.5, 0.5), (0.2, 0.8), (0.9, 0.1), (1.0, 0.0)]) == (2, 1)
    assert first_left_and_right([(0.2, 0.8), (0.1, 0.9)]) == (0, 1)


# --- designs -------------------------------------------------------------------------------------


def test_figure1_gives_both_algorithms_the_same_samples() -> None:
    studies = experiments()["figure1"].design(Scale.of())
    for plain, rpvi in zip(studies[::2], studies[1::2], strict=True):
        seeds = [[(run.shared_seed, run.sample_seed) for run in one.audit.runs] for one in (plain, rpvi)]
        assert seeds[0] == seeds[1]
        assert plain.audit.algorithm.params["calls"] == rpvi.audit.algorithm.params["calls"]
        problem, algorithm = build(rpvi.audit.problem), build(rpvi.audit.algorithm)
        used: Any = rr.plan(problem, algorithm).numbers
        assert used.calls == used.calls_needed, "what the theorem asks for"
        assert used.replicability_proved


@pytest.mark.parametrize("name", list(experiments()))
def test_designs_build_and_a_quick_one_is_smaller(name: str) -> None:
    full, quick = (experiments()[name].design(Scale.of(quick=quick)) for quick in (False, True))
    assert len({one.audit for one in full}) == len(full)
    runs = [sum(one.audit.size for one in studies) for studies in (full, quick)]
    assert runs[1] <= runs[0] / 4 or name == "figure1"


def test_a_study_has_the_identity_that_anybody_s_audit_has() -> None:
    algorithm = ObjectSpec("rpvi-v1", {"epsilon": 0.1, "delta": 0.001, "rho": 0.2, "calls": None})
    one = study({}, ObjectSpec("two-goals-v1", {"slip": 0.3}), algorithm, 3)
    made = rr.audit(rr.make("two-goals-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2), shared_seeds=3)
    assert (one.audit, one.audit.rho) == (made.spec, 0.2), "defaults are no part of it"


def test_figure2_is_the_paper_s_experiment() -> None:
    studies = experiments()["figure2"].design(Scale.of())
    assert {one.audit.runs_per_seed for one in studies[::2]} == {150}
    assert {one.audit.shared_seeds for one in studies[::2]} == {(2023,)}
    for one in studies:
        params = one.audit.algorithm.params
        assert (params["epsilon"], params["delta"], params["rho"]) == (0.02, 0.001, 0.2)
        assert params["calls"] == 13_000 * one.point["multiple"]


def test_theorems_run_on_what_comes_with_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rr.registry.PROBLEMS, "mine-v1", lambda: rr.make("chain-v1"))
    found = {one.point["problem"] for one in experiments()["theorem"].design(Scale.of())}
    assert found == set(rr.registry.PROBLEMS) - {"mine-v1", "gridworld-v1"}, "and not on what needs input"


def test_pillars_grow_out_of_the_two_goals_grid() -> None:
    maps = [pillars(*size) for size in COST_GRIDS]
    assert maps[0] == "/".join(rr.make("two-goals-v1").labels.layout or ())
    sizes = [gridworld(drawn).n_states for drawn in maps]
    assert sizes == sorted(sizes)


def test_scales() -> None:
    assert (Scale.of().runs, Scale.of().pairs) == (150, 100)
    assert Scale.of(quick=True).some((1, 2, 3, 4)) == (2, 4)
    assert Scale.of().some((1, 2, 3)) == (1, 2, 3)
    with pytest.raises(InvalidInput, match="--runs must be an integer from 2"):
        Scale.of(runs=1)


def test_names_of_experiments() -> None:
    assert chosen([]) == list(experiments().values())
    with pytest.raises(UnknownId, match=r"no experiment is called 'figure22'\. Did you mean 'figure2'\?$"):
        chosen(["figure1", "figure22"])
    with pytest.raises(
        UnknownId, match=r"Known: figure1, figure2, exploration, theorem, cost, levels, frontier, claims\.$"
    ):
        chosen(["zzz"])


def test_every_experiment_says_what_it_is() -> None:
    for name, one in experiments().items():
        assert one.name == name
        assert one.title
        assert one.reading
        assert bool(one.draw) == bool(one.caption) == bool(one.alternative)
    orders = [one.order for one in experiments().values()]
    assert orders == sorted(set(orders))


# --- how they are made ---------------------------------------------------------------------------


def test_what_a_store_has_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All experiments in one go; what two ask for is asked for once."""
    asked: list[list[Any]] = []

    def counted(specs: Sequence[Any], store: RunStore, **options: Any) -> Any:
        asked.append(list(specs))
        return run_audits(specs, store, **options)

    monkeypatch.setattr("replicable_rl.experiments.catalogue.run_audits", counted)
    twice = [dataclasses.replace(experiments()["levels"], name=name, order=i) for i, name in enumerate("abc")]
    monkeypatch.setattr("replicable_rl.experiments.catalogue.experiments", lambda: {one.name: one for one in twice})
    scale, seen = Scale(2, quick=True), []
    for _ in range(2):
        made = list(reproduce([], tmp_path / "runs.sqlite", scale, n_jobs=1))
        assert [one.name for one, _ in made] == [dataset.name for _, dataset in made] == ["a", "b", "c"]
        assert made[0][1].tables == made[1][1].tables == made[2][1].tables
        with RunStore(tmp_path / "runs.sqlite") as store:
            seen.append(sum(runs for _, runs in store.families()))
    design = [one.audit for one in twice[0].design(scale)]
    assert asked == [design] * 2
    assert seen == [sum(spec.size for spec in design)] * 2


# --- verdicts follow the data --------------------------------------------------------------------


def a_row(**columns: Any) -> dict[str, Any]:
    return {"problem": "grid", **columns}


def between(name: str, low: float, middle: float, high: float) -> dict[str, float]:
    return estimate_columns(name, rr.Estimate(middle, low, high))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.0, 0.01, 0.1), "held"), ((0.25, 0.3, 0.4), "not held"), ((0.1, 0.15, 0.3), "cannot tell")],
)
def test_verdicts_about_rho(interval: tuple[float, float, float], verdict: str) -> None:
    rows = [
        a_row(algorithm=algorithm, epsilon=0.1, rho=0.2, differ=1, pairs=9, worst_error=0.05, kept_epsilon=True)
        | {"form": form, "refuted_rho": interval[0] > 0.2, "refuted_epsilon": False}
        | between("disagreement", *interval)
        for algorithm, forms in FORMS.items()
        for form in forms
    ]
    found = experiments()["theorem"].verdicts(Dataset({"theorems": Table.of(rows)}))
    assert [one.verdict for one in found] == 4 * [verdict, "held"]


@pytest.mark.parametrize(
    ("slope", "verdict"), [((1.0, 1.2, 1.5), "held"), ((2.1, 2.5, 3.0), "not held"), ((1.5, 1.8, 2.5), "cannot tell")]
)
def test_verdicts_about_growth(slope: tuple[float, float, float], verdict: str) -> None:
    needed = [{"measured_high": 1e6, "tight": 1e9}, {"measured_high": 1e8, "tight": 1e9}]
    slopes = [{"samples": "measured", "slope_low": slope[0], "slope": slope[1], "slope_high": slope[2]}]
    dataset = Dataset({"needed": Table.of(needed), "slopes": Table.of(slopes)})
    cheaper, grows = experiments()["cost"].verdicts(dataset)
    assert grows.verdict == verdict
    assert cheaper.verdict == "cannot tell", "a tenth is not orders of magnitude"


def points(first: Sequence[float], last: Sequence[float], column: str) -> Dataset:
    """Two curves of Figure 2 over two multiples; other columns are out of the way."""
    rows = []
    for rho_sq, ends in zip((0.01, 0.9), zip(first, last, strict=True), strict=True):
        for multiple, value in zip((1, 10), ends, strict=True):
            row = a_row(rho_sq=rho_sq, multiple=multiple)
            for name, usual in (("modal_share", 0.9), ("unique_share", 0.01), ("agreement", 0.9)):
                middle = value if name == column else usual
                row |= between(name, max(0.0, middle - 0.05), middle, min(1.0, middle + 0.05))
            rows.append(row)
    return Dataset({"points": Table.of(rows)}, {"rho": 0.2})


@pytest.mark.parametrize(
    ("column", "first", "last", "number", "verdict"),
    [
        ("modal_share", (0.3, 0.4), (0.95, 0.9), 0, "held"),
        ("modal_share", (0.3, 0.4), (0.95, 0.7), 0, "not held"),
        ("modal_share", (0.3, 0.4), (0.95, 0.82), 0, "cannot tell"),
        ("modal_share", (0.3, 0.6), (0.95, 0.9), 1, "held"),
        ("modal_share", (0.6, 0.6), (0.95, 0.7), 1, "not held"),
        ("unique_share", (0.8, 0.6), (0.3, 0.2), 2, "held"),
        ("unique_share", (0.8, 0.6), (0.3, 0.5), 2, "not held"),
        ("unique_share", (0.8, 0.6), (0.38, 0.2), 2, "cannot tell"),
        ("unique_share", (0.5, 0.55), (0.1, 0.1), 3, "held"),
        ("unique_share", (0.5, 0.65), (0.1, 0.1), 3, "not held"),
        ("agreement", (0.5, 0.5), (0.9, 0.9), 4, "held"),
        ("agreement", (0.5, 0.5), (0.9, 0.6), 4, "not held"),
        ("agreement", (0.6, 0.4), (0.9, 0.9), 5, "held"),
        ("agreement", (0.4, 0.6), (0.9, 0.9), 5, "not held"),
        ("agreement", (0.5, 0.5), (0.9, 0.9), 5, "cannot tell"),
    ],
)
def test_verdicts_about_captions(
    column: str, first: tuple[float, float], last: tuple[float, float], number: int, verdict: str
) -> None:
    assert captions(points(first, last, column), "grid")[number].verdict == verdict


def test_wide_intervals_show_nothing() -> None:
    """With little data, neither likeness nor difference of curves is shown."""
    rows = [
        a_row(rho_sq=rho_sq, multiple=multiple)
        | between("modal_share", 0.2, 0.5, 0.9)
        | between("unique_share", 0.2, 0.5, 0.9)
        | between("agreement", 0.2, 0.5, 0.9)
        for rho_sq in (0.01, 0.9)
        for multiple in (1, 10)
    ]
    found = captions(Dataset({"points": Table.of(rows)}, {"rho": 0.2}), "grid")
    assert {one.verdict for one in found} == {"cannot tell"}


def test_the_theorem_lets_one_run_in_a_thousand_lose() -> None:
    rows = [
        a_row(algorithm=algorithm, epsilon=0.1, rho=0.2, differ=0, pairs=100, worst_error=0.2, kept_epsilon=False)
        | {"form": form, "refuted_rho": False, "refuted_epsilon": False}
        | between("disagreement", 0.0, 0.0, 0.04)
        for algorithm, forms in FORMS.items()
        for form in forms
    ]
    found = experiments()["theorem"].verdicts(Dataset({"theorems": Table.of(rows)}))
    assert found[1].verdict == "cannot tell"
    rows[0]["refuted_epsilon"] = True
    found = experiments()["theorem"].verdicts(Dataset({"theorems": Table.of(rows)}))
    assert found[1].verdict == "not held"
