"""Claims about a table that was itself estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.registry import PROBLEMS

SAID = "about the estimated table, not about the process behind it"
SURE: list[Callable[[], Any]] = [
    lambda: rr.ReplicablePhasedVI(0.2, 0.01, 0.3),
    lambda: rr.ReplicableApproximateMDP(0.1, 0.001, 0.2),
    lambda: rr.ReplicableRMax(0.05, 0.001, 0.2, 10),
]


def estimated_tables() -> Iterator[rr.TabularMDP]:
    P, R = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]]), np.array([[0.0, 1.0], [0.5, 0.0]])
    true = rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas")
    assert not true.estimated
    yield rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas", estimated=True)
    model = rr.solve(true, rr.ApproximateMDP(0.1, 0.1), shared_seed=1, sample_seed=1).model
    assert model is not None
    yield model


@pytest.mark.parametrize("sure", SURE, ids=["rpvi", "model", "rmax"])
def test_claims_about_an_estimated_table_end_there(sure: Callable[[], Any]) -> None:
    algorithm = sure()
    for table in estimated_tables():
        run, planned = rr.solve(table, algorithm, shared_seed=1, sample_seed=1), rr.plan(table, algorithm)
        for claims in (run.claims, planned.claims(), rr.Claims.from_json(planned.to_json()["claims"])):
            assert {claim.about for claim in claims} == {"accuracy", "replicability"}
            assert all(claim.statement.count(SAID) == 1 for claim in claims)
        assert planned == rr.plan(table, algorithm)
        assert algorithm.plan(table).samples == planned.samples
        assert algorithm.plan(table).claims() == planned.claims()


@pytest.mark.parametrize("sure", SURE, ids=["rpvi", "model", "rmax"])
def test_claims_about_the_process_itself_do_not_say_so(sure: Callable[[], Any]) -> None:
    mdp = rr.make("riverswim-v1", gamma=0.5)
    assert SAID not in str(rr.solve(mdp, sure(), shared_seed=1, sample_seed=1).claims)
    assert SAID not in str(rr.plan(mdp, sure()).claims())


def test_what_ships_is_no_estimate() -> None:
    for id in PROBLEMS:
        if id != "gridworld-v1":
            assert not rr.make(id).estimated
