"""``TabularMDP``: an immutable finite Markov decision process in outcome form, and how its samples are drawn.

*Outcome form.* Row s*A + a is a short list of (probability, next state, reward). It owns the slice
``indptr[row]:indptr[row + 1]`` of three flat arrays, as in a CSR matrix. Every builder ends in :func:`canonical_rows`,
which checks the rows and brings them to one form: outcomes sorted by (next state, reward), equal outcomes merged,
impossible outcomes dropped, and sums off by more than rounding divided out. So one process has one set of arrays, and
one digest, however it was written down. The row of an action that is not allowed in a state is empty, and no other row
is.

    layout   P                                                  R
    "sas"    (S, A, S'): P[s, a, s']                            (S,), (S, A) or (S, A, S')
    "ass"    (A, S, S'): P[a, s, s'], as in pymdptoolbox        (S,), (S, A) or (A, S, S')
    sparse   one (S, S') matrix for each action                 (S,) or (S, A)

*Samples* are drawn as counts, exact in law, at a cost that does not depend on how many there are.

*Pairs.* m i.i.d. outcomes of a row, counted, have exactly the law of one multinomial draw: the binomial of the first
outcome, then of the second among what is left, and so on. Rows are drawn in blocks with a stream each, so the counts
of a seed are the same on any number of threads.

*Episodes.* Under a fixed policy the number of episodes in each state after h steps is a Markov chain of multinomials,

    N_{h+1} = sum over s of multinomial(N_h(s), P(.|s, policy(s))),

so m episodes are played by pushing counts along, in H * reached states * outcomes. What learning needs of a transition
is the pair it left, the state it reached and the reward, so that is what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, check_flag, check_integer, check_numbers, is_masked, shown
from replicable_rl.files import Parts
from replicable_rl.problem.source import (
    Episodic,
    Generative,
    Source,
    Support,
    check_gamma,
    check_initial,
    check_range,
    check_sizes,
)
from replicable_rl.runs import Model, ObjectSpec
from replicable_rl.sampling import (
    EpisodeCounts,
    OutcomeCounts,
    Trust,
    check_calls,
    check_horizon,
    sums,
    width_of,
)
from replicable_rl.wording import short_repr

MANY_BLOCKS = 100  # blocks of rows that are worth several threads
_MADE = ("n_states", "n_actions", "gamma", "rows", "initial", "reward_range", "labels", "estimated", "_source")
SUM_TOLERANCE = 1e-9

Layout = Literal["sas", "ass"]
_EXACT_TYPES = tuple(map(np.dtype, (np.int64, np.int32, np.float64, np.float64)))
Bounds = tuple[float, float]
Outcomes = Sequence[Sequence[Sequence[Sequence[float]] | None]]  # by state and action


class Rows(NamedTuple):
    """The four arrays of the outcome form."""

    indptr: NDArray[np.int64]
    next_state: NDArray[np.int32]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def row(self) -> NDArray[np.int64]:
        """The row s*A + a of every outcome."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def of_row(self, row: int) -> slice:
        """Return the slice of the flat arrays that belongs to a row."""
        return slice(int(self.indptr[row]), int(self.indptr[row + 1]))


def describe_row(row: int, n_actions: int) -> str:
    """Return '(state s, action a)' for a row index."""
    return f"(state {row // n_actions}, action {row % n_actions})"


@dataclass(frozen=True)
class Labels:
    """Names for people; no part of the content digest.

    ``layout`` is a text map for drawing: one string per line, ``#`` for a wall. The
    other cells, read line by line, are the states 0, 1, 2, ...; states beyond the last
    cell are not drawn. Cells marked ``.``, ``S`` or ``F`` show the action of the policy,
    others (goals, holes) their letter.
    """

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    layout: tuple[str, ...] | None = None

    __repr__ = short_repr


