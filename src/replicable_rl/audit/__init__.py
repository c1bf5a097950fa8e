"""How replicable is it? Many shared seeds, several samples each, and the agreement with an exact interval."""

from replicable_rl.audit.agreement import Agreement, Estimate
from replicable_rl.audit.api import audit
from replicable_rl.audit.callables import audit_callable
from replicable_rl.audit.result import AuditResult, OutputClass, PolicyValue
from replicable_rl.audit.run import RunFailed
from replicable_rl.audit.sb3 import StableBaselines3
from replicable_rl.audit.states import StateAgreement
from replicable_rl.audit.sweep import audit_plan

__all__ = [
    "Agreement",
    "AuditResult",
    "Estimate",
    "OutputClass",
    "PolicyValue",
    "RunFailed",
    "StableBaselines3",
    "StateAgreement",
    "audit",
    "audit_callable",
    "audit_plan",
]
