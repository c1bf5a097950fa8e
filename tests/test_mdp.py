"""One process has one set of arrays however it was written down, and what is no process is refused."""

from __future__ import annotations

import math
import pickle
import random
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.problem import Labels
from replicable_rl.problem.rows import Rows
from replicable_rl.runs import ObjectSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Outcomes = list[list[list[tuple[float, int, float]]]]


# --- every builder gives the same canonical process ------------------------------------------


class Tables(NamedTuple):
    """Dense arrays with dyadic probabilities, so that splitting an outcome in two is exact."""

    P: NDArray[np.float64]
    R: NDArray[np.float64]
    gamma: float


PARTS = 64


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    n_states, n_actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shape = (n_states, n_actions, n_states)
    P = np.zeros(shape)
    for s, a in np.ndindex(n_states, n_actions):
        cuts = draw(st.lists(st.integers(0, PARTS), min_size=n_states - 1, max_size=n_states - 1))
        P[s, a] = np.diff([0, *sorted(cuts), PARTS]) / PARTS
    rewards = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0])
    R = np.array(draw(st.lists(rewards, min_size=P.size, max_size=P.size))).reshape(shape)
    return Tables(P, R, draw(st.floats(0.0, 1.0, exclude_max=True)))


def as_outcomes(P: NDArray[np.float64], R: NDArray[np.float64]) -> Outcomes:
    n_states, n_actions, _ = P.shape
    return [
        [[(float(P[s, a, n]), n, float(R[s, a, n])) for n in range(n_states)] for a in range(n_actions)]
        for s in range(n_states)
    ]


def disordered(outcomes: Outcomes, rng: random.Random) -> Outcomes:
    """The same process with outcomes split in two, impossible ones added, all in any order."""

    def disorder(row: list[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
        mixed = []
        for p, successor, reward in row:
            part = rng.randrange(PARTS) / PARTS * p
            mixed += [(part, successor, reward), (p - part, successor, reward)]
        mixed += [(0.0, rng.randrange(len(outcomes)), 12345.0), (-0.0, 0, 0.5)]
        rng.shuffle(mixed)
        return mixed

    return [[disorder(row) for row in actions] for actions in outcomes]


def expected_row(P: NDArray[np.float64], R: NDArray[np.float64], s: int, a: int) -> list[tuple[int, float, float]]:
    return [(n, float(P[s, a, n]), float(R[s, a, n]) + 0.0) for n in range(P.shape[0]) if P[s, a, n] > 0]


def row_of(mdp: rr.TabularMDP, s: int, a: int) -> list[tuple[int, float, float]]:
    part = mdp.rows.of_row(s * mdp.n_actions + a)
    return list(
        zip(
            mdp.rows.next_state[part].tolist(),
            mdp.rows.probability[part].tolist(),
            mdp.rows.reward[part].tolist(),
            strict=True,
        )
    )


def arrays_of(mdp: rr.TabularMDP) -> list[NDArray[Any]]:
    return [*mdp.rows, mdp.initial]


@settings(max_examples=100, deadline=None)
@given(tables(), st.randoms(use_true_random=False), st.sampled_from([sp.csr_array, sp.csc_array, sp.coo_array]))
def test_dense_sparse_and_outcomes_give_one_process(t: Tables, rng: random.Random, layout: Any) -> None:
    dense = rr.TabularMDP.from_dense(t.P, t.R, gamma=t.gamma, layout="sas")
    for s, a in np.ndindex(t.P.shape[:2]):
        assert row_of(dense, s, a) == expected_row(t.P, t.R, s, a)
    matrices = [layout(t.P[:, a]) for a in range(t.P.shape[1])]
    reward_matrices = [layout(t.R[:, a]) for a in range(t.P.shape[1])]
    others = [
        rr.TabularMDP.from_outcomes(as_outcomes(t.P, t.R), gamma=t.gamma),
        rr.TabularMDP.from_outcomes(disordered(as_outcomes(t.P, t.R), rng), gamma=t.gamma),
        rr.TabularMDP.from_sparse(matrices, reward_matrices, gamma=t.gamma),
        rr.TabularMDP(dense.rows, n_actions=dense.n_actions, gamma=t.gamma),
    ]
    for other in others:
        assert other.digest == dense.digest
        assert other == dense
        assert hash(other) == hash(dense)
        for mine, theirs in zip(arrays_of(dense), arrays_of(other), strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.tobytes() == theirs.tobytes()


@settings(max_examples=50, deadline=None)
@given(tables())
def test_rewards_of_pairs_are_rewards_of_all_their_transitions(t: Tables) -> None:
    per_pair = t.R[:, :, 0]
    short = rr.TabularMDP.from_dense(t.P, per_pair, gamma=t.gamma, layout="sas")
    long = rr.TabularMDP.from_dense(
        t.P, np.repeat(per_pair[:, :, None], t.P.shape[0], axis=2), gamma=t.gamma, layout="sas"
    )
    matrices = [sp.csr_array(t.P[:, a]) for a in range(t.P.shape[1])]
    sparse = rr.TabularMDP.from_sparse(matrices, per_pair, gamma=t.gamma)
    assert short.digest == long.digest == sparse.digest
    assert short.known_rewards is not None
    assert (short.known_rewards == per_pair).all()


pieces = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(0, 1), st.sampled_from([0.0, 0.5])), min_size=1, max_size=8
)


@settings(max_examples=200, deadline=None)
@given(pieces, st.randoms(use_true_random=False))
def test_the_order_of_outcomes_is_irrelevant_to_the_last_bit(
    drawn: list[tuple[int, int, float]], rng: random.Random
) -> None:
    # Three equal outcomes of 0.1, 0.2 and 0.7 have sums that depend on the order of adding.
    total = sum(weight for weight, _, _ in drawn)
    row = [(weight / total, successor, reward) for weight, successor, reward in drawn]
    other = list(row)
    rng.shuffle(other)
    loop = [(1.0, 1, 0.0)]
    one = rr.TabularMDP.from_outcomes([[row], [loop]], gamma=0.9)
    two = rr.TabularMDP.from_outcomes([[other], [loop]], gamma=0.9)
    assert one.digest == two.digest
    exact: defaultdict[tuple[int, float], Fraction] = defaultdict(Fraction)
    for weight, successor, reward in drawn:
        exact[successor, reward] += Fraction(weight, total)
    assert [(n, r) for n, _, r in row_of(one, 0, 0)] == sorted(exact)
    for n, p, r in row_of(one, 0, 0):
        assert abs(Fraction(p) - exact[n, r]) <= len(drawn) * Fraction(1, 2**52)


def test_three_equal_outcomes_merge_alike_in_every_order() -> None:
    digests = set()
    for probabilities in ((0.1, 0.2, 0.7), (0.7, 0.2, 0.1), (0.2, 0.7, 0.1)):
        row = [(p, 0, 0.0) for p in probabilities]
        digests.add(rr.TabularMDP.from_outcomes([[[*row, (0.0, 0, 3.0)]]], gamma=0.9).digest)
    assert len(digests) == 1


def test_outcomes_with_one_successor_and_two_rewards_stay_apart() -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(0.25, 0, 2.0), (0.75, 0, -1.0)]]], gamma=0.5)
    assert row_of(mdp, 0, 0) == [(0, 0.75, -1.0), (0, 0.25, 2.0)]
    assert mdp.known_rewards is None


