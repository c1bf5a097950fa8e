"""The agents of `benchmarks.stable`: DQN of Stable-Baselines3, trained once and kept as the weights of its network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import replicable_rl as rr
from benchmarks.stable_games import Finite, Game
from replicable_rl.files import replacing

Floats = NDArray[np.float64]
Weights = Sequence[Floats]
SHARED = ("network", "exploration")


class Trained(NamedTuple):
    """Which agent: of which game, whether weights and exploration are those of the shared seed, and the two seeds."""

    game: str
    shares: bool
    shared_seed: int
    sample_seed: int

    @property
    def file(self) -> str:
        """The name of the file that keeps it."""
        return f"{self.game}-{'shared' if self.shares else 'plain'}-{self.shared_seed}-{self.sample_seed}.npz"


def train(game: Game, agent: Trained) -> Weights:
    """Train once; return the weights and biases of all layers."""
    share = SHARED if agent.shares else ()
    learner = rr.StableBaselines3(
        "DQN",
        game.rules.env,
        game.steps,
        share=share,
        env_options=dict(game.env_options),
        algorithm_options=game.options,
    )
    trained = learner(agent.shared_seed, agent.sample_seed)
    return [one.detach().numpy().astype(np.float64) for one in trained.model.q_net.q_net.parameters()]


def kept(folder: Path, game: Game, agent: Trained) -> Weights:
    """Return an agent that was trained before, or train and keep it."""
    path = folder / agent.file
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            np.savez(stream, *train(game, agent))
    with np.load(path, allow_pickle=False) as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def q_function(game: Game, weights: Weights) -> Callable[[Any], Floats] | Floats:
    """Return the network as a function of observations; a table, where there are finitely many."""

    def network(observations: NDArray[Any]) -> Floats:
        layer = np.asarray(observations, dtype=np.float64)
        for i in range(0, len(weights), 2):
            layer = np.maximum(layer, 0.0) if i else layer
            layer = layer @ weights[i].T + weights[i + 1]
        return layer

    return network(game.rules.observations) if isinstance(game.rules, Finite) else network
