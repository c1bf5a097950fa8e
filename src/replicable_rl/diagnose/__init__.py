"""What another data set would say: ``diagnose`` a log, ``calibrate`` one algorithm, ``compare`` all of them."""

from replicable_rl.diagnose.diagnosis import Diagnosis, FragileState, diagnose
from replicable_rl.diagnose.search import Calibration, Comparison, Point, calibrate, compare

__all__ = ["Calibration", "Comparison", "Diagnosis", "FragileState", "Point", "calibrate", "compare", "diagnose"]