def test_duplicate_entries_of_sparse_matrices_add_up() -> None:
    doubled = sp.coo_array(([0.25, 0.75, 1.0], ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
    mdp = rr.TabularMDP.from_sparse([doubled], np.array([[2.0], [3.0]]), gamma=0.5)
    assert row_of(mdp, 0, 0) == [(1, 1.0, 2.0)]


def test_known_rewards_are_read_only_and_none_when_random() -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(0.5, 0, 2.0), (0.5, 1, 2.0)]], [[(1.0, 0, -3.0)]]], gamma=0.5)
    table = mdp.known_rewards
    assert table is not None
    assert table.tolist() == [[2.0], [-3.0]]
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1.0
    random_rewards = rr.TabularMDP.from_outcomes([[[(0.5, 0, 2.0), (0.5, 1, 3.0)]], [[(1.0, 0, -3.0)]]], gamma=0.5)
    assert random_rewards.known_rewards is None


def test_what_was_given_is_what_is_there() -> None:
    labels = Labels(states=("left", "right"), actions=("stay", "go"), layout=("#.", ".#"))
    stay, go = [(1.0, 0, 0.0)], [(0.5, 0, 0.0), (0.5, 1, 1.0)]
    mdp = rr.TabularMDP.from_outcomes(
        [[stay, go], [go, stay]], gamma=0.75, initial=[0.25, 0.75], reward_range=(-1, 2), labels=labels
    )
    assert (mdp.n_states, mdp.n_actions, mdp.gamma) == (2, 2, 0.75)
    assert mdp.initial.tolist() == [0.25, 0.75]
    assert mdp.reward_range == (-1.0, 2.0)
    assert mdp.labels == labels
    assert mdp.rows.indptr.tolist() == [0, 1, 3, 5, 6]
    assert repr(mdp) == "TabularMDP(S=2, A=2, outcomes=6, gamma=0.75)"
    plain = rr.TabularMDP.from_outcomes([[stay, go], [go, stay]], gamma=0.75)
    assert plain.initial.tolist() == [0.5, 0.5]
    assert plain.reward_range == (0.0, 1.0)
    assert plain.labels == Labels()


