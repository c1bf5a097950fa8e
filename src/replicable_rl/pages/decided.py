"""What is decided in every state, with the names of states and actions: what a drawing and a figure start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replicable_rl.audit.audits import problem_of
from replicable_rl.errors import InvalidInput, check_numbers, shown
from replicable_rl.logs import Dataset
from replicable_rl.problem.table import Labels, TabularMDP
from replicable_rl.rules import Cuts
from replicable_rl.runs import ObjectSpec, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Decided(NamedTuple):
    """The action of every state; with the values of all actions where they are known.

    ``states`` and ``actions`` are names, numbers where there are none, and ``labels`` has the map, if there is one.
    """

    policy: NDArray[np.int64]
    labels: Labels
    q: NDArray[np.float64] | None = None

    def state(self, s: int) -> str:
        """Return the name of a state."""
        return str(s) if self.labels.states is None else self.labels.states[s]

    def action(self, a: int) -> str:
        """Return the name of an action."""
        return str(a) if self.labels.actions is None else self.labels.actions[a]

    @property
    def n_actions(self) -> int:
        """How many actions there are, as far as is known."""
        most = 0 if self.labels.actions is None else len(self.labels.actions)
        return max(most, 0 if self.q is None else self.q.shape[1], 1 + int(self.policy.max()))


def decided(owner: str, solution: Any, problem: Any = None) -> Decided:
    """Return what a run, published cuts or a list of actions decide.

    The problem is asked for the names. None takes the one that a run or cuts name by a registered id; where there is
    none, states and actions are numbers.
    """
    policy, q, spec = _taken(owner, solution)
    named = problem_of(spec, policy) if problem is None and spec is not None else problem
    if named is not None and not isinstance(named, (TabularMDP, Dataset)):
        raise InvalidInput(f"{owner}: problem must be a TabularMDP or a Dataset, got {shown(problem)}.")
    if named is None:
        return Decided(policy, getattr(solution, "names", None) or Labels(), q)
    if not _fits(policy, named):
        raise InvalidInput(
            f"{owner}: the policy has {policy.size} states and actions up to {policy.max()}, the problem "
            f"{named.n_states} states and {named.n_actions} actions. Give the problem that was solved."
        )
    return Decided(policy, named.labels, q)


def both(owner: str, solution: Any, other: Any, problem: Any) -> tuple[Decided, Decided | None]:
    """Return what one or two of them decide, about the same states."""
    one = decided(owner, solution, problem)
    two = None if other is None else decided(owner, other, problem)
    if two is not None and two.policy.size != one.policy.size:
        raise InvalidInput(
            f"{owner}: both must decide in the same states, got {one.policy.size} and {two.policy.size} of them."
        )
    return one, two


def differ(one: Decided, two: Decided) -> NDArray[np.bool_]:
    """Say in which states two of them do not decide alike."""
    differing: NDArray[np.bool_] = one.policy != two.policy
    return differing


def _taken(owner: str, solution: Any) -> tuple[NDArray[np.int64], NDArray[np.float64] | None, ObjectSpec | None]:
    if isinstance(solution, Cuts):
        return solution.policy, None, solution.problem
    if isinstance(solution, Run):
        spec = None if solution.spec is None else solution.spec.problem
        return _checked(owner, solution.policy), solution.outputs.get("value"), spec
    return _checked(owner, solution), None, None


def _checked(owner: str, policy: Any) -> NDArray[np.int64]:
    actions = check_numbers(owner, "the solution", policy)
    if actions.ndim != 1 or not actions.size or not ((actions >= 0) & (actions % 1.0 == 0.0) & (actions < 2**31)).all():
        raise InvalidInput(
            f"{owner}: the solution must be a Run, Cuts, or one action for every state, got {shown(policy)}."
        )
    return actions.astype(np.int64)


def _fits(policy: NDArray[np.int64], problem: TabularMDP | Dataset) -> bool:
    return policy.size == problem.n_states and int(policy.max()) < problem.n_actions
