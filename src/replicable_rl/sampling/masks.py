"""Which actions an environment allows in each state, as it says itself: Gymnasium's ``action_mask``.

Which actions a state has is part of the problem: two runs that had to find it out could differ in states that one of
them hardly met. So it is found out once, when the problem is made, and is the same in every process:

    an environment that can be asked, as Taxi by ``env.unwrapped.action_mask(state)``, is asked for every state;
    another tells it in ``info`` alone: it is walked through at random, always with the same seed.

From then on every mask that it tells must be the one that is known. One that changes is refused: it depends on more
than the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.errors import InvalidInput, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.sampling.stepping import EpisodicEnv

    Mask = NDArray[np.bool_]

ACTION_MASK = "action_mask"
_WALK = 20_000  # steps in search of masks


class Masks:
    """The masks that an environment tells.

    ``allowed`` is (S - 1, A): the state after the end, which is ours, has no mask. A state that the search did not
    meet, or that has no action at all, because nobody acts there, has all of them.
    """

    def __init__(self, model: EpisodicEnv) -> None:
        self._model, states = model, model.n_states - 1
        self._told: Mask = np.zeros((states, model.n_actions), dtype=np.bool_)  # no action where nobody acts
        env = model.env
        if model.is_vector:
            parts = getattr(env, "envs", None)
            if not parts:
                raise InvalidInput(
                    f"{model}: the parts of this vector environment cannot be asked for masks. Give allowed as an "
                    "(S, A) table of True and False."
                )
            env = parts[0]
        ask = getattr(getattr(env, "unwrapped", env), ACTION_MASK, None)
        if callable(ask):
            for state in range(states):
                self._told[state] = self._row(ask(state + model.first_state))
            self._met = np.ones(states, dtype=np.bool_)
        else:
            self._met = np.zeros(states, dtype=np.bool_)
            self._walk(env)
        self.allowed: Mask = self._told | ~self._told.any(axis=1, keepdims=True)
        self.allowed.setflags(write=False)

    def check(self, state: int, info: Any) -> None:
        """Refuse a mask that is not the one that is known."""
        if ACTION_MASK in info:
            self._compare(state, self._row(info[ACTION_MASK]))

    def check_many(self, state: NDArray[np.int64], info: Any, of: Mask) -> None:
        """Refuse a mask, of some parts of a vector environment, that is not the one that is known."""
        if ACTION_MASK in info:
            told = np.asarray(info.get(f"_{ACTION_MASK}", np.ones(of.size, dtype=np.bool_)), dtype=np.bool_)
            for i in np.flatnonzero(of & told).tolist():
                self._compare(int(state[i]), self._row(info[ACTION_MASK][i]))

    def _walk(self, env: Any) -> None:
        """Go through the environment at random, and note the mask of every state."""
        model, rng = self._model, np.random.default_rng(0)
        seed: int | None = 0
        state, over = 0, True
        for _ in range(_WALK):
            if over:
                observation, info = env.reset(seed=seed)
                seed, over = None, False
            else:
                action = int(rng.choice(np.flatnonzero(self._told[state])))
                observation, _, terminated, truncated, info = env.step(action + model.first_action)
                over = bool(terminated or truncated)
                if terminated:
                    continue
            state = model.state_of(observation)
            if ACTION_MASK not in info:
                raise InvalidInput(
                    f"{model}: allowed='{ACTION_MASK}' needs an environment that tells info['{ACTION_MASK}'], and this "
                    "one does not. Leave allowed out, or give an (S, A) table of True and False."
                )
            row = self._row(info[ACTION_MASK])
            if self._met[state]:
                self._compare(state, row)
            if not row.any() and not over:
                raise InvalidInput(
                    f"{model}: the {ACTION_MASK} of state {state} allows no action, and nothing is over."
                )
            self._told[state], self._met[state] = row, True

    def _row(self, told: Any) -> Mask:
        try:
            row = np.asarray(told)
            right = row.shape == (self._model.n_actions,) and row.dtype.kind in "biuf" and np.isin(row, (0, 1)).all()
        except Exception:  # whatever somebody's object raises
            right = False
        if not right:
            raise InvalidInput(
                f"{self._model}: an {ACTION_MASK} must hold 0 or 1 for each of the {self._model.n_actions} actions, "
                f"got {shown(told)}."
            )
        return row.astype(np.bool_)

    def _compare(self, state: int, row: Mask) -> None:
        known = self._told[state] if self._met[state] else self.allowed[state]
        if np.array_equal(row, known) or not (row.any() or self._met[state]):  # the latter: nobody acts there
            return
        one, two = (np.flatnonzero(mask).tolist() for mask in (known, row))
        if self._met[state]:
            raise InvalidInput(
                f"{self._model}: the {ACTION_MASK} of state {state} changes: actions {one}, and then {two}. It must "
                "depend on the state alone: let observations hold what it depends on, or leave allowed out."
            )
        raise InvalidInput(
            f"{self._model}: state {state} has actions {two} only, which no walk of {_WALK} steps had found out. Give "
            "allowed as an (S, A) table of True and False."
        )
