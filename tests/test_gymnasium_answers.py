"""What environments answer: in Gymnasium's form, or refused in one sentence, whoever asks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import replicable_rl as rr
from replicable_rl.randomness import sample_stream

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # Gymnasium's own

NAN = float("nan")
STEPS: dict[str, Any] = {
    "terminated as text": (1, 0.0, "False", False, {}),
    "terminated as empty text": (1, 0.0, "", False, {}),
    "terminated as NaN": (1, 0.0, NAN, False, {}),
    "terminated as 2": (1, 0.0, 2, False, {}),
    "terminated as -1": (1, 0.0, np.int64(-1), False, {}),
    "terminated as a half": (1, 0.0, 0.5, False, {}),
    "terminated as None": (1, 0.0, None, False, {}),
    "terminated as a list": (1, 0.0, [], False, {}),
    "terminated as flags": (1, 0.0, np.array([True, False]), False, {}),
    "truncated as text": (1, 0.0, False, "no", {}),
    "truncated as NaN": (1, 0.0, False, NAN, {}),
    "truncated as info": (1, 0.0, False, {}, {}),
    "four values": (1, 0.0, True, {}),
    "six values": (1, 0.0, True, False, {}, {}),
    "nothing": None,
    "a text": "abcde",
    "reward as text": (1, "1.0", True, False, {}),
    "reward as NaN": (1, NAN, True, False, {}),
    "reward as infinity": (1, -float("inf"), True, False, {}),
    "reward as None": (1, None, True, False, {}),
    "reward as a list": (1, [1.0], True, False, {}),
    "reward as two": (1, np.ones(2), True, False, {}),
    "an observation outside": (-1, 0.0, False, False, {}),
    "an observation as text": ("1", 0.0, False, False, {}),
    "an observation as a fraction": (1.5, 0.0, False, False, {}),
}
RIGHT: dict[str, Any] = {
    "Python's": (1, 1, True, False, {}),
    "NumPy's": (np.int64(1), np.float32(1), np.bool_(True), np.bool_(False), {}),
    "numbers": (1, 1.0, 1, 0, {}),
}
STARTS: dict[str, Any] = {
    "an observation alone": 0,
    "an array alone": np.zeros(2, dtype=int),
    "nothing": None,
    "three values": (0, {}, {}),
    "a text": "ab",
}


class Answering(gymnasium.Env[Any, Any]):
    """Answers what its table says, whatever is done."""

    observation_space, action_space = Discrete(3), Discrete(2)

    def __init__(self, step: str = "Python's", start: str | None = None) -> None:
        self._step, self._start = (RIGHT | STEPS)[step], (0, {}) if start is None else STARTS[start]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._start

    def step(self, action: int) -> Any:
        return self._step


def played(**answers: str) -> Any:
    env = rr.EpisodicEnv(Answering(**answers), gamma=0.9, reward_range=(0.0, 1.0))
    return env.play([0] * 4, 2, 2, sample_stream(1))


@pytest.mark.parametrize(("place", "kind"), [("step", one) for one in STEPS] + [("start", one) for one in STARTS])
def test_an_answer_of_another_form_gets_a_sentence(place: str, kind: str) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^EpisodicEnv") as refusal:
        played(**{place: kind})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", RIGHT)
def test_an_answer_in_the_form_of_gymnasium_is_taken(kind: str) -> None:
    seen = played(step=kind)
    assert seen.next_state.tolist() == [3, 3]  # the state after the end
    assert seen.reward_sum.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    "outcome",
    [
        (1.0, 1, 0.0, "False"),
        (1.0, 1, 0.0, NAN),
        (1.0, 1, 0.0, 2),
        (1.0, 1, 0.0, None),
        (1.0, 1, "1", False),
        (1.0, 1, NAN, False),
        ("1", 1, 0.0, False),
        (NAN, 1, 0.0, False),
        (1.0, 1, 0.0),
    ],
)
def test_a_table_of_another_form_gets_a_sentence(outcome: tuple[Any, ...]) -> None:
    def table(outcome: tuple[Any, ...]) -> Answering:
        env = Answering()
        env.P = {s: {a: [outcome] for a in range(2)} for s in range(3)}  # type: ignore[attr-defined]
        return env

    assert rr.from_gymnasium(table((1.0, 1, 0.0, np.bool_(True)))).n_states == 4
    with pytest.raises(rr.InvalidInput, match="0"):
        rr.from_gymnasium(table(outcome))
