"""How replicable is it? Many shared seeds, several samples each, and the agreement with an interval."""

from replicable_rl.audit.agreement import Agreement, Estimate, StateAgreement
from replicable_rl.audit.audits import audit, audit_spec, opened_store, read_audits, run_audits
from replicable_rl.audit.evidence import AuditSpec, FreshSamples, Job, SeveralLogs, TrainingCode
from replicable_rl.audit.judging import Accuracy, PolicyValue, Returns
from replicable_rl.audit.result import AuditResult
from replicable_rl.audit.workers import RunFailed

__all__ = [
    "Accuracy",
    "Agreement",
    "AuditResult",
    "AuditSpec",
    "Estimate",
    "FreshSamples",
    "Job",
    "PolicyValue",
    "Returns",
    "RunFailed",
    "SeveralLogs",
    "StateAgreement",
    "TrainingCode",
    "audit",
    "audit_spec",
    "opened_store",
    "read_audits",
    "run_audits",
]
