"""Property tests: the same examples every time in CI, fresh ones elsewhere, and never a deadline.

``REPLICABLE_RL_TEST_SEED`` rotates the seeds of the stochastic tests (see ``tests/statistics.py``) and, with
it, makes property tests look for new examples in CI too.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("fresh", deadline=None)
if not os.access(Path.cwd(), os.W_OK):  # hypothesis keeps what failed in the folder that it is started from
    settings.register_profile("fresh", deadline=None, database=None)
settings.load_profile("fixed" if "CI" in os.environ and "REPLICABLE_RL_TEST_SEED" not in os.environ else "fresh")
