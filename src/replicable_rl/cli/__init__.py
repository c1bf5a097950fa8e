"""The command ``replicable-rl``: parse, call one function, print, exit code.

0 done, 1 refuted or not met, 2 bad input or cannot tell.
"""

from replicable_rl.cli.main import main

__all__ = ["main"]
