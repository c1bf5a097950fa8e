"""The nouns: what is run (:class:`RunSpec`, :class:`AuditSpec`), what it yields (:class:`Run`), and what is claimed."""

from replicable_rl.records.audits import AuditSpec, Repeat, derived_seed
from replicable_rl.records.claims import (
    CERTIFICATE,
    EMPTY,
    FIXED_SEED,
    THIS_SEED,
    Claim,
    Claims,
    LibraryClaim,
    Measurement,
    shortfall,
)
from replicable_rl.records.levels import (
    LEVELS,
    Level,
    check_level,
    implied,
    in_order,
    level_of,
    register_level,
    usual_level,
)
from replicable_rl.records.logs import LogPair, Logs
from replicable_rl.records.plugins import OURS, is_our_file, is_reloaded, load_plugins, provider
from replicable_rl.records.run import Fingerprints, Run, history_digest, made_with
from replicable_rl.records.specs import (
    COUNTS,
    OWN,
    Drawn,
    ObjectSpec,
    Recorded,
    RunFamily,
    RunSpec,
    Sample,
    parameter_text,
)
from replicable_rl.records.status import UNSAID, Status, StatusCode
from replicable_rl.records.training import Training

__all__ = [
    "CERTIFICATE",
    "COUNTS",
    "EMPTY",
    "FIXED_SEED",
    "LEVELS",
    "OURS",
    "OWN",
    "THIS_SEED",
    "UNSAID",
    "AuditSpec",
    "Claim",
    "Claims",
    "Drawn",
    "Fingerprints",
    "Level",
    "LibraryClaim",
    "LogPair",
    "Logs",
    "Measurement",
    "ObjectSpec",
    "Recorded",
    "Repeat",
    "Run",
    "RunFamily",
    "RunSpec",
    "Sample",
    "Status",
    "StatusCode",
    "Training",
    "check_level",
    "derived_seed",
    "history_digest",
    "implied",
    "in_order",
    "is_our_file",
    "is_reloaded",
    "level_of",
    "load_plugins",
    "made_with",
    "parameter_text",
    "provider",
    "register_level",
    "shortfall",
    "usual_level",
]
