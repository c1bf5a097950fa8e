"""Replicable reinforcement learning: train twice on fresh samples, get exactly the same policy."""

from replicable_rl.errors import InvalidInput

__version__ = "0.1.0"
__all__ = ["InvalidInput", "__version__"]
