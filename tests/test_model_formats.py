"""Models as other libraries have them, and back: layouts, sparse matrices, 32 bits, lists of transitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.errors import InvalidMDP

Floats = NDArray[np.float64]
few = settings(max_examples=30)


class Model(NamedTuple):
    """P (S, A, S), R (S, A, S), which actions are allowed, and the process in outcome form."""

    P: Floats
    R: Floats
    allowed: NDArray[np.bool_]
    mdp: rr.TabularMDP


@st.composite
def models(draw: Any, masked: bool | None = None) -> Model:
    S, A, seed = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.5), size=(S, A)) * (rng.random((S, A, S)) < 0.7)
    P[:, :, 0] += P.sum(axis=2) == 0.0
    P /= P.sum(axis=2, keepdims=True)
    R = rng.integers(-3, 4, size=(S, A, S)) / 4.0
    allowed = rng.random((S, A)) < 0.6 if draw(st.booleans()) or masked else np.ones((S, A), bool)
    allowed[np.arange(S), rng.integers(A, size=S)] = True
    initial = rng.dirichlet(np.ones(S))
    options: dict[str, Any] = {"gamma": 0.8, "allowed": allowed, "initial": initial, "reward_range": (-1.0, 1.0)}
    return Model(P, R, allowed, rr.TabularMDP.from_dense(P, R, layout="sas", **options))


def options_of(model: Model) -> dict[str, Any]:
    mdp = model.mdp
    return {"gamma": mdp.gamma, "initial": mdp.initial, "reward_range": mdp.reward_range}


def build(P: Any, R: Any, *, layout: Any = None, **options: Any) -> rr.TabularMDP:
    """Build from dense arrays, or from one sparse matrix for each action, which has one layout."""
    if sp.issparse(P) or (P is not None and len(P) > 0 and sp.issparse(P[0])):
        return rr.TabularMDP.from_sparse(P, R, **options)
    return rr.TabularMDP.from_dense(P, R, layout=layout, **options)


def swapped(table: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(table.transpose(1, 0, 2))


# --- arrays ------------------------------------------------------------------------------------------------------


@few
@given(models())
def test_every_layout_gives_one_process(model: Model) -> None:
    P, R, allowed, mdp = model
    by_action, rewards = swapped(P), swapped(R)
    sparse = [sp.csr_array(one) for one in by_action]
    objects = np.empty(len(sparse), dtype=object)
    objects[:] = sparse
    matrices: list[Any] = [sp.coo_matrix(one) for one in rewards]
    written: list[tuple[Any, Any, Any]] = [
        (P, R, "sas"),
        (by_action, rewards, "ass"),
        (list(by_action), list(rewards), "ass"),
        (by_action.tolist(), rewards.tolist(), "ass"),
        (sparse, matrices, "ass"),
        (objects, matrices, None),
    ]
    if P.shape[0] != P.shape[1]:
        written += [(P, R, None), (by_action, rewards, None), (tuple(sparse), matrices, None)]
    for one, two, layout in written:
        made = build(one, two, layout=layout, allowed=allowed, **options_of(model))
        assert made.digest == mdp.digest


@few
@given(models())
def test_rewards_of_every_shape(model: Model) -> None:
    P, R, allowed, _ = model
    of_state, of_pair = R[:, 0, 0], R[:, :, 0]
    for short in (of_state, of_pair):
        whole = np.broadcast_to(short.reshape(*short.shape, *[1] * (3 - short.ndim)), R.shape)
        expected = rr.TabularMDP.from_dense(P, whole, layout="sas", allowed=allowed, **options_of(model))
        layouts: Any = ((P, "sas"), (swapped(P), "ass"))
        for P_, layout in layouts:
            made = build(P_, short, layout=layout, allowed=allowed, **options_of(model))
            assert made == expected


def test_a_layout_that_cannot_be_told_must_be_named() -> None:
    P = np.array([[[0.9, 0.1], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]]])
    R = np.array([[0.0, 1.0], [0.5, 0.0]])
    for arrays in (P, list(P), P.tolist(), P.astype(np.float32)):
        with pytest.raises(InvalidMDP, match="layout='sas' or"):
            build(arrays, R, gamma=0.9)
    one, two = (build(P, R, gamma=0.9, layout=layout) for layout in ("sas", "ass"))
    assert one != two
    assert two == build(swapped(P), R, gamma=0.9, layout="sas")
    sparse = [sp.csr_array(P[a]) for a in range(2)]
    assert two == build(sparse, R, gamma=0.9)  # a list of matrices goes by action


def test_a_layout_that_the_shape_tells_need_not_be_named() -> None:
    P, R = np.random.default_rng(1).dirichlet(np.ones(2), (2, 3)), np.arange(6.0).reshape(2, 3)
    expected = rr.TabularMDP.from_dense(P, R, gamma=0.9)
    assert rr.TabularMDP.from_dense(swapped(P), R, gamma=0.9) == expected
    one = rr.TabularMDP.from_dense([[[1.0]]], [[2.0]], gamma=0.9)  # one state and one action: both are the same
    assert one == rr.TabularMDP.from_dense([[[1.0]]], [[2.0]], gamma=0.9, layout="ass")


def test_the_forest_of_pymdptoolbox() -> None:
    """The example of its documentation: values and policy as it prints them."""
    P = np.array([[[0.1, 0.9, 0.0], [0.1, 0.0, 0.9], [0.1, 0.0, 0.9]], [[1.0, 0.0, 0.0]] * 3])
    R = np.array([[0.0, 0.0], [0.0, 1.0], [4.0, 2.0]])
    for one in (P, [sp.csr_matrix(matrix) for matrix in P]):
        best = rr.optimal_values(build(one, R, gamma=0.9))
        np.testing.assert_allclose(best.value, [26.244, 29.484, 33.484], atol=1e-9)
        assert best.policy.tolist() == [0, 0, 0]


NO_LAYOUT: Any = "SAS"
P2, R2, I2 = np.full((2, 3, 2), 0.5), np.zeros((2, 3)), sp.eye_array(2)
WRONG: dict[str, tuple[Any, Any, Any, str]] = {
    "another layout": (P2, R2, NO_LAYOUT, "layout must be 'sas' or"),
    "the other layout": (P2, R2, "ass", r"P must have shape \(A, S, S\)"),
    "rewards that fit both": ([I2] * 2, np.zeros((2, 2, 2)), None, r"R must have shape \(S,\)"),
    "no table": (P2[0], R2, None, r"\(S, A, S\) or \(A, S, S\)"),
    "nothing": ([], [], None, r"got \(0,\)"),
    "None": (None, None, None, "P must be an array of numbers"),
    "rewards the wrong way": (P2, R2.T, None, r"R must have shape \(S,\)"),
    "rewards of the other layout": (P2, np.zeros((3, 2, 2)), None, r"got \(3, 2, 2\)"),
    "a reward of -inf": (P2, R2 - np.inf, None, "-inf"),
    "sparse of two sizes": ([I2, sp.eye_array(3)], np.zeros((2, 2)), None, "one per action"),
    "sparse, not square": ([sp.csr_array(np.ones((2, 3)))], np.zeros((2, 1)), None, "one per action"),
    "sparse and dense": ([I2, np.eye(2)], np.zeros((2, 2)), None, "one per action"),
    "sparse rewards of another size": ([I2], [sp.eye_array(3)], None, "shaped like P"),
    "too few sparse rewards": ([I2] * 2, [I2], None, "shaped like P"),
    "one sparse matrix": (I2, R2, None, "P must be"),
    "an empty row": (0 * P2, R2, None, "allowed="),
}


def test_rewards_whose_layout_is_plain_are_read() -> None:
    by_action, paid = (
        [sp.eye_array(2)] * 2,
        np.array([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]]),
    )  # R[a, s, s']
    named = build([np.eye(2)] * 2, paid, gamma=0.5, layout="ass")
    assert named.rows.reward.tolist() == [0.0, 4.0, 3.0, 7.0]  # of (s, a), which stays in s
    for R in (np.array([[0.0, 4.0], [3.0, 7.0]]), [[0.0, 4.0], [3.0, 7.0]], [sp.csr_array(one) for one in paid]):
        assert build(by_action, R, gamma=0.5, layout="ass") == named
    P = np.eye(2)[:, None, :].repeat(2, axis=1)
    assert rr.TabularMDP.from_dense(P, [np.array([0.0, 4.0]), np.array([3.0, 7.0])], gamma=0.5, layout="sas") == named


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_are_refused(name: str) -> None:
    P, R, layout, words = WRONG[name]
    with pytest.raises(rr.InvalidInput, match=rf"^TabularMDP: .*{words}"):
        build(P, R, gamma=0.5, layout=layout)


# --- and back ----------------------------------------------------------------------------------------------------


@few
@given(models(), st.booleans())
def test_to_dense_and_back(model: Model, of_pairs: bool) -> None:
    P, R, allowed, mdp = model
    if of_pairs:
        mdp = rr.TabularMDP.from_dense(P, R[:, :, 0], layout="sas", allowed=allowed, **options_of(model))
    dense = mdp.to_dense()
    assert dense.allowed.tolist() == allowed.tolist()
    again = build(dense.P, dense.R, layout="sas", allowed=dense.allowed, **options_of(model))
    assert again == mdp
    assert (dense.P[~allowed] == 0.0).all()
    if dense.R.ndim == 2:
        assert np.isneginf(dense.R[~allowed]).all()


def test_dense_rewards_are_means_where_a_transition_has_several() -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(0.25, 0, 1.0), (0.75, 0, 5.0)]]], gamma=0.5)
    assert mdp.to_dense().R.tolist() == [[[4.0]]]
    assert mdp.to_dense().P.tolist() == [[[1.0]]]