@pytest.mark.parametrize("gamma", [0, 0.0, -0.0, 0.5, np.float64(0.25), np.float32(0.5), 1 - 2**-53])
def test_every_discount_below_one_is_accepted(gamma: float) -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(1.0, 0, 0.0)]]], gamma=gamma)
    assert type(mdp.gamma) is float
    assert mdp.gamma == float(gamma)


# --- normalisation ---------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.floats(-0.99e-9, 0.99e-9))
def test_sums_within_tolerance_are_divided_out_once(weights: list[int], off: float) -> None:
    total = sum(weights)
    given_row = [w / total * (1.0 + off) for w in weights]
    n = len(weights)
    outcomes = [[[(p, k, 0.0) for k, p in enumerate(given_row)]] for _ in range(n)]
    mdp = rr.TabularMDP.from_outcomes(outcomes, gamma=0.9)
    kept = [p for _, p, _ in row_of(mdp, 0, 0)]
    assert abs(sum((Fraction(p) for p in kept), Fraction()) - 1) <= n * Fraction(1, 2**51)
    for p, w in zip(kept, weights, strict=True):
        assert abs(Fraction(p) / Fraction(w, total) - 1) <= (2 * n + 4) * Fraction(1, 2**53)
    again = rr.TabularMDP(mdp.rows, n_actions=1, gamma=0.9)
    assert again.rows.probability.tobytes() == mdp.rows.probability.tobytes()
    assert again.digest == mdp.digest


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.floats(-0.99e-9, 0.99e-9))
def test_the_first_state_is_normalised_like_the_rows(weights: list[int], off: float) -> None:
    n, total = len(weights), sum(weights)
    given_start = np.array([w / total * (1.0 + off) for w in weights])
    outcomes = [[[(1.0, 0, 0.0)]]] * n
    mdp = rr.TabularMDP.from_outcomes(outcomes, gamma=0.9, initial=given_start)
    assert abs(sum((Fraction(float(p)) for p in mdp.initial), Fraction()) - 1) <= n * Fraction(1, 2**51)
    again = rr.TabularMDP.from_outcomes(outcomes, gamma=0.9, initial=mdp.initial)
    assert again.initial.tobytes() == mdp.initial.tobytes()


@pytest.mark.parametrize("parts", [(0.05, 0.4, 1 - 0.4 - 0.05), (0.1,) * 10, (1.0 - 2**-53,), (1.0 + 5e-10,)], ids=repr)
def test_a_sure_outcome_has_probability_one_exactly(parts: tuple[float, ...]) -> None:
    mdp = rr.TabularMDP.from_outcomes([[[(p, 0, 0.0) for p in parts]]], gamma=0.9)
    assert mdp.rows.probability.tolist() == [1.0]


def test_sums_off_by_rounding_only_are_left_alone() -> None:
    row = [(0.1, n, 0.0) for n in range(10)]  # 0.1 added ten times is 1 - 2**-53
    mdp = rr.TabularMDP.from_outcomes([[row]] * 10, gamma=0.9)
    assert (mdp.rows.probability == 0.1).all()
    two = [(0.5, 0, 0.0), (0.5 + 2**-52, 1, 0.0)]  # two units of 2**-53, what two roundings can do
    assert row_of(rr.TabularMDP.from_outcomes([[two]] * 2, gamma=0.9), 0, 0)[1][1] == 0.5 + 2**-52


# --- immutability ----------------------------------------------------------------------------


def fresh_rows() -> Rows:
    return Rows(
        np.array([0, 1, 3], dtype=np.int64),
        np.array([1, 0, 1], dtype=np.int32),
        np.array([1.0, 0.5, 0.5]),
        np.array([0.0, 1.0, 2.0]),
    )


def test_the_arrays_of_a_process_are_read_only() -> None:
    mdp = rr.TabularMDP(fresh_rows(), n_actions=1, gamma=0.9, initial=[0.5, 0.5])
    for array in (*mdp.rows, mdp.initial):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for name in ("gamma", "rows", "initial", "labels", "reward_range", "n_states", "n_actions", "spec"):
        with pytest.raises(AttributeError):
            setattr(mdp, name, None)
        with pytest.raises(AttributeError):
            delattr(mdp, name)


