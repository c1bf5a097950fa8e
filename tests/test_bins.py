"""Bins: declared edges, readable names, part of the problem, the same in every engine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.data import Process
from tests.test_cli import Run

pytestmark = pytest.mark.usefixtures("one_database")

LOG: dict[str, Any] = {
    "warm": [9.999, 10.0, 19.5, 20.0, -1e300, math.inf],
    "action": [0, 1, 0, 1, 0, 1],
    "reward": [0.0, 0.25, 0.5, 0.75, 1.0, 0.0],
    "next_warm": [10.0, 20.0, 5.0, 15.0, 25.0, -math.inf],
}
NAMES: dict[str, Any] = {"gamma": 0.9, "state": "warm", "next_state": "next_warm"}
BINS = rr.Bins([10, 20])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def test_names_are_readable_and_tell_bins_apart() -> None:
    assert rr.Bins([0.5]).labels == ("below 0.5", "0.5 or more")
    assert rr.Bins([-1, 1e-3, 1e20]).labels == ("below -1", "[-1, 0.001)", "[0.001, 1e+20)", "1e+20 or more")
    close = rr.Bins([0.1, float(np.nextafter(0.1, 1.0)), 0.3])
    assert len(set(close.labels)) == 4
    assert rr.Bins([-0.0]) == rr.Bins([0])
    assert rr.Bins(np.array([1, 2])) == rr.Bins((1.0, 2.0))  # type: ignore[arg-type]
    assert hash(rr.Bins([1, 2])) == hash(rr.Bins([1.0, 2.0]))


def test_a_value_on_an_edge_belongs_above_and_the_ends_are_open() -> None:
    data = rr.from_transitions(LOG, **NAMES, bins={"warm": BINS})
    assert data.process.states == ("below 10", "[10, 20)", "20 or more")  # in the order of the numbers
    state, successor = data.key // 3 // 2, data.key % 3
    seen = sorted(zip(state.tolist(), successor.tolist(), strict=True))
    assert seen == sorted([(0, 1), (1, 2), (1, 0), (2, 1), (0, 2), (2, 0)])


def test_bins_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    bins = rr.Bins(np.unique(np.round(rng.normal(size=40), 2)).tolist())
    values = np.concatenate(
        [rng.normal(size=3000), bins.edges, np.nextafter(bins.edges, 9), np.nextafter(bins.edges, -9)]
    )
    log = {"warm": values, "action": np.zeros(values.size), "reward": np.zeros(values.size), "next_warm": values[::-1]}
    data = rr.from_transitions(log, **NAMES, bins={"warm": bins}, states=bins.labels)
    assert (
        data.visits[:, 0].tolist() == np.bincount(np.digitize(values, bins.edges), minlength=len(bins.labels)).tolist()
    )


def test_whole_numbers_and_actions_may_be_binned() -> None:
    log = LOG | {"warm": [1, 12, 25, 3, 14, 30], "next_warm": [12.0, 25.0, 3.0, 14.0, 30.0, 1.0]}
    log["dose"] = [0.1, 0.9, 0.2, 0.7, 0.5, 0.4]
    data = rr.from_transitions(log, **NAMES, action="dose", bins={"warm": BINS, "dose": rr.Bins([0.5])})
    assert data.process.actions == ("below 0.5", "0.5 or more")
    assert [one.use for one in data.process.bins] == ["state", "action"]


def test_other_edges_are_another_problem() -> None:
    one = rr.from_transitions(LOG, **NAMES, bins={"warm": BINS})
    same = rr.from_transitions(LOG, **NAMES, bins={"warm": rr.Bins([10.0, 20.0])})
    assert same.spec == one.spec
    assert same == one
    named = rr.from_transitions({**LOG, "t": LOG["warm"]}, **NAMES | {"state": "t"}, bins={"t": BINS})
    assert named == one  # what a file calls its columns is no part of the problem
    # An edge where no value was ever seen still counts.
    further = {**LOG, "warm": [10.0] * 6, "next_warm": [15.0] * 6}
    two, three = (
        rr.from_transitions(further, **NAMES, bins={"warm": rr.Bins(edges)}) for edges in ([10, 20], [10, 20, 30])
    )
    assert two.process.states == BINS.labels  # also those that were not seen
    assert two.spec != three.spec
    with pytest.raises(rr.InvalidInput, match="two declared processes"):
        rr.same_process(two, three)
    unbinned = rr.from_transitions(further, **NAMES)
    assert "bins" not in unbinned.spec.params


def test_bins_are_saved(tmp_path: Path) -> None:
    data = rr.from_transitions(LOG, **NAMES, bins={"warm": BINS})
    rr.save(data, tmp_path / "log.npz")
    read = rr.load(tmp_path / "log.npz")
    assert read == data
    assert read.process == data.process
    assert isinstance(read.process, Process)
    assert read.process.bins[0].edges == (10.0, 20.0)


@pytest.mark.parametrize(
    "edges",
    [[], [2, 1], [1, 1], [math.nan], [math.inf], "10,20", 5, None, [[1, 2]], ["1"], [1, None], list(range(1001))],
)
def test_edges_that_are_none(edges: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^Bins: edges must"):
        rr.Bins(edges)


@pytest.mark.parametrize(
    ("changes", "bins", "said"),
    [
        ({}, {"warm": "quantiles"}, "must be Bins.*Edges from the data would make every log another problem"),
        ({}, {"warm": [10, 20]}, r"must be Bins\(\[\.\.\.\]\)"),
        ({}, [10, 20], "must say which column has which"),
        ({}, {"cold": BINS}, "must name a column of the states or the actions, got 'cold'"),
        ({}, {"next_warm": BINS}, "Next states have the bins of the states"),
        ({"warm": ["hot"] * 6}, {"warm": BINS}, "bins need a column of numbers, got VARCHAR in 'warm'"),
        ({"warm": np.ones(6, dtype=bool)}, {"warm": BINS}, "bins need a column of numbers, got BOOLEAN"),
        ({"warm": [1.0, math.nan, 1, 1, 1, 1]}, {"warm": BINS}, "row 2: the state is missing"),
        ({"warm": [1.0, 2.0, math.nan, 1, 1, 1]}, None, "row 3: the state is missing"),
    ],
)
def test_bins_that_do_not_fit_get_one_sentence(changes: dict[str, Any], bins: Any, said: str) -> None:
    with pytest.raises(rr.InvalidInput, match=said) as refusal:
        rr.from_transitions({**LOG, **changes}, **NAMES, bins=bins)
    assert "\n" not in str(refusal.value)


def test_bins_on_the_command_line(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [",".join(LOG), *(",".join(map(str, row)) for row in zip(*LOG.values(), strict=True))]
    log.write_text("\n".join(rows[:-2]) + "\n")
    asked = ("diagnose", log, "--gamma", "0.9", "--state", "warm", "--next-state", "next_warm", "--resamples", "10")
    printed = json.loads(run.good(*asked, "--bins", "warm=10,20", "--json"))
    assert printed["summary"]["states"] == 3
    for wrong in ("warm", "warm=", "=10", "warm=10,x", "warm=20,10", "cold=1"):
        refused = run(*asked, "--bins", wrong)
        assert refused.code == 2
        assert len(refused.err.splitlines()) == 1
    assert "once" in run(*asked, "--bins", "warm=1", "--bins", "warm=2").err
