"""One process has one set of arrays and one digest however it was written down; what is no process is refused."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import replicable_rl as rr
from replicable_rl.problem import Rows
from replicable_rl.runs import ObjectSpec

Outcomes = list[list[list[tuple[float, int, float]]]]
PARTS = 64
few = settings(max_examples=50, deadline=None)


# --- every builder gives the same canonical process ----------------------------------------------------------------


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Any, Any]:
    """P and R of shape (S, A, S), with dyadic probabilities, so that splitting an outcome in two is exact."""
    shape = (n_states := draw(st.integers(1, 4)), draw(st.integers(1, 3)), n_states)
    cuts = st.lists(st.integers(0, PARTS), min_size=n_states - 1, max_size=n_states - 1)
    P = np.array([np.diff([0, *sorted(draw(cuts)), PARTS]) / PARTS for _ in np.ndindex(shape[:2])]).reshape(shape)
    rewards = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0])
    return P, np.array(draw(st.lists(rewards, min_size=P.size, max_size=P.size))).reshape(shape)


def disordered(P: Any, R: Any, rng: random.Random) -> Outcomes:
    """The same process with outcomes split in two, impossible outcomes added, all in any order."""

    def row(s: int, a: int) -> list[tuple[float, int, float]]:
        mixed = [(0.0, rng.randrange(len(P)), 12345.0), (-0.0, 0, 0.5)]
        for n in range(len(P)):
            part = rng.randrange(PARTS) / PARTS * float(P[s, a, n])
            mixed += [(part, n, float(R[s, a, n])), (float(P[s, a, n]) - part, n, float(R[s, a, n]))]
        rng.shuffle(mixed)
        return mixed

    return [[row(s, a) for a in range(P.shape[1])] for s in range(P.shape[0])]


def row_of(mdp: rr.TabularMDP, s: int, a: int) -> list[tuple[int, float, float]]:
    part = mdp.rows.of_row(s * mdp.n_actions + a)
    return list(zip(*(column[part].tolist() for column in mdp.rows[1:]), strict=True))


def arrays_of(mdp: rr.TabularMDP) -> list[NDArray[Any]]:
    return [*mdp.rows, mdp.initial]


@few
@given(arrays(), st.randoms(use_true_random=False))
def test_every_way_of_writing_gives_the_same_bytes(table: tuple[Any, Any], rng: random.Random) -> None:
    P, R = table
    dense = rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="sas")
    for s, a in np.ndindex(P.shape[:2]):
        expected = [(n, P[s, a, n], R[s, a, n] + 0.0) for n in range(len(P)) if P[s, a, n] > 0.0]
        assert row_of(dense, s, a) == expected
    swapped = [np.ascontiguousarray(x.transpose(1, 0, 2)) for x in (P, R)]
    for other in (
        rr.TabularMDP.from_dense(*swapped, gamma=0.9, layout="ass"),
        rr.TabularMDP.from_outcomes(disordered(P, R, rng), gamma=0.9),
        rr.TabularMDP(dense.rows, n_actions=dense.n_actions, gamma=0.9),
    ):
        assert other == dense
        assert (other.digest, hash(other)) == (dense.digest, hash(dense))
        for mine, theirs in zip(arrays_of(dense), arrays_of(other), strict=True):
            assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes())


@few
@given(arrays(), st.sampled_from([sp.csr_array, sp.csc_array, sp.coo_array]))
def test_rewards_by_pair_and_by_state(table: tuple[Any, Any], kind: Any) -> None:
    P, R = table
    for short in (R[:, 0, 0], R[:, :, 0]):
        whole = np.broadcast_to(short.reshape(*short.shape, *[1] * (3 - short.ndim)), R.shape)
        expected = rr.TabularMDP.from_dense(P, whole, gamma=0.9, layout="sas")
        assert rr.TabularMDP.from_dense(P, short, gamma=0.9, layout="sas") == expected
        assert rr.TabularMDP.from_sparse([kind(P[:, a]) for a in range(P.shape[1])], short, gamma=0.9) == expected
        assert expected.known_rewards is not None
        assert not expected.known_rewards.flags.writeable
        assert (expected.known_rewards == whole[:, :, 0]).all()


def test_a_layout_that_the_shape_does_not_tell_must_be_named() -> None:
    P, R = np.array([[[0.9, 0.1], [0.2, 0.8]], [[1.0, 0.0], [0.5, 0.5]]]), np.eye(2)
    with pytest.raises(rr.InvalidInput, match=r"layout.*\(2, 2, 2\)"):
        rr.TabularMDP.from_dense(P, R, gamma=0.9)
    sas = rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="sas")
    assert sas == rr.TabularMDP.from_dense(P.transpose(1, 0, 2), R, gamma=0.9, layout="ass")
    assert sas != rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="ass")
    assert rr.TabularMDP.from_dense([[[1.0]]], [[2.0]], gamma=0.9).n_states == 1  # both layouts are the same


def test_the_order_of_equal_outcomes_is_irrelevant_to_the_last_bit() -> None:
    """0.1, 0.2 and 0.7 have sums that depend on the order of adding."""
    digests = set()
    for row in ((0.1, 0.2, 0.7), (0.7, 0.2, 0.1), (0.2, 0.7, 0.1)):
        digests.add(rr.TabularMDP.from_outcomes([[[*((p, 0, 0.0) for p in row), (0.0, 0, 3.0)]]], gamma=0.9).digest)
    assert len(digests) == 1
    several = rr.TabularMDP.from_outcomes([[[(0.25, 0, 1e308), (0.75, 0, -1e308)]]], gamma=0.5)
    assert row_of(several, 0, 0) == [(0, 0.75, -1e308), (0, 0.25, 1e308)]  # two rewards stay apart


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.floats(-0.99e-9, 0.99e-9))
def test_sums_within_tolerance_are_divided_out_once(weights: list[int], off: float) -> None:
    n, total = len(weights), sum(weights)
    row = [w / total * (1.0 + off) for w in weights]
    outcomes = [[[(p, k, 0.0) for k, p in enumerate(row)]]] * n
    mdp = rr.TabularMDP.from_outcomes(outcomes, gamma=0.9, initial=row)
    for kept in ([p for _, p, _ in row_of(mdp, 0, 0)], mdp.initial.tolist()):
        assert abs(sum(map(Fraction, kept), Fraction()) - 1) <= n * Fraction(1, 2**51)
    again = rr.TabularMDP(mdp.rows, n_actions=1, gamma=0.9, initial=mdp.initial)
    assert again.digest == mdp.digest
    if n == 1:
        assert mdp.rows.probability.tolist() == [1.0]


# --- what it is ----------------------------------------------------------------------------------------------------


def fresh_rows() -> Rows:
    indptr, next_state = np.array([0, 1, 3]), np.array([1, 0, 1], dtype=np.int32)
    return Rows(indptr, next_state, np.array([1.0, 0.5, 0.5]), np.array([0.0, 1.0, 2.0]))


def test_a_process_is_immutable_and_keeps_nothing_that_was_given() -> None:
    rows, initial = fresh_rows(), np.array([0.5, 0.5])
    views = Rows._make(array.view() for array in rows)
    for view in views:
        view.setflags(write=False)  # a read-only view of what can be written is copied all the same
    mdp = rr.TabularMDP(views, n_actions=1, gamma=0.9, initial=initial)
    before = [array.copy() for array in arrays_of(mdp)]
    given: list[Any] = [*rows, initial]
    for array in given:
        array[...] = 7
    for kept, array in zip(before, arrays_of(mdp), strict=True):
        assert kept.tobytes() == array.tobytes()
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
    for name in ("gamma", "rows", "initial", "labels", "n_states", "spec"):
        with pytest.raises(AttributeError):
            setattr(mdp, name, None)
        with pytest.raises(AttributeError):
            delattr(mdp, name)


def build(**changes: Any) -> rr.TabularMDP:
    """A process of four rows that makes sense as 2 states x 2 actions and as 4 x 1."""
    parts: dict[str, Any] = {
        "indptr": np.array([0, 2, 3, 4, 6]),
        "next_state": np.array([0, 1, 1, 0, 0, 1], dtype=np.int32),
        "probability": np.array([0.25, 0.75, 1.0, 1.0, 0.5, 0.5]),
        "reward": np.array([0.0, 1.0, 0.5, 0.0, 0.25, 1.0]),
        "n_actions": 2,
        "gamma": 0.9,
        "reward_range": (0.0, 1.0),
        **changes,
    }
    return rr.TabularMDP(Rows(*(np.asarray(parts.pop(name)) for name in Rows._fields)), **parts)


CHANGES: list[dict[str, Any]] = [
    {"gamma": math.nextafter(0.9, 1.0)},
    {"initial": [1.0, 0.0]},
    {"reward_range": (0.0, math.nextafter(1.0, 2.0))},
    {"probability": [0.25 + 2**-53, 0.75 - 2**-53, 1.0, 1.0, 0.5, 0.5]},
    {"next_state": [0, 1, 0, 0, 0, 1]},
    {"reward": [0.0, 1.0, 0.5, 5e-324, 0.25, 1.0]},
    {"indptr": [0, 2, 4, 5, 6], "probability": [0.25, 0.75, 0.5, 0.5, 1.0, 1.0], "next_state": [0, 1, 0, 1, 0, 1]},
    {"n_actions": 1, "initial": [0.25] * 4},
]
SAME: list[dict[str, Any]] = [
    {"labels": rr.problem.Labels(states=("a", "b"), actions=("l", "r"), layout=("..",))},
    {"initial": [0.5, 0.5]},
    {"reward_range": (-0.0, 1)},
    {"reward_range": None},
    {"reward": [-0.0, 1.0, 0.5, -0.0, 0.25, 1.0]},
    {"next_state": np.array([0, 1, 1, 0, 0, 1], dtype=np.uint8)},
    {"probability": np.array([0.25, 0.75, 1.0, 1.0, 0.5, 0.5], dtype=">f8")},
    {"estimated": True},
]


def test_the_digest_changes_with_every_part_of_the_content_and_with_nothing_else() -> None:
    digests = {build().digest, *(build(**change).digest for change in CHANGES)}
    assert len(digests) == len(CHANGES) + 1
    for change in SAME:
        assert build(**change) == build()
        assert [array.dtype for array in build(**change).rows] == [np.int64, np.int32, np.float64, np.float64]


def test_a_table_is_known_by_its_id_else_by_its_digest_and_says_whether_it_was_estimated() -> None:
    mdp, estimated = build(), build(estimated=True)
    assert mdp.spec == ObjectSpec("mdp", {"digest": mdp.digest})
    assert estimated.spec == ObjectSpec("mdp", {"digest": mdp.digest, "estimated": True})
    named = estimated.with_source(ObjectSpec("some-v1", {"n": 3}))
    assert (named.spec, named.estimated) == (ObjectSpec("some-v1", {"n": 3}), True)
    assert named.rows.probability is estimated.rows.probability
    copy = pickle.loads(pickle.dumps(named))  # noqa: S301
    assert (copy, copy.spec, copy.estimated) == (named, named.spec, True)
    assert not copy.rows.reward.flags.writeable


# --- bad input -----------------------------------------------------------------------------------------------------

ROW, NAN, INF = "(state 1, action 2)", math.nan, math.inf


def outcomes_with(row: Any) -> Any:
    outcomes: Any = [[[(0.5, 0, 0.0), (0.5, 2, 1.0)] for _ in range(3)] for _ in range(3)]
    outcomes[1][2] = row
    return outcomes


def from_outcomes(row: Any = ((1.0, 0, -3.0),), **options: Any) -> rr.TabularMDP:
    return rr.TabularMDP.from_outcomes(outcomes_with(row), **{"gamma": 0.9, **options})


def from_dense(row: Any, *, sparse: bool = False) -> rr.TabularMDP:
    P = np.full((3, 3, 3), [0.5, 0.25, 0.25])
    P[1, 2] = row
    if sparse:
        return rr.TabularMDP.from_sparse([sp.csr_array(P[:, a]) for a in range(3)], np.zeros(3), gamma=0.9)
    return rr.TabularMDP.from_dense(P, np.zeros(3), gamma=0.9, layout="sas")


def refused(make: Callable[[], rr.TabularMDP], *fragments: str) -> None:
    """What is wrong, and its value, are in the sentence."""
    with pytest.raises(rr.InvalidInput, match=r"^TabularMDP: ") as caught:
        make()
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ((0.5, 0.25, 0.25 + 2e-9), "1.000000002"),
        ((1.25, -0.25, 0.0), "-0.25"),
        ((NAN, 0.5, 0.5), "nan"),
        ((1e308, 1e308, 1e308), "inf"),
    ],
)
def test_bad_probabilities_are_refused_by_every_builder(row: tuple[float, ...], value: str) -> None:
    refused(lambda: from_dense(row), ROW, value)
    refused(lambda: from_dense(row, sparse=True), ROW, value)
    refused(lambda: from_outcomes([(p, n, 0.0) for n, p in enumerate(row)]), ROW, value)


def test_empty_rows_are_refused_by_every_builder() -> None:
    refused(lambda: from_outcomes([]), ROW, "empty", "allowed=")
    refused(lambda: from_dense(0.0), ROW, "empty")
    refused(lambda: from_dense(0.0, sparse=True), ROW, "empty")
    refused(lambda: from_outcomes([(0.0, 1, 0.0)]), ROW, "sums to 0")


BAD_TABLES: dict[str, tuple[Callable[[], rr.TabularMDP], tuple[str, ...]]] = {
    "a successor beyond 32 bits": (lambda: from_outcomes([(1.0, 2**32, 0.0)]), (ROW, "0..2", "4294967296")),
    "half a successor": (lambda: from_outcomes([(1.0, 0.5, 0.0)]), (ROW, "0.5")),
    "an infinite reward": (lambda: from_outcomes([(1.0, 0, -INF)]), (ROW, "-inf")),
    "no list": (lambda: rr.TabularMDP.from_outcomes(5, gamma=0.9), ("outcomes",)),  # type: ignore[arg-type]
    "a row that is no list": (lambda: from_outcomes(5), ("outcomes",)),
    "two parts": (lambda: from_outcomes([(1.0, 0)]), ("outcomes",)),
    "a text": (lambda: from_outcomes([(1.0, "x", 0.0)]), ("outcomes",)),
    "ragged actions": (
        lambda: rr.TabularMDP.from_outcomes([*outcomes_with([(1.0, 0, 0.0)])[:2], [None]], gamma=0.9),
        ("same number of actions", "1 and 3"),
    ),
    "no states": (lambda: rr.TabularMDP.from_outcomes([], gamma=0.9), ("must be an integer from 1",)),
    "no actions": (lambda: rr.TabularMDP(fresh_rows(), n_actions=0, gamma=0.9), ("must be an integer from 1",)),
    "no rows": (lambda: rr.TabularMDP([], n_actions=1, gamma=0.9), ("rows",)),  # type: ignore[arg-type]
    "P that is no table": (lambda: rr.TabularMDP.from_dense("text", [[0.0]], gamma=0.9), ("P",)),
    "P of two dimensions": (lambda: rr.TabularMDP.from_dense(np.eye(2), [0.0], gamma=0.9), ("(2, 2)",)),
    "another layout": (
        lambda: rr.TabularMDP.from_dense(np.ones((1, 2, 1)), [0.0], gamma=0.9, layout="ass"),
        ("layout='ass'",),
    ),
    "R by states or by actions": (
        lambda: rr.TabularMDP.from_dense(np.full((2, 2, 2), 0.5), [np.zeros(2), np.ones(2)], gamma=0.9, layout="ass"),
        ("R must be an (S, A) array", "one for each state or one for each action"),
    ),
    "R the wrong way": (lambda: rr.TabularMDP.from_dense(np.ones((1, 2, 1)), np.zeros((2, 1)), gamma=0.9), ("R ",)),
    "sparse and dense": (lambda: rr.TabularMDP.from_sparse([sp.eye_array(2), np.eye(2)], [0.0], gamma=0.9), ("P ",)),
    "not square": (lambda: rr.TabularMDP.from_sparse([sp.csr_array((2, 3))], [0.0], gamma=0.9), ("P ",)),
    "a range too narrow": (lambda: from_outcomes(reward_range=(-2.999, 2.0)), (ROW, "-3")),
    "a range upside down": (lambda: from_outcomes(reward_range=(2.0, -3.0)), ("low <= high", "(2.0, -3.0)")),
    "labels": (lambda: from_outcomes(labels=rr.problem.Labels(states=("a", "b"))), ("labels.states",)),
    "a ragged map": (lambda: from_outcomes(labels=rr.problem.Labels(layout=("..", "."))), ("labels.layout",)),
    "masked arrays": (
        lambda: rr.TabularMDP(Rows(*map(np.ma.masked_array, fresh_rows())), n_actions=1, gamma=0.9),
        ("masks",),
    ),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_what_is_no_table_is_refused(name: str) -> None:
    make, fragments = BAD_TABLES[name]
    refused(make, *fragments)


@pytest.mark.parametrize("gamma", [1, -5e-324, NAN, "0.9", None, True], ids=repr)
def test_bad_discounts_are_refused(gamma: Any) -> None:
    refused(lambda: from_outcomes(gamma=gamma), "gamma", str(gamma))
    assert from_outcomes(gamma=1 - 2**-53).gamma == 1 - 2**-53


@pytest.mark.parametrize("initial", [[0.5, 0.5], [0.5, 0.25, 0.25 + 2e-9], [0.75, -0.25, 0.5], [0.5, 0.5, NAN], "abc"])
def test_bad_initial_distributions_are_refused(initial: Any) -> None:
    refused(lambda: from_outcomes(initial=initial), "initial")


@pytest.mark.parametrize(
    "changes",
    [
        {"indptr": [0, 2, 3, 6]},
        {"indptr": [1, 2, 3, 4, 6]},
        {"indptr": [0, 3, 2, 4, 6]},
        {"indptr": [0, 2, 3, 4, 5]},
        {"indptr": [0.0, 2.0, 3.0, 4.0, 6.0]},
        {"reward": np.zeros(5)},
        {"reward": np.zeros(6, dtype=object)},
        {"next_state": np.zeros((6, 1), dtype=np.int32)},
        {"probability": np.ones(6, dtype=complex)},
    ],
    ids=str,
)
def test_rows_of_the_wrong_layout_are_refused(changes: dict[str, Any]) -> None:
    refused(lambda: build(**changes))


def test_absurd_sizes_are_refused_before_anything_is_allocated() -> None:
    rows = Rows(np.broadcast_to(np.int64(0), (2**31 + 1,)), np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0))
    refused(lambda: rr.TabularMDP(rows, n_actions=1, gamma=0.9), "2147483647", "2147483648")


# --- estimates, which are checked in one pass ----------------------------------------------------------------------


LOOPS = rr.TabularMDP.from_dense(np.eye(3)[:, None], np.zeros(3), gamma=0.25, layout="sas")


def arrays_or_refusal(rows: Rows, *, estimated: bool) -> Any:
    try:
        made = rr.TabularMDP.estimated_of(LOOPS, rows, None) if estimated else rr.TabularMDP(rows, n_actions=1, gamma=0)
    except rr.InvalidInput as refusal:
        return str(refusal)
    return [array.tobytes() for array in made.rows]


@example(counts=[[1, 2, 3]] * 3, off=1e-10, rewards=[0.0, 0.5, 0.5], step=1)  # divided out
@example(counts=[[1, 0, 0], [0, 2, 0], [0, 0, 3]], off=-3e-16, rewards=[0.0, 0.5, 0.5], step=1)  # of one outcome
@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=3, max_size=3),
    off=st.sampled_from([0.0, 1e-15, 3e-16, -3e-16, 1e-10, 1e-8]),
    rewards=st.lists(st.sampled_from([0.0, -0.0, 0.5, math.inf]), min_size=3, max_size=3),
    step=st.sampled_from([1, -1]),
)
def test_an_estimate_is_the_table_that_the_slower_check_makes(
    counts: list[list[int]], off: float, rewards: list[float], step: int
) -> None:
    shares = [np.array(row) / sum(row) * (1.0 + off) for row in counts]
    kept = [np.flatnonzero(row)[::step] for row in shares]
    lengths = [row.size for row in kept]
    probability = np.concatenate([row[columns] for row, columns in zip(shares, kept, strict=True)])
    indptr, next_state = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(kept).astype(np.int32)
    rows = Rows(indptr, next_state, probability, np.repeat(rewards, lengths))
    assert arrays_or_refusal(rows, estimated=True) == arrays_or_refusal(rows, estimated=False)


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("indptr", [0, 2, 2, 3]),
        ("indptr", [0, 5, 1, 3]),
        ("next_state", [0, 0, 3]),
        ("probability", [1.5, -0.5, 1.0]),
        ("reward", [0.0, math.nan, 0.0]),
    ],
)
def test_a_broken_estimate_is_refused_like_any_table(part: str, values: list[float]) -> None:
    sound = Rows(np.array([0, 1, 2, 3]), np.array([0, 1, 2], dtype=np.int32), np.ones(3), np.zeros(3))
    broken = sound._replace(**{part: np.array(values, dtype=sound._asdict()[part].dtype)})
    sentence = arrays_or_refusal(broken, estimated=True)
    assert sentence == arrays_or_refusal(broken, estimated=False)
    assert isinstance(sentence, str)
