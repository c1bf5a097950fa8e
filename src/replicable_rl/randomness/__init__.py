"""The two randomnesses: shared (published, addressed, frozen) and fresh (the samples)."""

from replicable_rl.randomness.streams import MAX_SEED, SharedRandomness, fresh_seed, sample_stream

__all__ = ["MAX_SEED", "SharedRandomness", "fresh_seed", "sample_stream"]
