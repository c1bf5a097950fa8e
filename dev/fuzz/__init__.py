"""Mutated files: what every public reader makes of them. ``python -m dev.fuzz``."""
