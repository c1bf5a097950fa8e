"""ApproximateMDP, plain and replicable: one model twice, sparse, accurate, saved and solved again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import replicable_rl as rr
from replicable_rl.errors import InvalidInput
from replicable_rl.randomness import sample_stream
from tests.statistics import ALPHA, SEED

THEOREM = rr.ReplicableApproximateMDP(epsilon=0.05, delta=0.001, rho=0.2)
GRID = rr.make("two-goals-v1")


def dense(mdp: rr.TabularMDP) -> np.ndarray:
    """P as an (S*A, S) array."""
    table = np.zeros((mdp.n_states * mdp.n_actions, mdp.n_states))
    row = np.repeat(np.arange(table.shape[0]), np.diff(mdp.rows.indptr))
    np.add.at(table, (row, mdp.rows.next_state), mdp.rows.probability)
    return table


def model_of(run: rr.Run) -> rr.TabularMDP:
    assert run.model is not None
    return run.model


@pytest.mark.parametrize("problem", ["two-goals-v1", "riverswim-v1", "chain-v1", "machine-repair-v1", "garnet-v1"])
def test_theorem_at_its_own_sample_size(problem: str) -> None:
    """Every entry is near the truth, and of 20 pairs too many differ with probability below ALPHA only."""
    mdp = rr.make(problem)
    differ = 0
    for seed in range(20):
        one, two = (rr.solve(mdp, THEOREM, shared_seed=seed, sample_seed=SEED + 2 * seed + i) for i in (0, 1))
        differ += one.fingerprints.model != two.fingerprints.model
        error = np.abs(dense(model_of(one)) - dense(mdp))
        longest = int(np.diff(mdp.rows.indptr).max())
        assert error.sum(axis=1).max() <= 2 * longest * 0.05
    assert binom.sf(differ - 1, 20, 0.2) > ALPHA
    accuracy, replicability = one.claims.accuracy, one.claims.replicability
    assert accuracy is not None
    assert replicability is not None
    assert (accuracy.kind, accuracy.bound, accuracy.failure, accuracy.level) == ("proved", 0.05, 0.001, "model")
    assert (replicability.kind, replicability.bound, replicability.level) == ("proved", 0.2, "model")
    assert one.samples == THEOREM.plan(mdp).numbers.calls * mdp.n_states * mdp.n_actions


def test_the_baseline_is_the_empirical_model_and_never_the_same_twice() -> None:
    mdp = rr.make("garnet-v1")
    runs = [rr.solve(mdp, rr.ApproximateMDP(0.05, 0.001, calls=1000), shared_seed=1, sample_seed=i) for i in range(9)]
    assert len({run.fingerprints.model for run in runs}) == 9
    counts, learned = mdp.draw(1000, sample_stream(5)).count, dense(model_of(runs[5]))
    np.testing.assert_allclose(learned[learned > 0], counts[counts > 0] / 1000.0, rtol=1e-15, atol=0)


def test_rows_stay_sparse_or_get_dense() -> None:
    mdp = rr.make("two-goals-wide-v1")
    sparse = rr.solve(mdp, THEOREM, shared_seed=1, sample_seed=1)
    assert set(zip(*np.nonzero(dense(model_of(sparse))), strict=True)) <= set(zip(*np.nonzero(dense(mdp)), strict=True))
    midpoint = rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, form="midpoint")
    full = rr.solve(mdp, midpoint, shared_seed=1, sample_seed=1)
    assert (dense(model_of(full)) > 0).all()
    np.testing.assert_allclose(dense(model_of(full)).sum(axis=1), 1.0, atol=1e-12)
    again = rr.solve(mdp, midpoint, shared_seed=1, sample_seed=2)
    assert full.fingerprints == again.fingerprints


def test_norm_l1_is_finer() -> None:
    entry, l1 = (rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, norm=norm) for norm in ("entry", "l1"))
    assert l1.plan(GRID).numbers.calls == pytest.approx(64 * entry.plan(GRID).numbers.calls, rel=1e-3)
    run = rr.solve(GRID, l1, shared_seed=1, sample_seed=1)
    assert np.abs(dense(model_of(run)) - dense(GRID)).sum(axis=1).max() <= 0.1
    assert {claim.about for claim in run.claims} == {"accuracy", "replicability"}


def test_a_claim_is_never_a_mixture() -> None:
    few = THEOREM.plan(GRID).numbers.calls // 3
    some = rr.plan(GRID, rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, calls=few)).claims()
    assert some.replicability is None
    assert some.missing["replicability"].startswith(f"calls={few} where the proof needs ")
    coarse = rr.plan(GRID, rr.ReplicableApproximateMDP(0.05, 0.001, 0.2, tolerance=0.5)).claims()
    assert [(claim.about, claim.bound) for claim in coarse] == [("replicability", 0.2)]
    assert coarse.missing["accuracy"].startswith("the bound at these parameters is 0.5, above 0.05")
    plain = rr.plan(GRID, rr.ApproximateMDP(0.05, 0.001)).claims()
    assert [(claim.about, claim.kind) for claim in plain] == [("accuracy", "proved")]
    with pytest.raises(InvalidInput, match=r"ReplicableApproximateMDP: calls="):
        rr.solve(GRID, rr.ReplicableApproximateMDP(1e-5, 1e-4, 1e-4, norm="l1"), shared_seed=1, sample_seed=1)
