"""How much data it takes, and which rule: ``calibrate`` one algorithm, ``compare`` all of them."""

from replicable_rl.diagnose.calibration import Calibration, calibrate
from replicable_rl.diagnose.comparison import Compared, Comparison, compare
from replicable_rl.diagnose.search import Point

__all__ = ["Calibration", "Compared", "Comparison", "Point", "calibrate", "compare"]
