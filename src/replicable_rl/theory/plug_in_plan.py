"""The plan of a plug-in policy: what a run of it takes, what it may promise, and the rules side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from replicable_rl.runs import CERTIFICATE, FIXED_SEED, THIS_SEED, Claim, Claims, LibraryClaim
from replicable_rl.theory import decisions
from replicable_rl.theory.decisions import PROMISES, Promises, Sizes
from replicable_rl.theory.parameters import MOST
from replicable_rl.theory.plan import MAX_CALLS, SLACK, Cell, Plan, PlanTable, claim_if, claims_of
from replicable_rl.wording import bound as bound_text
from replicable_rl.wording import number

_SOURCE = "docs/proofs-decisions.md"
_PARAMETERS = {
    decisions.ROUNDED: "beta",
    decisions.GUMBEL: "lambda",
    decisions.TOLERANCE: "x",
    decisions.PUBLISHED: "doubt",
}
_SIDE_BY_SIDE = (
    *(decisions.AFFORDABLE, decisions.PUBLISHED, decisions.TOLERANCE, decisions.ROUNDED),
    *(decisions.GUMBEL, decisions.GREEDY),
)
_SAME = {decisions.ROUNDED: "Q, policy", decisions.GREEDY: "-"}  # the others: the policy


@dataclass(frozen=True, kw_only=True, repr=False)
class PlugInPlan(Plan):
    """Everything a run of a plug-in policy needs, and what it may promise.

    Attributes
    ----------
    rule : str
        The id of the rule; of one of your own nothing is proved.
    per_pair, per_pair_needed : int
        Samples n of every pair that a run draws, and that the proof needs.
    spent : float
        eps', the loss that the rule may spend.
    parameter : float
        Of the rule: its width, rate, tolerance or scale; 0 for rules without.
    over : {"initial", "worst"}
        Whether losses are those from the first state on or of the worst state.
    horizon : int or None
        Steps of an episode, where the problem is explored in episodes; None where pairs are drawn.
    budget : int or None
        Transitions in all, where the problem is explored, or recorded.
    recorded : bool
        Whether the samples are those of a log.
    allowed_pairs : int or None
        How many pairs there are where some actions are not allowed in every state; None: S*A.
    """

    n_states: int
    n_actions: int
    gamma: float
    rule: str
    per_pair: int
    per_pair_needed: int
    spent: float
    parameter: float
    over: str
    horizon: int | None = None
    budget: int | None = None
    recorded: bool = False
    allowed_pairs: int | None = None

    _derived: ClassVar[tuple[str, ...]] = ("policy_loss",)
    _counts: ClassVar[tuple[str, ...]] = ("per_pair", "per_pair_needed", "budget")

    @property
    def sizes(self) -> Sizes:
        """What the bounds know of the problem."""
        sizes = self.n_states, self.n_actions, self.gamma, self.known_rewards
        return Sizes(*sizes, self.over == "initial", self.allowed_pairs)

    @property
    def samples(self) -> int:
        """Transitions that a run draws, at most."""
        return self.per_pair * self.sizes.pairs if self.budget is None else self.budget

    @property
    def explores(self) -> bool:
        """Whether samples are collected in episodes, or were: pairs then have as many as came."""
        return self.horizon is not None or self.recorded

    @property
    def _promises(self) -> Promises | None:
        return None if self.explores else PROMISES.get(self.rule)

    @cached_property
    def rho_proved(self) -> float | None:  # asked in every run of an audit
        """Bound on the probability that two runs differ; 1 when nothing is proved."""
        if self._promises is None:
            return 1.0
        return min(1.0, self._promises.differ(self.sizes, self.per_pair, self.parameter, self.spent))

    @property
    def policy_loss(self) -> float:
        """Bound on the loss of the policy that holds with probability 1 - delta; 1 when nothing is proved."""
        if self._promises is None:
            return 1.0
        return min(1.0, self._promises.loss(self.sizes, self.per_pair, self.parameter, self.spent, self.delta))

    @property
    def accuracy_proved(self) -> bool:
        """Whether the policy is proved to lose at most epsilon."""
        return self.policy_loss <= self.epsilon * SLACK

    def claims(self, *, sure: bool = False, off: float = 0.0) -> Claims:
        """Return what may be claimed of a run.

        ``sure`` says that every number of it kept its margin from its threshold, and ``off`` how far off planning on
        its model may be, in values normalised to [0, 1]: discounts very near 1 leave too few digits for a proof.
        """
        if off > decisions.EXACT:
            why = f"with gamma={self.gamma!r} planning is off by up to {off:.1g}, and proofs allow 1e-10: lower gamma"
            return Claims(missing={"accuracy": why, "replicability": why})
        made = self._claims
        if sure and self.rule in PROMISES and 2.0 * self.delta < 1.0:
            made = made.and_of_this_seed(self._sure_claim)
        return self._here(made)

    @property
    def _sure_claim(self) -> Claim:
        wrong, cuts = min(1.0, 2.0 * self.delta), self.rule == decisions.PUBLISHED
        level = "value" if self.rule == decisions.ROUNDED else "policy"
        shared = "these cuts" if cuts else "this shared seed"
        said = f"a second run with {shared} would have the same {level} (wrong with probability at most {wrong:g})"
        enough = ("it has as many samples of every pair", *(() if cuts else (FIXED_SEED,)))
        definition = CERTIFICATE if cuts else THIS_SEED
        source = f"{_SOURCE}, given the data"
        return LibraryClaim("replicability", "proved", said, wrong, source, 0.0, level, enough, definition)

    @cached_property
    def _claims(self) -> Claims:
        why = self._unproved
        if why:
            return Claims(missing={"accuracy": why, "replicability": why})
        needed = {"samples": (float(self.per_pair), float(self.per_pair_needed))}
        said = f"the policy is within {self.epsilon:g} of optimal {self._where} (values in [0, 1])"
        said = f"{said}, except with probability {self.delta:g}"
        # Shared noise is bad with probability delta/2: who chooses the seed may choose a bad one.
        seed = ("the shared seed was drawn and not chosen",) if self.rule == decisions.GUMBEL else ()
        promise = LibraryClaim("accuracy", "proved", said, self.epsilon, _SOURCE, self.delta, "policy", seed)
        accuracy = claim_if(self.accuracy_proved, promise, self.policy_loss, at_least=needed, of="the proof")
        return self._with_second_run(self._or_never(accuracy), needed)

    def _with_second_run(self, accuracy: Claim | str, needed: dict[str, tuple[float, float]]) -> Claims:
        if self.rule == decisions.GREEDY:
            return claims_of(accuracy, None)
        if self.rule == decisions.PUBLISHED:
            return claims_of(accuracy, "published cuts come from the first run's sample; see docs/decisions.md")
        level = "value" if self.rule == decisions.ROUNDED else "policy"
        same = "Q" if level == "value" else "policy"
        said = f"two runs have the same {same}, except with probability {self.rho:g}"
        given: dict[str, Any] = {"level": level, "conditions": (FIXED_SEED,)}
        claim = LibraryClaim("replicability", "proved", said, self.rho or 0.0, _SOURCE, **given)
        reached = 1.0 if self.rho_proved is None else self.rho_proved
        second = claim_if(self.replicability_proved, claim, reached, at_least=needed, of="the proof")
        return claims_of(accuracy, self._or_never(second))

    def _or_never(self, claim: Claim | str) -> Claim | str:
        """Say so where no number of samples is enough, as with a parameter that costs more than epsilon."""
        if isinstance(claim, Claim) or self.per_pair_needed < MOST:
            return claim
        name = _PARAMETERS.get(self.rule)
        by = f" with {name}={number(self.parameter, 3)}" if name else ""
        return f"no number of samples proves a loss of {self.epsilon:g} for rule={self.rule}{by}"

    @property
    def _where(self) -> str:
        on_average = self.over == "initial" and self.rule in (decisions.AFFORDABLE, decisions.PUBLISHED)
        start = "on average over all states" if self.anywhere else "from the first state on"
        return start if on_average else "in every state"

    @property
    def _unproved(self) -> str:
        if self.recorded:
            return "how many samples a pair has is the log's, and may depend on what was seen"
        if self.explores:
            return "samples were collected by exploring, so how many there are depends on them"
        return "" if self.rule in PROMISES else f"rule={self.rule} is unknown to the proofs"

    def table(self) -> PlanTable:
        """Return a row for every rule, and first of all for this run."""
        heading = f"plug-in policy, rule {self.rule}: the policy loses at most epsilon {self._where}"
        if self.explores:
            return self._table(heading, {"this run": self._exploring}, f"{number(self.samples)} transitions")
        rules = {"this run": self} | {rule: self._like(rule) for rule in _SIDE_BY_SIDE}
        columns = {name: {rule: plan._row[name] for rule, plan in rules.items()} for name in self._row}
        n = number(self.per_pair) if self.per_pair < MOST else "2**200, where the search ends"
        made = self._table(heading, columns, f"n = {n}")
        too_many = any(plan.per_pair > MAX_CALLS for plan in rules.values())
        return made._replace(closing=f"{made.closing}{' More than 2**63 cannot be drawn.' * too_many}")

    def _like(self, rule: str) -> PlugInPlan:
        from replicable_rl.theory.plug_in import plug_in_policy

        names = "n_states", "n_actions", "gamma", "epsilon", "delta", "known_rewards", "over", "allowed_pairs"
        same: dict[str, Any] = {name: getattr(self, name) for name in names}
        return plug_in_policy(**same, rho=self.rho or 0.5, rule=rule)

    @property
    def _row(self) -> dict[str, Cell]:
        name = _PARAMETERS.get(self.rule)
        return {
            "n per pair": self.per_pair if self.per_pair < MOST else "none",
            "in all": self.samples if self.per_pair < MOST else "none",
            "parameter": f"{name}={number(self.parameter, 3)}" if name else None,
            "same": _SAME.get(self.rule, "policy"),
            "differ": bound_text(self.rho_proved),
            "loss": bound_text(self.policy_loss),
        }

    @property
    def _exploring(self) -> dict[str, Cell]:
        return {
            "transitions in all": self.samples,
            "steps of an episode": self.horizon,
            "spent by the rule": self.spent,
        }
