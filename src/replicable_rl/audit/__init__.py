"""How replicable is it? Many shared seeds, several samples each, and the agreement with exact intervals."""

from replicable_rl.audit.accuracy import Accuracy
from replicable_rl.audit.agreement import Agreement, Estimate
from replicable_rl.audit.api import audit, audit_spec, opened_store
from replicable_rl.audit.classes import OutputClass, PolicyValue
from replicable_rl.audit.closeness import Closeness
from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.audit.reading import read_audits
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.returns import Returns
from replicable_rl.audit.run import run_audits
from replicable_rl.audit.states import StateAgreement
from replicable_rl.audit.workers import RunFailed

__all__ = [
    "Accuracy",
    "Agreement",
    "AuditResult",
    "AuditSpec",
    "Closeness",
    "Estimate",
    "OutputClass",
    "PolicyValue",
    "Returns",
    "RunFailed",
    "StateAgreement",
    "audit",
    "audit_spec",
    "opened_store",
    "read_audits",
    "run_audits",
]
