"""What another data set would say: ``diagnose`` a log, ``calibrate`` one algorithm, ``compare`` all of them."""

from replicable_rl.diagnose.calibrating import calibrate
from replicable_rl.diagnose.calibration import Calibration
from replicable_rl.diagnose.comparing import compare
from replicable_rl.diagnose.comparison import Compared, Comparison
from replicable_rl.diagnose.diagnosis import Diagnosis, FragileState, diagnose
from replicable_rl.diagnose.search import Point

__all__ = [
    "Calibration",
    "Compared",
    "Comparison",
    "Diagnosis",
    "FragileState",
    "Point",
    "calibrate",
    "compare",
    "diagnose",
]