def check_labels(labels: Labels | None, n_states: int, n_actions: int) -> Labels:
    """Return names that fit the sizes, as texts."""
    labels = Labels() if labels is None else labels
    for kind, names, size in (("states", labels.states, n_states), ("actions", labels.actions, n_actions)):
        if names is not None and len(names) != size:
            raise InvalidInput(f"TabularMDP: labels.{kind} must hold {size} names, got {len(names)}.")
    cells = sum(len(line) - line.count("#") for line in labels.layout or ())
    if len({len(line) for line in labels.layout or ()}) > 1 or cells > n_states:
        raise InvalidInput(f"TabularMDP: labels.layout must have lines of one length, and at most {n_states} states.")
    columns = (labels.states, labels.actions, labels.layout)
    return Labels(*(None if texts is None else tuple(map(str, texts)) for texts in columns))


class TabularMDP(Generative, Episodic, Model):
    """A finite MDP in outcome form; immutable, checked, with a content digest.

    Build one with :meth:`from_dense`, :meth:`from_sparse`, :meth:`from_outcomes`, :func:`replicable_rl.from_gymnasium`,
    :func:`replicable_rl.make`, or from a file. The parameters below are also its attributes, and so is ``n_states``.

    Parameters
    ----------
    rows : Rows
        The outcomes; brought to canonical form (see :mod:`replicable_rl.problem.table`).
    n_actions : int
        Number of actions A; the number of states is what the rows imply.
    gamma : float
        Discount in [0, 1).
    initial : (S,) floats, optional
        Distribution of the first state; uniform when not given.
    reward_range : (low, high), optional
        Bounds of the rewards, by which values are normalised; the smallest and largest reward when not given.
    labels : Labels, optional
        Names and a map for drawing.
    estimated : bool
        Whether the table was estimated from data. What is claimed of runs on it is then claimed of the table alone.
    allowed : (S, A) truth values, optional
        Which actions each state has; all when not given. What is written for another pair is dropped.

    Examples
    --------
    >>> mdp = TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 1, 0.0)]]], gamma=0.9)
    >>> mdp
    TabularMDP(S=2, A=1, outcomes=3, gamma=0.9)

    A table is a source of its own samples. They are drawn as counts, so that a great many cost no more than a few:

    >>> from replicable_rl.randomness import sample_stream
    >>> counts = mdp.draw(10**16, sample_stream(1))
    >>> int(counts.count[counts.indptr[0] : counts.indptr[1]].sum())
    10000000000000000
    """

    saved_as = "table"
    rows: Rows  # canonical and read-only, as is ``initial``
    initial: NDArray[np.float64]
    labels: Labels
    estimated: bool
    _source: ObjectSpec | None

    def __init__(
        self,
        rows: Rows,
        *,
        n_actions: int,
        gamma: float,
        initial: ArrayLike | None = None,
        reward_range: Bounds | None = None,
        labels: Labels | None = None,
        estimated: bool = False,
        allowed: ArrayLike | None = None,
    ) -> None:
        if not isinstance(rows, Rows) or any(map(is_masked, rows)):
            raise InvalidInput(f"TabularMDP: rows must be Rows of arrays without masks, got {shown(rows)}.")
        n_actions = check_integer("TabularMDP", "n_actions", n_actions, low=1, high=2**31 - 1)
        n_states, _ = check_sizes("TabularMDP", (rows.indptr.size - 1) // n_actions, n_actions)  # before it is copied
        labels = check_labels(labels, n_states, n_actions)
        support = Support.of("TabularMDP", allowed, n_states, n_actions)
        estimated = check_flag("TabularMDP", "estimated", estimated)
        bounds = None if reward_range is None else check_range("TabularMDP", reward_range)
        checked = canonical_rows(Rows._make(map(np.array, rows)), n_states, n_actions, support, bounds)
        self.__dict__.update(
            n_states=n_states,
            n_actions=n_actions,
            gamma=check_gamma("TabularMDP", gamma),
            rows=Rows(*(_read_only(array) for array in checked)),
            initial=_read_only(_first_states(initial, n_states)),
            reward_range=bounds or (float(checked.reward.min()), float(checked.reward.max())),
            labels=labels,
            estimated=estimated,
            _source=None,
        )

    @classmethod
    def estimated_of(cls, source: Source, rows: Rows, initial: NDArray[np.float64] | None) -> TabularMDP:
        """Return the table that counts of a source estimate, in normalised units.

        It is made in every run: rows that are in canonical form, as a rule, are checked in one compiled pass.
        """
        sizes, reward_range = (source.n_states, source.n_actions), (0.0, 1.0 - source.gamma)
        if not (source.support.whole and _are_canonical(rows, *sizes)):
            scale: Any = {"n_actions": source.n_actions, "gamma": source.gamma, "reward_range": reward_range}
            return cls(rows, initial=initial, estimated=True, allowed=source.support.given, **scale)
        return cls._of(
            n_states=source.n_states,
            n_actions=source.n_actions,
            gamma=source.gamma,
            support=source.support,
            rows=Rows(*(_read_only(array) for array in rows)),
            initial=initial if isinstance(source, TabularMDP) else _read_only(_first_states(initial, source.n_states)),
            reward_range=reward_range,
            labels=Labels(),
            estimated=True,
            _source=None,
        )

    @classmethod
    def _of(cls, **values: Any) -> TabularMDP:
        table = object.__new__(cls)
        table.__dict__.update(values)
        return table

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"TabularMDP is immutable: {name} cannot be changed.")

    __delattr__ = __setattr__

    @classmethod
    def from_dense(cls, P: Any, R: Any, *, gamma: float, layout: Layout | None = None, **options: Any) -> TabularMDP:
        """Build from dense arrays: P is (S, A, S), the layout "sas", or (A, S, S), the layout "ass" of pymdptoolbox.

        R is (S,), (S, A), or of three dimensions laid out as P is. The layout may be left out unless P fits both, which
        is where A = S > 1. ``options`` are those of the class.

        Examples
        --------
        >>> P, R = [[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]], [[5.0, 10.0], [-1.0, 2.0]]
        >>> TabularMDP.from_dense(P, R, gamma=0.9, layout="ass").rows.probability[:2].tolist()  # P[a=0, s=0]
        [0.5, 0.5]
        >>> TabularMDP.from_dense(P, R, gamma=0.9)
        Traceback (most recent call last):
        ...
        replicable_rl.errors.InvalidInput: TabularMDP: P must be (S, A, S), layout='sas', or (A, S, S),
        layout='ass'; got layout=None and shape (2, 2, 2). Name the layout if both fit.
        """
        rows, n_actions = dense_rows(P, R, layout)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_sparse(cls, P: Any, R: Any, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from one scipy.sparse (S, S) matrix for each action; R is (S,) or (S, A)."""
        rows, n_actions = sparse_rows(P, R)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from ``outcomes[s][a] = [(probability, next state, reward), ...]``, or None: not allowed there."""
        rows, n_actions = outcome_rows(outcomes)
        flags = [[row is not None for row in actions] for actions in outcomes]
        if "allowed" not in options and not all(map(all, flags)):
            options["allowed"] = flags
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @property
    def spec(self) -> ObjectSpec:
        """The registered id with its parameters, or the digest of the arrays."""
        kind = {"estimated": True} if self.estimated else {}
        return self._source or ObjectSpec("mdp", {"digest": self.digest, **kind})

    @cached_property
    def support(self) -> Support:  # type: ignore[override]  # nobody sets it
        """The pairs that there are: those whose rows are not empty."""
        ends = self.rows.indptr
        return Support(_read_only((ends[1:] > ends[:-1]).reshape(self.n_states, self.n_actions)))

    @cached_property
    def trust(self) -> Trust:  # type: ignore[override]  # as above
        """What is known of counts that are drawn from it: the law is exact, for its numbers are the law."""
        return Trust((), merged=False, estimated=self.estimated)

    @cached_property
    def known_rewards(self) -> NDArray[np.float64] | None:  # type: ignore[override]  # as above
        """The (S, A) table of rewards if each pair has one reward, else None.

        Of actions that are not allowed it says nothing: there it holds the bottom of the range.
        """
        indptr, reward = self.rows.indptr, self.rows.reward
        of_pair = reward[np.minimum(indptr[:-1], reward.size - 1)]
        if not np.array_equal(reward, np.repeat(of_pair, np.diff(indptr))):
            return None
        table = self.support.settle(of_pair.reshape(self.n_states, self.n_actions), self.reward_range[0])
        table.setflags(write=False)
        return table

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the content: rows, discount, first state and reward range, but no names."""
        scalars = np.array([self.gamma, *self.reward_range])
        return array_digest("mdp", np.array([self.n_states, self.n_actions]), scalars, self.initial, *self.rows)

    # --- samples

    def draw(self, calls: int, rng: np.random.Generator) -> OutcomeCounts:
        """Draw ``calls`` fresh successors of every pair and return their counts."""
        from replicable_rl.compiled import Team
        from replicable_rl.sampling import _kernels

        calls = check_calls("TabularMDP", calls)
        count = np.empty(self.conditional.size, dtype=np.int64)
        arguments = (self.rows.indptr, self.conditional, calls, stream_words(rng, 1)[0], count)
        with Team(n_blocks(self.rows.indptr), whole_below=MANY_BLOCKS) as threads:
            threads(_kernels.multinomial_blocks, *arguments)
        return self.drawn(count, calls)

    def drawn(self, count: NDArray[np.int64], calls: int) -> OutcomeCounts:
        """Return the counts of every outcome of the table."""
        rows = self.rows
        return OutcomeCounts(rows.indptr, rows.next_state, rows.reward, count, calls, trust=self.trust)

    def play(self, policy: ArrayLike, episodes: int, horizon: int, rng: np.random.Generator) -> EpisodeCounts:
        """Play ``episodes`` fresh episodes of ``horizon`` steps and return what they saw."""
        from replicable_rl.sampling import _kernels

        episodes, horizon = check_calls("TabularMDP", episodes, "episodes"), check_horizon(horizon)
        table = (*self._start, self.rows.indptr, self.rows.next_state, self.conditional)
        played = *table, *decisions(policy, self.support), episodes, horizon, stream_words(rng, 1)[0]
        count = np.zeros(self.conditional.size)
        _kernels.propagate(*played, count)
        return self.played(count, episodes, horizon)

    def played(self, count: NDArray[np.float64], episodes: int, horizon: int) -> EpisodeCounts:
        """Return what episodes saw in which every outcome of the table occurred so often."""
        (key, place), low, width = self.transitions, self.reward_range[0], width_of(self.reward_range)
        total, excess = sums(place, count, key.size), sums(place, count * (self.rows.reward - low), key.size)
        squares = None
        if self._several_rewards:
            off = (self.rows.reward - low - (excess / np.maximum(total, 1.0))[place]) / width
            squares = sums(place, count * off * off, key.size)
        sizes = self.n_states, self.n_actions, key, total, excess, episodes, episodes * horizon
        return EpisodeCounts(*sizes, low=low, width=width, squares=squares, trust=self.trust)

    @cached_property
    def conditional(self) -> NDArray[np.float64]:
        """The conditional probability of every outcome, given that none of the pair before it happened."""
        return conditional_probabilities(self.rows.indptr, self.rows.probability)

    @cached_property
    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys of the table's transitions, and the transition that each outcome belongs to."""
        return np.unique(self.rows.row * self.n_states + self.rows.next_state, return_inverse=True)

    @cached_property
    def _several_rewards(self) -> bool:
        """Whether some transition has rewards of several sizes, which are outcomes of their own."""
        (key, transition), reward = self.transitions, self.rows.reward
        last = np.empty(key.size)
        last[transition] = reward
        return bool((last[transition] != reward).any())

    @cached_property
    def _start(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The states that an episode may start in, and their conditional probabilities."""
        states = np.flatnonzero(self.initial)
        return states, conditional_probabilities(np.array([0, states.size]), self.initial[states])

    # --- copies

    def with_source(self, source: ObjectSpec) -> TabularMDP:
        """Return the same process under a registered id; the arrays are shared."""
        return self._of(**self.__getstate__() | {"_source": source})

    def as_estimate(self) -> TabularMDP:
        """Return the same process as one that was estimated from data; the arrays are shared."""
        return self if self.estimated else self._of(**self.__getstate__() | {"estimated": True, "_source": None})

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _MADE}  # the rest follows from it

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["rows"] = Rows(*(_read_only(array) for array in self.rows))  # they arrive writeable
        self.__dict__["initial"] = _read_only(self.initial)

    def parts(self) -> Parts:
        """Return what a file holds of it."""
        values = {
            "n_actions": self.n_actions,
            "gamma": self.gamma,
            "reward_range": list(self.reward_range),
            "states": self.labels.states,
            "actions": self.labels.actions,
            "layout": self.labels.layout,
            "estimated": self.estimated,
        }
        mask = {} if self.support.whole else {"allowed": self.allowed.reshape(-1).astype(np.uint8)}
        return Parts(values, {**self.rows._asdict(), "initial": self.initial, **mask})

    @classmethod
    def from_parts(cls, parts: Parts) -> TabularMDP:
        """Make a table of what a file holds."""
        values, arrays = dict(parts.values), dict(parts.arrays)
        labels, initial = Labels(*(values.pop(key) for key in ("states", "actions", "layout"))), arrays.pop("initial")
        allowed = arrays.pop("allowed", None)
        mask = None if allowed is None else allowed.reshape(-1, values["n_actions"])
        low, high = map(float, values.pop("reward_range"))  # JSON holds a large float as an integer
        made: Any = {"initial": initial, "labels": labels, "allowed": mask, "reward_range": (low, high)}
        return TabularMDP(Rows(**arrays), **made, **values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularMDP) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        pairs = "" if self.support.whole else f"pairs={self.support.pairs}, "
        return (
            f"TabularMDP(S={self.n_states}, A={self.n_actions}, {pairs}outcomes={self.rows.probability.size}, "
            f"gamma={self.gamma:g})"
        )


def _first_states(initial: ArrayLike | None, n_states: int) -> NDArray[np.float64]:
    """Return the distribution of the first state, its sum divided out if it is off by more than rounding."""
    if initial is None:
        return np.full(n_states, 1.0 / n_states)
    distribution = check_initial("TabularMDP", initial, n_states)
    total = float(distribution.sum())
    return distribution / total if abs(total - 1.0) > n_states * 2.0**-52 else distribution


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nobody can make writeable again: its base is read-only, and nobody else has it."""
    array.setflags(write=False)
    return array.view()


def decisions(policy: ArrayLike, support: Support) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the action of every state, -1 where it is left to chance, and the conditional probabilities if any is."""
    actions = support.actions("TabularMDP", policy)
    if actions is not None:
        return actions, np.empty(0)
    weights = support.probabilities("TabularMDP", policy)
    sure = weights.max(axis=1) == 1.0
    indptr = np.arange(0, weights.size + 1, weights.shape[1])
    return np.where(sure, weights.argmax(axis=1), -1), conditional_probabilities(indptr, weights.reshape(-1))


def n_blocks(indptr: NDArray[np.int64]) -> int:
    """Return the number of blocks that the rows are drawn in."""
    from replicable_rl.sampling import _kernels

    return -(-(indptr.size - 1) // _kernels.ROWS_PER_BLOCK)


def stream_words(rng: np.random.Generator, how_many: int) -> NDArray[np.uint64]:
    """Return fresh words for so many calls of the kernels, two each, from which their own streams follow.

    Draws are then the same under every version of numpy, whose Generator methods promise no such thing.
    """
    return rng.bit_generator.random_raw(2 * how_many).astype(np.uint64, copy=False).reshape(how_many, 2)


def conditional_probabilities(indptr: NDArray[np.int64], probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for every outcome, its probability given that no earlier one of its row occurred.

    Where that probability p exceeds 1/2 the entry is -(1 - p), so that probabilities near 1
    keep their full precision.
    """
    from replicable_rl.sampling import _kernels

    conditional = np.empty(probability.size)
    _kernels.conditional_rows(indptr, probability, conditional)
    return conditional


# --- one form ------------------------------------------------------------------------------------------------------


def canonical_rows(rows: Rows, n_states: int, n_actions: int, support: Support, bounds: Bounds | None = None) -> Rows:
    """Check the rows and return them in canonical form (see the module); the row of a pair may not be empty."""
    _check_layout(rows, n_states * n_actions)
    rows = rows if support.whole else _restricted(rows, support)
    _check_outcomes(rows, n_states, n_actions, support, bounds)
    rows = Rows(*(np.asarray(array, dtype=kind) for array, kind in zip(rows, _EXACT_TYPES, strict=True)))
    rows = rows._replace(reward=rows.reward + 0.0)  # no -0.0
    return _normalised(rows if _is_sorted_and_merged(rows) else _sorted_and_merged(rows))


def _are_canonical(rows: Rows, n_states: int, n_actions: int) -> bool:
    """Whether the canonical form has the same bits; False only means that rows need a closer look."""
    from replicable_rl.sampling import _kernels

    sizes = {array.shape for array in rows[1:]}
    if tuple(array.dtype for array in rows) != _EXACT_TYPES or rows.indptr.shape != (n_states * n_actions + 1,):
        return False
    return sizes == {(rows.probability.size,)} and bool(_kernels.are_canonical(*rows, n_states))


def _check_layout(rows: Rows, n_rows: int) -> None:
    indptr, n_outcomes = rows.indptr, rows.probability.size
    for (name, array), kinds in zip(rows._asdict().items(), ("iu", "iu", "f", "fiu"), strict=True):
        shape = (n_rows + 1,) if name == "indptr" else (n_outcomes,)
        if array.dtype.kind not in kinds or array.dtype.itemsize > 8 or array.shape != shape:
            numbers = "integers" if kinds == "iu" else "floats"
            given = f"{array.dtype} of shape {array.shape}"
            raise InvalidInput(f"TabularMDP: {name} must hold {numbers} and have shape {shape}, got {given}.")
    if indptr[0] != 0 or indptr[-1] != n_outcomes or (np.diff(indptr) < 0).any():
        rule = f"rise from 0 to the number of outcomes ({n_outcomes})"
        raise InvalidInput(f"TabularMDP: indptr must {rule}, got {shown(indptr)}.")


def _restricted(rows: Rows, support: Support) -> Rows:
    """Return the rows without what was written for pairs that are not allowed."""
    flags, length = support.of_rows, np.diff(rows.indptr)
    kept = np.repeat(flags, length)
    indptr = np.concatenate([[0], np.cumsum(np.where(flags, length, 0))]).astype(np.int64)
    return Rows(indptr, rows.next_state[kept], rows.probability[kept], rows.reward[kept])


def _check_outcomes(rows: Rows, n_states: int, n_actions: int, support: Support, bounds: Bounds | None) -> None:
    empty = np.flatnonzero((np.diff(rows.indptr) == 0) & support.of_rows)
    if empty.size:
        remedy = "Make it a self-loop if nothing happens there, or say with allowed=... that the action cannot be taken"
        row = describe_row(int(empty[0]), n_actions)
        raise InvalidInput(f"TabularMDP: every row needs an outcome, row {row} is empty. {remedy}.")
    low, high = bounds or (-np.inf, np.inf)
    for good, values, rule in (
        ((rows.probability >= 0) & np.isfinite(rows.probability), rows.probability, "probabilities must be >= 0"),
        ((rows.next_state >= 0) & (rows.next_state < n_states), rows.next_state, f"next states: 0..{n_states - 1}"),
        (np.isfinite(rows.reward), rows.reward, "rewards must be finite"),
        (
            (rows.reward >= low) & (rows.reward <= high),
            rows.reward,
            f"rewards must lie in reward_range [{low:g}, {high:g}]",
        ),
    ):
        if not good.all():
            k = int(np.argmin(good))
            row = describe_row(int(rows.row[k]), n_actions)
            raise InvalidInput(f"TabularMDP: {rule}, row {row} has {values[k].item()}.")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        off = ~(np.abs((total := _row_sums(rows)) - 1.0) <= SUM_TOLERANCE)
    if off.any():
        wrong = int(np.argmax(off))
        row = describe_row(int(np.flatnonzero(np.diff(rows.indptr))[wrong]), n_actions)
        raise InvalidInput(
            f"TabularMDP: probabilities must sum to 1 within {SUM_TOLERANCE:g}, row {row} sums to {total[wrong]:.12g} "
            f"({np.count_nonzero(off)} rows are wrong). Rescale the row or add the missing outcome."
        )


def _row_sums(rows: Rows) -> NDArray[np.float64]:
    """Return the sums of the probabilities of all rows that are not empty."""
    sums: NDArray[np.float64] = np.add.reduceat(rows.probability, _starts(rows))
    return sums


def _starts(rows: Rows) -> NDArray[np.int64]:
    """Return where the rows that are not empty begin."""
    return rows.indptr[:-1][np.diff(rows.indptr) > 0]


def _is_sorted_and_merged(rows: Rows) -> bool:
    """Whether outcomes are possible and strictly increasing in (next state, reward) within every row."""
    step = np.diff(rows.next_state)
    rises = (step > 0) | ((step == 0) & (rows.reward[1:] > rows.reward[:-1]))
    rises[_starts(rows)[1:] - 1] = True  # the last outcome of a row may exceed the first of the next
    return bool((rows.probability > 0).all() and rises.all())


def _sorted_and_merged(rows: Rows) -> Rows:
    possible = rows.probability > 0
    row, successor, reward = rows.row[possible], rows.next_state[possible], rows.reward[possible]
    order = np.lexsort((rows.probability[possible], reward, successor, row))  # sums of equal outcomes need an order too
    row, successor, reward = row[order], successor[order], reward[order]
    new = np.ones(row.size, dtype=bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(successor) != 0) | (reward[1:] != reward[:-1])
    merged = np.add.reduceat(rows.probability[possible][order], np.flatnonzero(new))
    return Rows(indptr_of(row[new], rows.indptr.size - 1), successor[new], merged, reward[new])


def _normalised(rows: Rows) -> Rows:
    """Divide out sums that are off by more than rounding; a second pass changes nothing."""
    sums, lengths = _row_sums(rows), np.diff(rows.indptr)
    lengths = lengths[lengths > 0]
    off = np.abs(sums - 1.0) > np.where(lengths > 1, lengths, 0) * 2.0**-52  # a sure outcome has probability 1 exactly
    if not off.any():
        return rows
    return rows._replace(probability=rows.probability / np.repeat(np.where(off, sums, 1.0), lengths))


def indptr_of(row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return where the rows begin, from the row of every outcome."""
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)


# --- what people have ----------------------------------------------------------------------------------------------


def outcome_rows(outcomes: Outcomes) -> tuple[Rows, int]:
    """Return rows and number of actions from ``outcomes[s][a] = [(probability, next state, reward), ...]``.

    None instead of a list is an action that is not allowed there; its row is empty.
    """
    flat: list[Sequence[float]] = []
    ends, form = [0], "outcomes must be lists: outcomes[s][a] = [(probability, next state, reward), ...]"
    try:
        n_states, lengths = len(outcomes), {len(actions) for actions in outcomes}
        for row in (row for actions in outcomes for row in actions):
            flat.extend(() if row is None else row)
            ends.append(len(flat))
    except TypeError:
        raise InvalidInput(f"TabularMDP: {form}.") from None
    if len(lengths) > 1:
        rule = f"every state must have the same number of actions, got {min(lengths)} and {max(lengths)}"
        raise InvalidInput(f"TabularMDP: {rule}. Write None for an action that is not allowed.")
    n_actions, indptr, table = max(lengths, default=0), np.array(ends), _floats("outcomes", flat)
    if table.shape != (len(flat), 3) and flat:
        raise InvalidInput(f"TabularMDP: {form}.")
    probability, successor, reward = table.reshape(-1, 3).T.copy()
    sound = (successor >= 0) & (successor < n_states) & (successor == np.floor(successor))
    if not sound.all():
        k = int(np.argmin(sound))
        name = describe_row(int(np.searchsorted(indptr, k, side="right")) - 1, n_actions)
        raise InvalidInput(f"TabularMDP: next states must lie in 0..{n_states - 1}, row {name} has {flat[k][1]}.")
    return Rows(indptr, successor.astype(np.int32), probability, reward), n_actions


def dense_rows(P: Any, R: Any, layout: Layout | None) -> tuple[Rows, int]:
    """Return rows and number of actions; rewards of three dimensions are laid out as P is."""
    table, rewards = _floats("P", P), _rewards(R)
    fits = [name for name, axis in (("sas", 0), ("ass", 1)) if table.ndim == 3 and table.shape[axis] == table.shape[2]]
    if layout is None and (len(fits) == 1 or table.shape == (1, 1, 1)):
        layout = "sas" if "sas" in fits else "ass"
    if layout not in fits:
        rule = "P must be (S, A, S), layout='sas', or (A, S, S), layout='ass'"
        raise InvalidInput(f"TabularMDP: {rule}; got {layout=} and shape {table.shape}. Name the layout if both fit.")
    if layout == "ass":
        table, rewards = (x.transpose(1, 0, 2) if x.ndim == 3 else x for x in (table, rewards))
    n_states, n_actions, _ = table.shape
    state, action, successor = np.nonzero(table)  # NaN counts as non-zero and is refused later
    if rewards.shape != table.shape:
        rewards = _by_pair(rewards, n_states, n_actions)[:, :, None]
    reward = np.broadcast_to(rewards, table.shape)[state, action, successor]
    indptr = indptr_of(state * n_actions + action, n_states * n_actions)
    return Rows(indptr, successor.astype(np.int32), table[state, action, successor], reward), n_actions


def sparse_rows(P: Any, R: Any) -> tuple[Rows, int]:
    """Return rows and number of actions of one sparse matrix for each action."""
    import scipy.sparse

    are_sparse = isinstance(P, (list, tuple)) and len(P) > 0 and all(map(scipy.sparse.issparse, P))
    if not are_sparse or {matrix.shape for matrix in P} != {(P[0].shape[0],) * 2}:
        raise InvalidInput("TabularMDP: P must be a list of sparse (S, S) matrices, one for each action.")
    tables = [scipy.sparse.coo_array(matrix) for matrix in P]
    n_states, n_actions = tables[0].shape[0], len(tables)
    action = np.repeat(np.arange(n_actions), [table.nnz for table in tables])
    state, successor = (np.concatenate([table.coords[i] for table in tables]).astype(np.int64) for i in (0, 1))
    probability = _floats("P", np.concatenate([table.data for table in tables]))
    reward = _by_pair(_rewards(R), n_states, n_actions)[state, action]
    row = state * n_actions + action
    order, indptr = np.argsort(row, kind="stable"), indptr_of(row, n_states * n_actions)
    return Rows(indptr, successor[order].astype(np.int32), probability[order], reward[order]), n_actions


def _rewards(R: Any) -> NDArray[np.float64]:
    rewards = _floats("R", R)
    square = rewards.ndim == 2 and len(rewards) == rewards.shape[1] > 1
    if square and isinstance(R, (list, tuple)) and any(isinstance(vector, np.ndarray) for vector in R):
        rule = "must be an (S, A) array, R[s, a]: a list of vectors may have one for each state or one for each action"
        raise InvalidInput(f"TabularMDP: R {rule}, got {shown(R)}.")
    return rewards


def _by_pair(rewards: NDArray[np.float64], n_states: int, n_actions: int) -> NDArray[np.float64]:
    """Return the (S, A) rewards that are given by state or by pair."""
    if rewards.shape == (n_states,):
        return np.repeat(rewards[:, None], n_actions, axis=1)
    if rewards.shape != (n_states, n_actions):
        rule = f"have shape (S,), (S, A) = ({n_states}, {n_actions}) or that of P"
        raise InvalidInput(f"TabularMDP: R must {rule}, got {rewards.shape}.")
    return rewards


def _floats(name: str, values: Any) -> NDArray[np.float64]:
    return check_numbers("TabularMDP", name, values)