def test_the_arrays_that_were_given_stay_writeable_and_have_no_more_say() -> None:
    P = np.array([[[0.5, 0.5]], [[0.0, 1.0]]])
    R = np.array([[1.0], [0.0]])
    initial = np.array([1.0, 0.0])
    matrix = sp.csr_array(P[:, 0])
    rows = fresh_rows()
    built: list[tuple[rr.TabularMDP, tuple[NDArray[Any], ...]]] = [
        (rr.TabularMDP.from_dense(P, R, gamma=0.9, initial=initial), (P, R, initial)),
        (rr.TabularMDP.from_sparse([matrix], R, gamma=0.9, initial=initial), (matrix.data, R, initial)),
        (rr.TabularMDP(rows, n_actions=1, gamma=0.9, initial=initial), (*rows, initial)),
    ]
    for mdp, arrays in built:
        before = [array.copy() for array in arrays_of(mdp)]
        for array in arrays:
            assert array.flags.writeable
            kept = array.copy()
            array[...] = 7
            for then, now in zip(before, arrays_of(mdp), strict=True):
                assert then.tobytes() == now.tobytes()
            array[...] = kept


def test_a_read_only_view_of_an_array_that_can_be_written_is_copied() -> None:
    rows = fresh_rows()
    views: list[Any] = []
    for array in rows:
        view = array.view()
        view.setflags(write=False)
        views.append(view)
    mdp = rr.TabularMDP(Rows(*views), n_actions=1, gamma=0.9)
    for array in rows:
        array[...] = 1
    assert mdp.rows.indptr.tolist() == [0, 1, 3]
    assert mdp.rows.next_state.tolist() == [1, 0, 1]
    assert mdp.rows.probability.tolist() == [1.0, 0.5, 0.5]
    assert mdp.rows.reward.tolist() == [0.0, 1.0, 2.0]


# --- the digest ------------------------------------------------------------------------------


def build(**changes: Any) -> rr.TabularMDP:
    """A process of four rows that makes sense as 2 states x 2 actions and as 4 x 1."""
    parts: dict[str, Any] = {
        "indptr": [0, 2, 3, 4, 6],
        "next_state": [0, 1, 1, 0, 0, 1],
        "probability": [0.25, 0.75, 1.0, 1.0, 0.5, 0.5],
        "reward": [0.0, 1.0, 0.5, 0.0, 0.25, 1.0],
        "n_actions": 2,
        "gamma": 0.9,
        "initial": None,
        "reward_range": (0.0, 1.0),
        "labels": None,
    }
    parts |= changes
    rows = Rows(*(np.array(parts.pop(name)) for name in ("indptr", "next_state", "probability", "reward")))
    return rr.TabularMDP(rows, **parts)


CHANGES: list[dict[str, Any]] = [
    {"gamma": math.nextafter(0.9, 1.0)},
    {"gamma": 0.0},
    {"initial": [1.0, 0.0]},
    {"initial": [0.5 + 2**-53, 0.5 - 2**-53]},
    {"reward_range": (0.0, math.nextafter(1.0, 2.0))},
    {"reward_range": (-5e-324, 1.0)},
    {"probability": [0.25 + 2**-53, 0.75 - 2**-53, 1.0, 1.0, 0.5, 0.5]},
    {"probability": [0.75, 0.25, 1.0, 1.0, 0.5, 0.5]},
    {"next_state": [0, 1, 0, 0, 0, 1]},
    {"reward": [0.0, 1.0, 0.5, 5e-324, 0.25, 1.0]},
    {"indptr": [0, 2, 4, 5, 6], "probability": [0.25, 0.75, 0.5, 0.5, 1.0, 1.0], "next_state": [0, 1, 0, 1, 0, 1]},
    {"n_actions": 1, "initial": [0.25] * 4},
]


def test_the_digest_changes_with_every_part_of_the_content() -> None:
    digests = [build().digest, *(build(**change).digest for change in CHANGES)]
    assert len(set(digests)) == len(digests)
    assert all(len(digest) == 64 for digest in digests)
    for change in CHANGES:
        assert build(**change) != build()


def test_the_digest_does_not_change_with_names_spelling_or_types() -> None:
    same = [
        build(labels=Labels(states=("a", "b"))),
        build(labels=Labels(actions=("l", "r"), layout=("..",))),
        build().with_source(ObjectSpec("some-v1")),
        build(initial=[0.5, 0.5]),
        build(reward_range=(-0.0, 1)),
        build(reward_range=None),
        build(reward=[-0.0, 1.0, 0.5, -0.0, 0.25, 1.0]),
        build(gamma=np.float64(0.9)),
        build(next_state=np.array([0, 1, 1, 0, 0, 1], dtype=np.int64)),
        build(next_state=np.array([0, 1, 1, 0, 0, 1], dtype=np.uint8)),
        build(probability=np.array([0.25, 0.75, 1.0, 1.0, 0.5, 0.5], dtype=">f8")),
        build(probability=np.array([0.25, 0.75, 1.0, 1.0, 0.5, 0.5], dtype=np.float32)),
    ]
    for mdp in same:
        assert mdp.digest == build().digest
        assert [array.dtype for array in mdp.rows] == [np.int64, np.int32, np.float64, np.float64]


