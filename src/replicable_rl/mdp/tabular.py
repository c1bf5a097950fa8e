"""``TabularMDP``: an immutable finite Markov decision process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidMDP, check_flag, check_numbers, check_real, is_masked, plain_number, shown
from replicable_rl.mdp.rows import (
    SUM_TOLERANCE,
    Rows,
    canonical_rows,
    check_size,
    describe_row,
    rows_from_dense,
    rows_from_outcomes,
    rows_from_sparse,
)
from replicable_rl.records import ObjectSpec

OPEN_CELLS = ".SF"  # letters of a layout whose cells show the policy
WALL = "#"  # the letter of a cell that is no state


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

    def cells(self) -> Iterator[Cell]:
        """Yield the cells of the map line by line: the one place that knows how a map numbers its states.

        >>> [cell.state for cell in Labels(layout=("G#.",)).cells()]
        [0, None, 1]
        """
        state = 0
        for row, line in enumerate(self.layout or ()):
            for column, letter in enumerate(line):
                wall = letter == WALL
                yield Cell(row, column, letter, None if wall else state)
                state += not wall


class Cell(NamedTuple):
    """A cell of a map: where it is, its letter, and its state; a wall has none."""

    row: int
    column: int
    letter: str
    state: int | None

    @property
    def open(self) -> bool:
        """Whether the cell shows the policy."""
        return self.letter in OPEN_CELLS


class TabularMDP:
    """A finite MDP in outcome form; immutable, checked, with a content digest.

    Build one with :meth:`from_dense`, :meth:`from_sparse`, :meth:`from_outcomes`,
    :func:`replicable_rl.from_gymnasium`, :func:`replicable_rl.make`, or from a file. The parameters below are also its
    attributes (``source`` is ``spec``), and so is ``n_states``, the number of states S.

    Parameters
    ----------
    rows : Rows
        The outcomes; brought to canonical form (see :mod:`replicable_rl.mdp.rows`).
    n_actions : int
        Number of actions A; the number of states is what the rows imply.
    gamma : float
        Discount in [0, 1).
    initial : (S,) floats, optional
        Distribution of the first state; uniform when not given.
    reward_range : (low, high), optional
        Bounds every reward is promised to obey; the smallest and largest reward when
        not given. Algorithms normalise values by it.
    labels : Labels, optional
        Names and a map for drawing.
    source : ObjectSpec, optional
        The registered id this was made from; the digest stands in for it otherwise.
    estimated : bool
        Whether the table was estimated from data. What is claimed of runs on it is then claimed of the table alone.

    Examples
    --------
    >>> mdp = TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 1, 0.0)]]], gamma=0.9)
    >>> mdp
    TabularMDP(S=2, A=1, outcomes=3, gamma=0.9)
    """

    n_states: int
    n_actions: int
    gamma: float
    rows: Rows  # canonical and read-only, as is ``initial``
    initial: NDArray[np.float64]
    reward_range: tuple[float, float]
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
        reward_range: tuple[float, float] | None = None,
        labels: Labels | None = None,
        source: ObjectSpec | None = None,
        estimated: bool = False,
    ) -> None:
        if not isinstance(rows, Rows) or any(map(is_masked, rows)):
            raise InvalidMDP(f"TabularMDP: rows must be Rows of arrays without masks, got {shown(rows)}.")
        number = plain_number(n_actions)
        if not isinstance(number, int):
            raise InvalidMDP(f"TabularMDP: n_actions must be an integer, got {shown(n_actions)}.")
        n_actions = number
        n_states = (np.size(rows.indptr) - 1) // n_actions if n_actions > 0 else 0
        check_size(n_states, n_actions)  # before anything is copied
        checked = canonical_rows(Rows._make(map(np.array, rows)), n_states, n_actions)
        self.__dict__.update(
            n_states=n_states,
            n_actions=n_actions,
            gamma=_check_gamma(gamma),
            rows=Rows(*(_read_only(array) for array in checked)),
            initial=_read_only(_check_initial(initial, n_states)),
            reward_range=_check_reward_range(reward_range, checked, n_actions),
            labels=_check_labels(labels, n_states, n_actions),
            estimated=check_flag("TabularMDP", "estimated", estimated),
            _source=source,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TabularMDP is immutable: {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"TabularMDP is immutable: {name} cannot be deleted.")

    @classmethod
    def from_dense(cls, P: ArrayLike, R: ArrayLike, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from P of shape (S, A, S) and R of shape (S, A) or (S, A, S).

        ``options`` are ``initial``, ``reward_range``, ``labels`` and ``estimated``, as for the class.
        """
        rows, n_actions = rows_from_dense(P, R)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_sparse(cls, P: Sequence[Any], R: Any, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from one scipy sparse (S, S) matrix per action; R as in `from_dense`, or sparse like P."""
        rows, n_actions = rows_from_sparse(P, R)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_outcomes(
        cls, outcomes: Sequence[Sequence[Sequence[Sequence[float]]]], *, gamma: float, **options: Any
    ) -> TabularMDP:
        """Build from ``outcomes[s][a] = [(probability, next state, reward), ...]``."""
        rows, n_actions = rows_from_outcomes(outcomes)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @property
    def spec(self) -> ObjectSpec:
        """The registered id with its parameters, or the digest of the arrays."""
        kind = {"estimated": True} if self.estimated else {}
        return self._source or ObjectSpec("mdp", {"digest": self.digest, **kind})

    @cached_property
    def known_rewards(self) -> NDArray[np.float64] | None:
        """The (S, A) table of rewards if each pair has one reward, else None."""
        indptr, reward = self.rows.indptr, self.rows.reward
        first = reward[indptr[:-1]]
        if not np.array_equal(reward, np.repeat(first, np.diff(indptr))):
            return None
        table = first.reshape(self.n_states, self.n_actions)
        table.setflags(write=False)
        return table

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the content: rows, discount, first state and reward range, but no names."""
        scalars = np.array([self.gamma, *self.reward_range])
        return array_digest("mdp", np.array([self.n_states, self.n_actions]), scalars, self.initial, *self.rows)

    def with_source(self, source: ObjectSpec) -> TabularMDP:
        """Return the same process under a registered id; the arrays are shared."""
        return self._with(_source=source)

    def with_labels(self, **changes: Any) -> TabularMDP:
        """Return the same process with other names; the arrays are shared."""
        return self._with(labels=_check_labels(replace(self.labels, **changes), self.n_states, self.n_actions))

    def _with(self, **changes: Any) -> TabularMDP:
        other = object.__new__(TabularMDP)
        other.__dict__.update(self.__dict__, **changes)
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the process to a ``.npz`` file; ``replicable_rl.load_mdp`` reads it back."""
        from replicable_rl.mdp.files import save_mdp

        save_mdp(self, path)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process, read-only again."""
        self.__dict__.update(state)
        self.__dict__["rows"] = Rows(*(_read_only(array) for array in self.rows))
        self.__dict__["initial"] = _read_only(self.initial)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularMDP) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"TabularMDP(S={self.n_states}, A={self.n_actions}, outcomes={self.rows.probability.size}, "
            f"gamma={self.gamma:g})"
        )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nobody can make writeable again: its base is read-only, and nobody else has it."""
    array.setflags(write=False)
    return array.view()


def _check_gamma(gamma: float) -> float:
    gamma = check_real("TabularMDP", "gamma", gamma, low=0.0, high=1.0, rule="a discount in [0, 1)")
    if gamma == 1.0:
        raise InvalidMDP("TabularMDP: gamma must be a discount in [0, 1), got 1.0. Use 0.999 for a long horizon.")
    return gamma


def _check_initial(initial: ArrayLike | None, n_states: int) -> NDArray[np.float64]:
    if initial is None:
        return np.full(n_states, 1.0 / n_states)
    distribution = check_numbers("TabularMDP", "initial", initial, refusal=InvalidMDP).copy()
    if distribution.shape != (n_states,):
        raise InvalidMDP(f"TabularMDP: initial must have shape (S,) = ({n_states},), got {distribution.shape}.")
    bad = ~((distribution >= 0) & np.isfinite(distribution))
    if bad.any():
        state = int(np.argmax(bad))
        raise InvalidMDP(f"TabularMDP: initial probabilities must be >= 0, state {state} has {distribution[state]:g}.")
    with np.errstate(over="ignore"):  # a sum of inf is refused below
        total = float(distribution.sum())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InvalidMDP(f"TabularMDP: initial must sum to 1 within {SUM_TOLERANCE:g}, got {total:.12g}.")
    return distribution / total if abs(total - 1.0) > n_states * 2.0**-52 else distribution


def _check_reward_range(declared: tuple[float, float] | None, rows: Rows, n_actions: int) -> tuple[float, float]:
    seen_low, seen_high = float(rows.reward.min()), float(rows.reward.max())
    if declared is None:
        return seen_low, seen_high
    low, high = _two_numbers(declared)
    if low > high:
        raise InvalidMDP(f"TabularMDP: reward_range must be (low, high) with low <= high, got {shown(declared)}.")
    if seen_low < low or seen_high > high:
        outside = int(np.argmax((rows.reward < low) | (rows.reward > high)))
        row = int(np.searchsorted(rows.indptr, outside, side="right")) - 1
        raise InvalidMDP(
            f"TabularMDP: rewards must lie in the declared range [{low:g}, {high:g}], row "
            f"{describe_row(row, n_actions)} has {rows.reward[outside]:g}. Widen reward_range or mend the reward."
        )
    return low, high


def _two_numbers(declared: Any) -> tuple[float, float]:
    try:
        low, high = declared
    except Exception:  # whatever somebody's object raises
        raise InvalidMDP(f"TabularMDP: reward_range must be (low, high), got {shown(declared)}.") from None
    rule, finite = "two finite numbers", {"low": -np.inf, "high": np.inf}
    return (
        check_real("TabularMDP", "reward_range", low, **finite, rule=rule),
        check_real("TabularMDP", "reward_range", high, **finite, rule=rule),
    )


def _check_labels(labels: Labels | None, n_states: int, n_actions: int) -> Labels:
    if labels is None:
        return Labels()
    if not isinstance(labels, Labels):
        raise InvalidMDP(f"TabularMDP: labels must be a Labels object, got {shown(labels)}.")
    for kind, names, size in (("states", labels.states, n_states), ("actions", labels.actions, n_actions)):
        if names is not None and len(names) != size:
            raise InvalidMDP(f"TabularMDP: labels.{kind} must hold {size} names, got {len(names)}.")
    if labels.layout is not None:
        if len({len(line) for line in labels.layout}) > 1:
            raise InvalidMDP("TabularMDP: the lines of labels.layout must have one length.")
        cells = sum(cell.state is not None for cell in labels.cells())
        if cells > n_states:
            raise InvalidMDP(f"TabularMDP: labels.layout draws {cells} states, the process has {n_states}.")
    given = (labels.states, labels.actions, labels.layout)
    return Labels(*(None if names is None else tuple(map(str, names)) for names in given))
