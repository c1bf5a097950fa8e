"""``TabularMDP``: an immutable finite Markov decision process."""

from __future__ import annotations

import io
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicable_rl.canonical import array_digest
from replicable_rl.errors import InvalidInput, InvalidMDP, check_flag, check_integer, is_masked, shown, whole_number
from replicable_rl.files import Artifact, Parts, read_artifact, write_artifact
from replicable_rl.problem.formats import Dense, Layout, dense_rows, listed_rows, sparse_rows, to_dense, to_transitions
from replicable_rl.problem.labels import Labels, check_labels
from replicable_rl.problem.rows import Outcomes, Rows, canonical_rows, check_size, describe_row, rows_from_outcomes
from replicable_rl.problem.source import Source, check_gamma, check_initial, check_range
from replicable_rl.problem.support import Support
from replicable_rl.runs import OURS, Level, ObjectSpec, add_level, provider
from replicable_rl.sampling.counts import DRAWS, STARTS, Trust

_KINDS = {"indptr": "i", "next_state": "i", "probability": "f", "reward": "f", "initial": "f", "allowed": "u"}


class TabularMDP(Source, Artifact):
    """A finite MDP in outcome form; immutable, checked, with a content digest.

    Build one with :meth:`from_dense`, :meth:`from_sparse`, :meth:`from_outcomes`, :meth:`from_transitions`,
    :func:`replicable_rl.from_gymnasium`, :func:`replicable_rl.make`, or from a file. The parameters below are also its
    attributes (``source`` is ``spec``), and so is ``n_states``, the number of states S.

    Parameters
    ----------
    rows : Rows
        The outcomes; brought to canonical form (see :mod:`replicable_rl.problem.rows`).
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
    allowed : (S, A) truth values, optional
        Which actions each state has; all when not given. What is written for another pair is dropped: it has no
        outcomes, is never sampled and never chosen.

    Examples
    --------
    >>> mdp = TabularMDP.from_outcomes([[[(0.5, 0, 0.0), (0.5, 1, 1.0)]], [[(1.0, 1, 0.0)]]], gamma=0.9)
    >>> mdp
    TabularMDP(S=2, A=1, outcomes=3, gamma=0.9)
    >>> TabularMDP.from_outcomes([[[(1.0, 1, 0.0)], None], [[(1.0, 0, 0.0)], [(1.0, 1, 1.0)]]], gamma=0.9).allowed
    array([[ True, False],
           [ True,  True]])
    """

    saved_as = "table"
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
        allowed: ArrayLike | None = None,
    ) -> None:
        if not isinstance(rows, Rows) or any(map(is_masked, rows)):
            raise InvalidMDP(f"TabularMDP: rows must be Rows of arrays without masks, got {shown(rows)}.")
        number = whole_number(n_actions)
        if number is None:
            raise InvalidMDP(f"TabularMDP: n_actions must be an integer, got {shown(n_actions)}.")
        n_actions = number
        n_states = (np.size(rows.indptr) - 1) // n_actions if n_actions > 0 else 0
        check_size(n_states, n_actions)  # before anything is copied
        labels = check_labels(labels, n_states, n_actions)
        given = Support.of("TabularMDP", allowed, n_states, n_actions, names=labels.states, refusal=InvalidMDP)
        estimated = check_flag("TabularMDP", "estimated", estimated)
        checked = canonical_rows(Rows._make(map(np.array, rows)), n_states, n_actions, given, likely=estimated)
        self.__dict__.update(
            n_states=n_states,
            n_actions=n_actions,
            gamma=check_gamma("TabularMDP", gamma),
            rows=Rows(*(_read_only(array) for array in checked)),
            initial=_read_only(_first_states(initial, n_states)),
            reward_range=_range_of(reward_range, checked, n_actions),
            labels=labels,
            estimated=estimated,
            _source=source,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TabularMDP is immutable: {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"TabularMDP is immutable: {name} cannot be deleted.")

    @classmethod
    def from_dense(cls, P: Any, R: Any, *, gamma: float, layout: Layout | None = None, **options: Any) -> TabularMDP:
        """Build from dense arrays in the layout of your library.

        Parameters
        ----------
        P : array or list
            (S, A, S), which is the layout "sas"; or (A, S, S), the layout "ass" of pymdptoolbox.
        R : array or list
            (S,), (S, A), or three dimensions laid out as P is.
        gamma : float
            Discount in [0, 1).
        layout : {"sas", "ass"}, optional
            May be left out unless P fits both, which is where A = S > 1.
        options
            ``allowed``, ``initial``, ``reward_range``, ``labels`` and ``estimated``, as for the class.

        Examples
        --------
        >>> P, R = [[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]], [[5.0, 10.0], [-1.0, 2.0]]
        >>> TabularMDP.from_dense(P, R, gamma=0.9, layout="ass").rows.probability[:2].tolist()  # P[a=0, s=0]
        [0.5, 0.5]
        >>> TabularMDP.from_dense(P, R, gamma=0.9)
        Traceback (most recent call last):
        ...
        replicable_rl.errors.InvalidMDP: TabularMDP: P of shape (2, 2, 2) may be (S, A, S) or (A, S, S). Say
        layout='sas' or layout='ass'.
        """
        rows, n_actions = dense_rows(P, R, layout)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_sparse(cls, P: Any, R: Any, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from one scipy.sparse (S, S) matrix for each action; R is (S,), (S, A), or sparse like P."""
        rows, n_actions = sparse_rows(P, R)
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_outcomes(cls, outcomes: Outcomes, *, gamma: float, **options: Any) -> TabularMDP:
        """Build from ``outcomes[s][a] = [(probability, next state, reward), ...]``, or None: not allowed there."""
        rows, n_actions = rows_from_outcomes(outcomes)
        flags = [[row is not None for row in actions] for actions in outcomes]
        if "allowed" not in options and not all(map(all, flags)):
            options["allowed"] = flags
        return cls(rows, n_actions=n_actions, gamma=gamma, **options)

    @classmethod
    def from_transitions(
        cls, table: Any, *, gamma: float, n_states: int | None = None, n_actions: int | None = None, **options: Any
    ) -> TabularMDP:
        """Build from columns, a row for each outcome: state, action, next_state, reward and probability.

        Parameters
        ----------
        table : mapping or data frame
            As :meth:`to_transitions` returns it; states and actions are numbered from 0. A pair without a row is not
            allowed. This is a model: a *log*, whose rows are what happened, is read by
            :func:`replicable_rl.from_transitions`.
        gamma : float
            Discount in [0, 1).
        n_states, n_actions : int, optional
            The largest number and one, when not given.
        options
            ``initial``, ``reward_range``, ``labels`` and ``estimated``, as for the class.
        """
        n_states, n_actions = (
            None if size is None else check_integer("TabularMDP", name, size, low=1, high=2**31 - 1)
            for name, size in (("n_states", n_states), ("n_actions", n_actions))
        )
        if "allowed" in options:
            raise InvalidMDP("TabularMDP: a list says itself which pairs are allowed. Leave out allowed.")
        rows, n_actions, allowed = listed_rows(table, n_states, n_actions)
        return cls(rows, n_actions=n_actions, gamma=gamma, allowed=allowed, **options)

    def to_dense(self, layout: Layout = "sas") -> Dense:
        """Return P, R and the mask of allowed actions as arrays.

        R is (S, A) where each pair has one reward, and else laid out as P is: the mean reward of every transition. An
        action that is not allowed has probabilities 0 and the reward -inf.

        >>> from replicable_rl.problem import riverswim
        >>> river = riverswim()
        >>> P, R, allowed = river.to_dense()
        >>> P.shape, R.shape
        ((6, 2, 6), (6, 2))
        >>> TabularMDP.from_dense(P, R, allowed=allowed, gamma=river.gamma, initial=river.initial) == river
        True
        """
        return to_dense(self, layout)

    def to_transitions(self, samples: int | None = None, *, seed: int | None = None) -> dict[str, NDArray[Any]]:
        """Return the process as columns: of its outcomes, or of a log that was drawn from it.

        Parameters
        ----------
        samples : int, optional
            None: one row for each outcome, with the columns state, action, next_state, reward and probability, which
            :meth:`from_transitions` reads back. A number: a log with so many fresh rows of every allowed pair, in
            random order, with the columns state, action, reward and next_state, for
            :func:`replicable_rl.from_transitions`.
        seed : int, optional
            Of the log; needed with ``samples``.

        Examples
        --------
        >>> from replicable_rl.problem import riverswim
        >>> list(riverswim().to_transitions())
        ['state', 'action', 'next_state', 'reward', 'probability']
        >>> len(riverswim().to_transitions(samples=100, seed=1)["state"])
        1200
        """
        return to_transitions(self, samples, seed)

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
        conditions = () if provider(self) == OURS else (DRAWS, STARTS)
        return Trust(conditions, merged=False, estimated=self.estimated)

    @cached_property
    def known_rewards(self) -> NDArray[np.float64] | None:  # type: ignore[override]  # as above
        """The (S, A) table of rewards if each pair has one reward, else None.

        Of actions that are not allowed it says nothing: there it holds the bottom of the range.
        """
        indptr, reward = self.rows.indptr, self.rows.reward
        first = reward[np.minimum(indptr[:-1], reward.size - 1)]
        if not np.array_equal(reward, np.repeat(first, np.diff(indptr))):
            return None
        table = first.reshape(self.n_states, self.n_actions)
        table = self.support.settle(table, self.reward_range[0])
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

    def _with(self, **changes: Any) -> TabularMDP:
        other = object.__new__(TabularMDP)
        other.__dict__.update(self.__dict__, **changes)
        return other

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
        allowed = self.support.given
        mask = {} if allowed is None else {"allowed": allowed.reshape(-1).astype(np.uint8)}
        return Parts(values, {**self.rows._asdict(), "initial": self.initial, **mask})

    @classmethod
    def from_parts(cls, parts: Parts) -> TabularMDP:
        """Make a table of what a file holds."""
        values, arrays = parts.values, dict(parts.arrays)
        for name, kind in _KINDS.items():
            if name in arrays and (arrays[name].dtype.kind != kind or arrays[name].ndim != 1):
                found = f"{arrays[name].dtype} of shape {arrays[name].shape}"
                raise InvalidInput(f"TabularMDP: array {name!r} must be a vector of kind {kind!r}, got {found}.")
        names = {key: None if values[key] is None else tuple(values[key]) for key in ("states", "actions", "layout")}
        n_actions, (low, high) = int(values["n_actions"]), values["reward_range"]
        allowed, initial = arrays.pop("allowed", None), arrays.pop("initial")
        return TabularMDP(
            Rows(**arrays),
            n_actions=n_actions,
            gamma=values["gamma"],
            initial=initial,
            reward_range=(low, high),
            labels=Labels(**names),
            estimated=values["estimated"] is True,
            allowed=None if allowed is None else allowed.reshape(-1, max(n_actions, 1)),
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process, read-only again."""
        self.__dict__.update(state)
        for derived in ("support", "known_rewards"):  # which arrive writeable, and are made again when asked for
            self.__dict__.pop(derived, None)
        self.__dict__["rows"] = Rows(*(_read_only(array) for array in self.rows))
        self.__dict__["initial"] = _read_only(self.initial)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularMDP) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        some = "" if self.support.whole else f"pairs={self.support.pairs}, "
        return (
            f"TabularMDP(S={self.n_states}, A={self.n_actions}, {some}outcomes={self.rows.probability.size}, "
            f"gamma={self.gamma:g})"
        )


def _first_states(initial: ArrayLike | None, n_states: int) -> NDArray[np.float64]:
    """Return the distribution of the first state, its sum divided out if it is off by more than rounding."""
    if initial is None:
        return np.full(n_states, 1.0 / n_states)
    distribution = check_initial("TabularMDP", initial, n_states)
    total = float(distribution.sum())
    return distribution / total if abs(total - 1.0) > n_states * 2.0**-52 else distribution


def _range_of(declared: object, rows: Rows, n_actions: int) -> tuple[float, float]:
    """Return bounds that every reward obeys; the smallest and largest reward when not given."""
    smallest, largest = float(rows.reward.min()), float(rows.reward.max())
    if declared is None:
        return smallest, largest
    low, high = check_range("TabularMDP", declared)
    if smallest < low or largest > high:
        outside = int(np.argmax((rows.reward < low) | (rows.reward > high)))
        raise InvalidMDP(
            f"TabularMDP: rewards must lie in the declared range [{low:g}, {high:g}], row "
            f"{describe_row(int(rows.row[outside]), n_actions)} has {rows.reward[outside]:g}. Widen reward_range or "
            "mend the reward."
        )
    return low, high


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nobody can make writeable again: its base is read-only, and nobody else has it."""
    array.setflags(write=False)
    return array.view()


def _freeze_model(name: str, output: Any) -> TabularMDP:
    if not isinstance(output, TabularMDP):
        raise InvalidInput(f"Run: a {name} must be a TabularMDP, got {type(output).__name__}.")
    return output if output.estimated else output._with(estimated=True, _source=None)


def _encode_model(model: TabularMDP) -> NDArray[np.uint8]:
    stream = io.BytesIO()
    write_artifact(model, stream)
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


add_level(
    Level(
        "model",
        implies=("value",),
        freeze=_freeze_model,
        digest=lambda name, model: model.digest,
        encode=_encode_model,
        decode=lambda array: read_artifact(io.BytesIO(array.tobytes()), TabularMDP),
    )
)