def test_sources_change_without_touching_the_original() -> None:
    mdp = build()
    named = mdp.with_source(ObjectSpec("some-v1", {"n": 3}))
    assert named.spec == ObjectSpec("some-v1", {"n": 3})
    assert mdp.spec == ObjectSpec("mdp", {"digest": mdp.digest})
    assert named.rows.probability is mdp.rows.probability


# --- what is known of it -----------------------------------------------------------------------


@given(tables())
def test_rewards_are_known_exactly_where_every_outcome_of_a_pair_has_the_same(table: Tables) -> None:
    mdp = rr.TabularMDP.from_dense(table.P, table.R, gamma=table.gamma, layout="sas")
    possible = [table.R[s, a][table.P[s, a] > 0] for s, a in np.ndindex(table.P.shape[:2])]
    known = mdp.known_rewards
    assert (known is not None) == all(np.unique(rewards).size == 1 for rewards in possible)
    if known is not None:
        assert known.reshape(-1).tolist() == [rewards[0] for rewards in possible]
        assert not known.flags.writeable
    by_pair = rr.TabularMDP.from_dense(table.P, table.R[:, :, 0], gamma=table.gamma, layout="sas")
    assert by_pair.known_rewards is not None
    assert by_pair.known_rewards.tolist() == (table.R[:, :, 0] + 0.0).tolist()


def test_a_table_says_whether_it_was_estimated() -> None:
    P, R = np.ones((1, 1, 1)), np.ones((1, 1))
    true, estimated = (rr.TabularMDP.from_dense(P, R, gamma=0.5, estimated=one) for one in (False, True))
    assert (true.estimated, estimated.estimated) == (False, True)
    assert true == estimated  # the same numbers
    assert true.spec == ObjectSpec("mdp", {"digest": true.digest})
    assert estimated.spec == ObjectSpec("mdp", {"digest": true.digest, "estimated": True})
    assert pickle.loads(pickle.dumps(estimated)).estimated  # noqa: S301
    assert estimated.with_source(ObjectSpec("mine-v1")).estimated


@given(st.lists(st.text("#.SGF", min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_cells_of_a_map_are_its_states_line_by_line(lines: list[str]) -> None:
    cells = list(Labels(layout=tuple(lines)).cells())
    assert [(cell.row, cell.column) for cell in cells] == list(np.ndindex(len(lines), 3))
    assert "".join(cell.letter for cell in cells) == "".join(lines)
    assert [cell.state for cell in cells if cell.letter == "#"] == [None] * "".join(lines).count("#")
    states = [cell.state for cell in cells if cell.letter != "#"]
    assert states == list(range(len(states)))
    assert {cell.letter for cell in cells if cell.open} <= set(".SF")
    assert not any(cell.letter in ".SF" for cell in cells if not cell.open)
    assert list(Labels().cells()) == []


# --- bad input -------------------------------------------------------------------------------

ROW = "(state 1, action 2)"
NAN, INF = float("nan"), float("inf")


def good_outcomes() -> Outcomes:
    return [[[(0.5, 0, 0.0), (0.5, 2, 1.0)] for _ in range(3)] for _ in range(3)]


def with_row(row: Any) -> Any:
    outcomes: Any = good_outcomes()
    outcomes[1][2] = row
    return outcomes


def from_outcomes(outcomes: Any, **options: Any) -> rr.TabularMDP:
    return rr.TabularMDP.from_outcomes(outcomes, **{"gamma": 0.9, **options})


def dense_arrays() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    P = np.full((3, 3, 3), [0.5, 0.25, 0.25])
    return P, np.zeros((3, 3, 3))


def from_dense_with(row: Any) -> rr.TabularMDP:
    P, R = dense_arrays()
    P[1, 2] = row
    return rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="sas")


def from_sparse_with(row: Any) -> rr.TabularMDP:
    P, R = dense_arrays()
    P[1, 2] = row
    return rr.TabularMDP.from_sparse([sp.csr_array(P[:, a]) for a in range(3)], R[:, :, 0], gamma=0.9)


def from_rows_with(**changes: Any) -> rr.TabularMDP:
    mdp = from_outcomes(good_outcomes())
    arrays = {name: np.array(array) for name, array in mdp.rows._asdict().items()} | changes
    return rr.TabularMDP(Rows(**arrays), n_actions=3, gamma=0.9)


def from_rows_with_entry(name: str, value: float, dtype: Any = None) -> rr.TabularMDP:
    array = np.array(getattr(from_outcomes(good_outcomes()).rows, name), dtype=dtype)
    array[2 * 5 + 1] = value  # the second outcome of (state 1, action 2)
    return from_rows_with(**{name: array})


def check_refused(make: Callable[[], rr.TabularMDP], *fragments: str) -> None:
    """What was given wrong, and its value, are in the sentence."""
    with pytest.raises(rr.InvalidInput) as caught:
        make()
    assert str(caught.value).startswith("TabularMDP: ")
    for fragment in fragments:
        assert fragment in str(caught.value)


BAD_PROBABILITIES = [
    ((0.5, 0.25, 0.25 + 2e-9), "1.000000002"),
    ((0.5, 0.25, 0.25 - 2e-9), "0.999999998"),
    ((1.0, 1.0, 1.0), "3"),
    ((1.25, -0.25, 0.0), "-0.25"),
    ((NAN, 0.5, 0.5), "nan"),
    ((0.5, 0.5, INF), "inf"),
    ((1e308, 1e308, 1e308), "inf"),
]


@pytest.mark.parametrize(("row", "value"), BAD_PROBABILITIES, ids=repr)
def test_bad_probabilities_are_refused_by_every_builder(row: tuple[float, ...], value: str) -> None:
    check_refused(lambda: from_dense_with(row), ROW, value)
    check_refused(lambda: from_sparse_with(row), ROW, value)
    check_refused(lambda: from_outcomes(with_row([(p, n, 0.0) for n, p in enumerate(row)])), ROW, value)


def test_several_bad_rows_are_counted() -> None:
    outcomes = good_outcomes()
    outcomes[1][2] = outcomes[2][0] = [(0.5, 0, 0.0)]
    check_refused(lambda: from_outcomes(outcomes), ROW, "0.5", "2 rows")


@pytest.mark.parametrize("successor", [3, -1, 2**31, 2**32, -(2**40)])
def test_successors_out_of_range_are_refused(successor: int) -> None:
    check_refused(lambda: from_outcomes(with_row([(0.5, 0, 0.0), (0.5, successor, 0.0)])), ROW, "0..2", f" {successor}")
    check_refused(lambda: from_rows_with_entry("next_state", successor, dtype=np.int64), ROW, "0..2", f" {successor}")


@pytest.mark.parametrize("successor", [0.5, NAN, INF, None])
def test_successors_that_are_no_states_are_refused(successor: Any) -> None:
    check_refused(lambda: from_outcomes(with_row([(0.5, 0, 0.0), (0.5, successor, 0.0)])), ROW)


def test_enormous_rewards_are_compared_without_overflow() -> None:
    row = [(0.5, 0, 1e308), (0.5, 0, -1e308)]
    assert row_of(from_outcomes([[row]]), 0, 0) == [(0, 0.5, -1e308), (0, 0.5, 1e308)]
    assert from_outcomes([[row[::-1]]]) == from_outcomes([[row]])


def test_arrays_of_the_wrong_type_are_refused() -> None:
    good = from_outcomes(good_outcomes()).rows
    check_refused(lambda: from_rows_with(next_state=good.next_state + 0.5), "next_state")
    check_refused(lambda: from_rows_with(indptr=good.indptr.astype(float)), "indptr")
    check_refused(lambda: from_rows_with(probability=good.probability.astype(complex)), "probability")
    check_refused(lambda: from_rows_with(reward=good.reward.astype(object)), "reward")


@pytest.mark.parametrize(("reward", "value"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf")])
def test_rewards_that_are_not_finite_are_refused(reward: float, value: str) -> None:
    check_refused(lambda: from_outcomes(with_row([(0.5, 0, 0.0), (0.5, 1, reward)])), ROW, value)
    P, R = dense_arrays()
    R[1, 2, 0] = reward
    check_refused(lambda: rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="sas"), ROW, value)
    matrices, rewards = ([sp.csr_array(one[:, a]) for a in range(3)] for one in (P, R))
    check_refused(lambda: rr.TabularMDP.from_sparse(matrices, rewards, gamma=0.9), ROW, value)


@pytest.mark.parametrize(
    ("declared", "fragments"),
    [
        ((-3.0, 0.5), ("[-3, 0.5]", "(state 0, action 0)", "has 1")),
        ((-2.999, 2.0), (ROW, "-3")),
        ((2.0, -3.0), ("low <= high", "(2.0, -3.0)")),
        ((NAN, 1.0), ("reward_range", "nan")),
        ((-3.0, INF), ("reward_range", "inf")),
        ((-3.0, 1.0, 2.0), ("reward_range",)),
        (5.0, ("reward_range", "5.0")),
    ],
    ids=repr,
)
def test_rewards_outside_the_declared_range_and_bad_ranges_are_refused(
    declared: Any, fragments: tuple[str, ...]
) -> None:
    outcomes = with_row([(1.0, 0, -3.0)])
    check_refused(lambda: from_outcomes(outcomes, reward_range=declared), *fragments)
    assert from_outcomes(outcomes, reward_range=(-3.0, 1.0)).reward_range == (-3.0, 1.0)  # it may be attained


@pytest.mark.parametrize("gamma", [1, 1.5, -5e-324, NAN, "0.9", None, True, [0.9]], ids=repr)
def test_bad_discounts_are_refused(gamma: Any) -> None:
    check_refused(lambda: from_outcomes(good_outcomes(), gamma=gamma), "gamma", str(gamma))


@pytest.mark.parametrize(
    "initial",
    [
        [0.5, 0.5],
        [[0.5, 0.25, 0.25]],
        [0.5, 0.25, 0.25 + 2e-9],
        [0.0, 0.0, 0.0],
        [0.75, -0.25, 0.5],
        [0.5, 0.5, NAN],
        [1e308, 1e308, 1e308],
        "abc",
    ],
    ids=repr,
)
def test_bad_initial_distributions_are_refused(initial: Any) -> None:
    check_refused(lambda: from_outcomes(good_outcomes(), initial=initial), "initial")


def test_empty_rows_are_refused_by_every_builder() -> None:
    check_refused(lambda: from_outcomes(with_row([])), ROW, "empty")
    check_refused(lambda: from_dense_with(0.0), ROW, "empty")
    check_refused(lambda: from_sparse_with(0.0), ROW, "empty")
    check_refused(lambda: from_outcomes(with_row([(0.0, 1, 0.0)])), ROW, "sums to 0")
    empty = sp.csr_array((2, 2))
    check_refused(lambda: rr.TabularMDP.from_sparse([empty], [empty], gamma=0.9), "(state 0, action 0)")


NOTHING: dict[str, Callable[[], rr.TabularMDP]] = {
    "no states, outcomes": lambda: from_outcomes([]),
    "no states, dense": lambda: rr.TabularMDP.from_dense(np.zeros((0, 2, 0)), np.zeros((0, 2)), gamma=0.9),
    "no actions, outcomes": lambda: from_outcomes([[], []]),
    "no actions, dense": lambda: rr.TabularMDP.from_dense(np.zeros((2, 0, 2)), np.zeros((2, 0)), gamma=0.9),
    "no actions, rows": lambda: rr.TabularMDP(fresh_rows(), n_actions=0, gamma=0.9),
    "fewer than no actions, rows": lambda: rr.TabularMDP(fresh_rows(), n_actions=-1, gamma=0.9),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_no_process(name: str) -> None:
    check_refused(NOTHING[name], "must be an integer from 1")


def test_absurd_sizes_are_refused_before_anything_is_allocated() -> None:
    # A table of 2**31 states, which 32-bit successors cannot name, without the memory for it.
    many = Rows(np.broadcast_to(np.int64(0), (2**31 + 1,)), np.zeros(0, dtype=np.int32), np.zeros(0), np.zeros(0))
    check_refused(lambda: rr.TabularMDP(many, n_actions=1, gamma=0.9), "2147483647", "2147483648")


def test_ragged_actions_are_refused() -> None:
    ragged = good_outcomes()
    ragged[2] = ragged[2][:2]
    check_refused(lambda: from_outcomes(ragged), "same number of actions", "2 in state 2", "3 in state 0")


@pytest.mark.parametrize("row", [[(1.0, 0)], [()], [5], [(1.0, "x", 0.0)], [(1.0, (0, 1), 0.0)], 5, "none"], ids=repr)
def test_malformed_outcomes_are_refused(row: Any) -> None:
    check_refused(lambda: from_outcomes(with_row(row)), ROW)


@pytest.mark.parametrize("outcomes", [5, None, [5], [None, None]], ids=repr)
def test_tables_that_are_no_lists_are_refused(outcomes: Any) -> None:
    check_refused(lambda: from_outcomes(outcomes), "outcomes")


@pytest.mark.parametrize("P", ["text", [[[1.0]], [[0.5, 0.5]]], np.ones((1, 1, 1)) * 1j], ids=repr)
def test_dense_arrays_that_are_no_numbers_are_refused(P: Any) -> None:
    check_refused(lambda: rr.TabularMDP.from_dense(P, [[0.0]], gamma=0.9), "P")
    check_refused(lambda: rr.TabularMDP.from_dense([[[1.0]]], P, gamma=0.9), "R")


@pytest.mark.parametrize(
    "changes",
    [
        {"indptr": np.arange(0, 18, 2)},  # one row short
        {"indptr": np.arange(1, 20, 2)},  # does not start at 0
        {"indptr": np.array([0, 2, 6, 4, 8, 10, 12, 14, 16, 18])},  # falls
        {"indptr": np.array([0, 2, 4, 6, 8, 10, 12, 14, 16, 17])},  # does not end at the end
        {"indptr": np.arange(0, 20, 2).reshape(1, -1)},
        {"reward": np.zeros(17)},
        {"next_state": np.zeros((18, 1), dtype=np.int32)},
        {"probability": np.full((2, 9), 0.5)},
    ],
    ids=str,
)
def test_rows_of_the_wrong_layout_are_refused(changes: dict[str, Any]) -> None:
    check_refused(lambda: from_rows_with(**changes))


@pytest.mark.parametrize("n_actions", ["3", 2.5, None, True, 2**62], ids=repr)
def test_a_number_of_actions_that_is_none_is_refused(n_actions: Any) -> None:
    check_refused(lambda: rr.TabularMDP(fresh_rows(), n_actions=n_actions, gamma=0.9), "action")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (Labels(states=("a", "b")), "labels.states"),
        (Labels(actions=()), "labels.actions"),
        (Labels(layout=("..", "..")), "labels.layout"),
        (Labels(layout=("..", ".")), "labels.layout"),
    ],
    ids=repr,
)
def test_wrong_numbers_of_labels_are_refused(labels: Labels, name: str) -> None:
    check_refused(lambda: from_outcomes(good_outcomes(), labels=labels), name)


# --- estimates, which are looked over in one pass ---------------------------------------------------


@example(counts=[[1, 2, 3]] * 3, off=1e-10, rewards=[0.0, 0.5, 0.5], sort=True)  # divided out
@example(counts=[[1, 2, 3]] * 3, off=-1e-10, rewards=[0.0, 0.5, 0.5], sort=True)
@example(counts=[[1, 0, 0], [0, 2, 0], [0, 0, 3]], off=-3e-16, rewards=[0.0, 0.5, 0.5], sort=True)  # of one outcome
@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=3, max_size=3),
    off=st.sampled_from([0.0, 1e-15, 3e-16, -3e-16, 1e-10, 1e-8]),
    rewards=st.lists(st.sampled_from([0.0, -0.0, 0.5, math.inf]), min_size=3, max_size=3),
    sort=st.booleans(),
)
def test_an_estimate_is_the_table_that_the_slower_look_makes_to_the_last_bit(
    counts: list[list[int]], off: float, rewards: list[float], *, sort: bool
) -> None:
    share = [np.array(row) / sum(row) * (1.0 + off) for row in counts]
    kept = [np.flatnonzero(row)[:: 1 if sort else -1] for row in share]
    lengths = [row.size for row in kept]
    rows = Rows(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(kept).astype(np.int32),
        np.concatenate([row[which] for row, which in zip(share, kept, strict=True)]),
        np.repeat(rewards, lengths),
    )

    def made(*, estimated: bool) -> Any:
        try:
            return [array.tobytes() for array in rr.TabularMDP(rows, n_actions=1, gamma=0.9, estimated=estimated).rows]
        except rr.InvalidInput as refusal:
            return str(refusal)

    assert made(estimated=True) == made(estimated=False)


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("indptr", [0, 2, 2, 3]),
        ("indptr", [0, 5, 1, 3]),
        ("indptr", [1, 1, 2, 3]),
        ("next_state", [0, 0, 3]),
        ("next_state", [0, -1, 0]),
        ("probability", [0.5, 0.5, math.nan]),
        ("probability", [1.5, -0.5, 1.0]),
        ("reward", [0.0, math.nan, 0.0]),
    ],
)
def test_a_broken_estimate_is_refused_like_any_table(part: str, values: list[float]) -> None:
    sound = Rows(np.array([0, 1, 2, 3]), np.array([0, 1, 2], dtype=np.int32), np.ones(3), np.zeros(3))
    broken = sound._replace(**{part: np.array(values, dtype=getattr(sound, part).dtype)})
    assert rr.TabularMDP(sound, n_actions=1, gamma=0.9, estimated=True).n_states == 3
    sentences = []
    for estimated in (True, False):
        with pytest.raises(rr.InvalidInput) as refusal:
            rr.TabularMDP(broken, n_actions=1, gamma=0.9, estimated=estimated)
        sentences.append(str(refusal.value))
    assert sentences[0] == sentences[1]


def test_a_list_of_vectors_may_be_of_states_or_of_actions() -> None:
    P, R = [np.eye(2), np.eye(2)], [np.array([1.0, 0.0]), np.array([0.5, 0.0])]
    with pytest.raises(rr.InvalidInput, match="one for each state or one for each action"):
        rr.TabularMDP.from_dense(P, R, gamma=0.9, layout="ass")
    with pytest.raises(rr.InvalidInput, match="one for each state or one for each action"):
        rr.TabularMDP.from_sparse([sp.csr_array(x) for x in P], R, gamma=0.9)
    assert rr.TabularMDP.from_dense(P, np.array(R), gamma=0.9, layout="ass").known_rewards is not None
