"""Whose claim is it: nothing that was said by other code than this library's reads as proved, however it comes."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.algorithms.plan import Plan
from replicable_rl.audit import AuditResult
from replicable_rl.diagnose import search
from replicable_rl.problem import greedy
from replicable_rl.problem.shipped import two_goals
from replicable_rl.runs import OURS, SHIPPED, Claim, Claims, LibraryClaim, ObjectSpec, provider
from replicable_rl.store import RunStore
from tests.statistics import Like

GRID = rr.make("two-goals-v1")
PROMISE: dict[str, Any] = {"epsilon": 0.1, "delta": 0.001, "rho": 0.2}
HONEST = rr.ReplicablePhasedVI(**PROMISE)
PROVED = rr.ReplicablePhasedVI(**PROMISE).plan(GRID).claims()  # of this library, and good for 32 pairs and rPVI


def bad_run(claims: Claims) -> rr.Run:
    """Return a run that has seen no data, with these claims."""
    done = rr.Status(rr.StatusCode.COMPLETED, "done")
    return rr.Run.of({"policy": np.zeros(GRID.n_states, dtype=int)}, status=done, claims=claims, samples=10)


@dataclasses.dataclass(frozen=True)
class Stranger(rr.Algorithm):
    """Claims what a text says, and never looks at its data."""

    how: str
    epsilon: float = 0.1
    id: ClassVar[str] = "stranger-v1"

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        return bad_run(CLAIMS[self.how]()).but()


def by_hand() -> Claims:
    return Claims(
        (
            rr.Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "thm:rpvi", 0.001, "policy"),
            rr.Claim("replicability", "stated", "two runs have the same policy", 0.2, "thm:rpvi", level="policy"),
        )
    )


def changed(claims: Claims) -> Claims:
    """Return stated claims whose kind was overwritten."""
    for claim in claims:
        object.__setattr__(claim, "kind", "proved")
    return claims


CLAIMS: dict[str, Any] = {
    "by hand": by_hand,
    "overwritten": lambda: changed(by_hand()),
    "this library's own, of a plan": lambda: PROVED,
    "copied": lambda: copy.deepcopy(PROVED),
    "with another statement": lambda: Claims(
        tuple(dataclasses.replace(one, statement="all is well") for one in PROVED)
    ),
    "of this library's class": lambda: Claims((LibraryClaim("accuracy", "proved", "all is well", 0.1, "thm:rpvi"),)),
    "read as this library's": lambda: Claims.from_json(PROVED.to_json(), OURS),
    "of an honest run elsewhere": lambda: rr.solve(GRID, HONEST, shared_seed=1, sample_seed=1).claims,
}


class Inherits(rr.ReplicablePhasedVI):
    """This library's, with another end."""

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        run = super().solve(source, shared, rng)
        return run.but(outputs=bad_run(PROVED).outputs, fingerprints=bad_run(PROVED).fingerprints)


class PlansLess(rr.ReplicablePhasedVI):
    """Runs by the plan of another promise."""

    def plan(self, problem: Any) -> Any:
        return rr.ReplicablePhasedVI(0.9, 0.1, 0.5).plan(problem)


class OnlyNamed(rr.ReplicablePhasedVI):
    """Nothing of its own but the name."""


ALGORITHMS: dict[str, Any] = {
    **{how: functools.partial(Stranger, how) for how in CLAIMS},
    "inherits": lambda: Inherits(**PROMISE),
    "plans less": lambda: PlansLess(**PROMISE),
    "only named": lambda: OnlyNamed(**PROMISE),
}


@pytest.fixture(params=ALGORITHMS)
def stranger(request: pytest.FixtureRequest) -> Any:
    return ALGORITHMS[request.param]()


def says_nothing_proved(run: rr.Run) -> None:
    assert {claim.kind for claim in run.claims} == {"stated"}
    assert "proved (" not in str(run.claims).lower()
    assert all("not by this library" in str(claim) and "Theorem" not in str(claim) for claim in run.claims)


def test_what_others_claim_is_stated(stranger: Any, tmp_path: Path) -> None:
    run = rr.solve(GRID, stranger, shared_seed=1, sample_seed=1)
    says_nothing_proved(run)
    rr.save(run, tmp_path / "run")
    says_nothing_proved(rr.load(tmp_path / "run"))


def test_so_it_is_in_audits_and_what_they_keep(stranger: Any, tmp_path: Path) -> None:
    result = rr.audit(GRID, stranger, shared_seeds=2)
    for run in result.runs:
        says_nothing_proved(run)
    with RunStore(tmp_path / "runs.sqlite") as store:
        store.add([run.kept(None).but(spec=run.spec) for run in result.runs[:1]], {})
        for run in store.runs(result.spec.family).values():
            says_nothing_proved(run)


def test_a_run_that_drew_nothing_has_no_samples() -> None:
    assert bad_run(by_hand()).samples == 10  # it says so, and never asks for a sample
    assert rr.solve(GRID, Stranger("by hand"), shared_seed=1, sample_seed=1).samples == 0
    assert "no run drew" in rr.audit(GRID, Stranger("by hand"), shared_seeds=2).unsampled


def test_so_it_is_in_what_training_code_returns() -> None:
    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.solve(GRID, HONEST, shared_seed=shared_seed, sample_seed=sample_seed)

    for run in rr.audit_callable(train, shared_seeds=2, problem=GRID).runs:
        says_nothing_proved(run)


def test_rules_that_pretend() -> None:
    class Mine(rr.rules.Greedy):
        pass

    with pytest.raises(rr.InvalidInput, match="'greedy'"):
        rr.PlugInPolicy(**PROMISE, rule=Mine())


@pytest.mark.parametrize("id", sorted(SHIPPED))
def test_no_other_code_has_an_id_of_this_library(id: str) -> None:
    borrowed = type("Borrowed", (Stranger,), {"id": id, "version": "1"})("by hand")
    with pytest.raises(rr.InvalidInput, match=id):
        rr.solve(GRID, borrowed, shared_seed=1)


@pytest.mark.parametrize("kind", ["proved", "asymptotic", "measured", "sure", None])
def test_the_public_claim_is_stated(kind: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=f"kind must be 'stated', got {kind!r}"):
        rr.Claim("accuracy", kind, "the policy is within 0.1 of optimal", 0.1, "thm:rpvi")


def test_a_file_is_believed_about_this_librarys_algorithms_alone(tmp_path: Path) -> None:
    run = rr.solve(GRID, HONEST, shared_seed=1, sample_seed=1)
    rr.save(run, tmp_path / "ours")
    assert rr.load(tmp_path / "ours").claims == run.claims
    assert {claim.kind for claim in run.claims} == {"proved"}
    spec = dataclasses.replace(run.spec, algorithm=ObjectSpec("mine-v1"))  # type: ignore[type-var]  # it has one
    rr.save(dataclasses.replace(run, spec=spec), tmp_path / "mine")
    says_nothing_proved(rr.load(tmp_path / "mine"))
    assert {claim.kind for claim in Claims.from_json(run.claims.to_json())} == {"stated"}
    with RunStore(None) as store:
        for one in (run, dataclasses.replace(run, spec=spec)):
            store.add([one.kept(None)], {})
        for family, _ in store.families():
            (read,) = store.runs(family).values()
            assert [claim.kind for claim in read.claims] == [
                "proved" if family.algorithm.id == "rpvi-v1" else "stated"
            ] * len(run.claims)


def test_whose_code_it_is() -> None:
    class Own(Like):
        pass

    for ours in (rr.solve, two_goals, HONEST, type(HONEST), HONEST.plan, GRID, GRID.draw, rr.Simulator):
        assert provider(ours) == OURS
    made = rr.PlugInPolicy(**PROMISE), rr.RMax(0.1, 0.01, 60), rr.testing.PerSample(GRID), GRID
    assert {provider(one) for one in made} == {OURS}
    for theirs in (Stranger("by hand"), Stranger, test_whose_code_it_is, lambda: 0, Own):
        assert provider(theirs) == __name__
    assert provider(rr.PlugInPolicy(**PROMISE, samples=10, rule=Named())) == __name__
    assert (provider(len), provider(np.zeros), provider(functools.partial(len))) == ("builtins", "numpy", "builtins")


@dataclasses.dataclass(frozen=True)
class Named(rr.rules.Rule):
    """A rule of one's own."""

    id: ClassVar[str] = "named"

    def decide(self, model: Any, *others: Any) -> rr.rules.Decision:
        return rr.rules.Decision({"policy": model.best.policy}, sure=lambda margin: True)


def test_rules_of_ones_own_are_never_sure() -> None:
    own = rr.PlugInPolicy(**PROMISE, samples=10**6, rule=Named())
    assert not list(rr.solve(GRID, own, shared_seed=1, sample_seed=1).claims)


class Overclaims(Plan[Any]):
    """A plan that says of itself what it likes."""

    def claims(self, **_: Any) -> Claims:
        return PROVED


class PlansMore(rr.ReplicablePhasedVI):
    def plan(self, problem: Any) -> Any:
        plan = super().plan(problem)
        fields = {one.name: getattr(plan, one.name) for one in dataclasses.fields(plan)}
        return Overclaims(**fields)


@pytest.mark.parametrize("algorithm", [Inherits(**PROMISE), OnlyNamed(**PROMISE)])
def test_a_plan_of_others_is_stated(algorithm: Any, tmp_path: Path) -> None:
    planned = rr.plan(GRID, algorithm)
    assert {claim.kind for claim in planned.claims()} == {"stated"}
    assert "not by this library" in str(planned.claims())
    assert "proved" not in json.dumps(planned.to_json())


def test_what_others_need_is_not_shown_as_proved() -> None:
    assert search.proved_samples(search.Sized(GRID, HONEST), 0.2, 0.1) is not None
    for algorithm in (Inherits(**PROMISE), PlansMore(**PROMISE)):
        assert search.proved_samples(search.Sized(GRID, algorithm), 0.2, 0.1) is None


# --- audits judge what their runs claim ----------------------------------------------------------


NOTHING = Claims()


@dataclasses.dataclass(frozen=True)
class Fickle(rr.Algorithm):
    """Takes the best policy, or the worst in a share of its runs, and claims what it is given."""

    bad: float = 0.0
    claims: Claims = NOTHING
    only_if_good: bool = False
    id: ClassVar[str] = "fickle-v1"

    def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
        best = rr.optimal_values(RIVER)
        is_bad = rng.random() < self.bad
        source.draw(1, rng)
        q = np.zeros_like(best.q) if is_bad else best.q
        claims = Claims() if is_bad and self.only_if_good else self.claims
        return rr.Run.of({"value": q, "policy": greedy(q)}, samples=12, claims=claims)


RIVER = rr.make("riverswim-v1")  # the policy of zeros loses 0.46
LOSES = rr.Claim("accuracy", "stated", "the policy is within 0.1 of optimal", 0.1, "mine", 0.05, "policy")
AGREES = rr.Claim("replicability", "stated", "two runs have the same policy", 0.1, "mine", level="policy")


def library(claim: Claim, kind: str) -> Claim:
    """Return a claim as this library would make it."""
    parts = {one.name: getattr(claim, one.name) for one in dataclasses.fields(claim)}
    return LibraryClaim(**{**parts, "kind": kind})


def audited(claim: Claim, bad: float, **options: Any) -> AuditResult:
    return rr.audit(RIVER, Fickle(bad, Claims((claim,)), **options), shared_seeds=60)


@pytest.mark.parametrize(
    ("claim", "bad", "refuted"),
    [
        (LOSES, 0.0, False),
        (LOSES, 0.02, False),
        (LOSES, 0.5, True),
        (dataclasses.replace(LOSES, bound=0.5), 1.0, False),
        (dataclasses.replace(LOSES, failure=0.999), 0.9, False),
        (dataclasses.replace(LOSES, failure=0.0), 0.2, True),
        (dataclasses.replace(LOSES, level=None), 0.5, True),
        (dataclasses.replace(LOSES, level="value", bound=0.2), 0.5, True),
        (dataclasses.replace(LOSES, level="value", bound=0.2), 0.0, False),
        (dataclasses.replace(LOSES, level="model"), 0.5, False),
        (AGREES, 0.0, False),
        (AGREES, 0.03, False),
        (AGREES, 0.5, True),
        (dataclasses.replace(AGREES, level="value"), 0.5, True),
        (dataclasses.replace(AGREES, level=None), 0.5, True),
        (dataclasses.replace(AGREES, bound=0.9), 0.5, False),
        (dataclasses.replace(AGREES, definition="def:mine"), 0.5, True),
        (dataclasses.replace(AGREES, definition=rr.runs.THIS_SEED), 0.5, True),
        (dataclasses.replace(AGREES, definition=rr.runs.THIS_SEED, bound=0.6), 0.5, False),
    ],
    ids=repr,
)
def test_claims_that_the_runs_refute(claim: Claim, bad: float, refuted: bool) -> None:
    result = audited(claim, bad)
    assert bool(result.refuted) is refuted
    if refuted:
        assert result.verdict() is False
        assert result.warnings[0] == result.refuted[0]


def test_one_loss_refutes_no_claim() -> None:
    rare = dataclasses.replace(LOSES, failure=0.001)
    losers = [audited(rare, bad) for bad in (0.005, 0.01, 0.02)]
    few = [result for result in losers if 0 < sum(run.policy[0] == 0 for run in result.runs) <= 2]
    assert few
    assert not [result.refuted for result in few if result.refuted]


@pytest.mark.parametrize("claim", [LOSES, AGREES], ids=["accuracy", "replicability"])
def test_kinds_and_conditions(claim: Claim) -> None:
    result = audited(claim, 0.5)
    for kind, judged in (("proved", True), ("asymptotic", False), ("measured", False)):
        one = library(claim, kind)
        runs = tuple(run.but(claims=Claims((one,))) for run in result.runs)
        assert bool(dataclasses.replace(result, runs=runs).refuted) is judged
    fails = "or its condition fails"
    assert fails not in result.refuted[0]
    assert fails in audited(dataclasses.replace(claim, conditions=("it rains",)), 0.5).refuted[0]
    assert fails not in audited(dataclasses.replace(claim, conditions=(rr.runs.FIXED_SEED,)), 0.5).refuted[0]


def test_what_no_run_claims_is_not_judged() -> None:
    assert not rr.audit(RIVER, Fickle(0.5), shared_seeds=60).refuted
    assert not audited(LOSES, 0.5, only_if_good=True).refuted  # those that lose do not claim
    assert audited(AGREES, 0.5, only_if_good=True).refuted  # a claim about any two runs, whoever makes it


def test_a_claim_that_each_run_words_differently_is_still_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Wordy(Fickle):
        id: ClassVar[str] = "wordy-v1"

        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            run = super().solve(source, shared, rng)
            said = f"the policy is good, says {rng.random()}"
            return run.but(claims=Claims((dataclasses.replace(LOSES, statement=said, bound=0.1 * rng.random()),)))

    assert len(rr.audit(RIVER, Wordy(0.5), shared_seeds=60).refuted) == 1


@pytest.mark.parametrize("claim", [LOSES, AGREES], ids=["accuracy", "replicability"])
def test_a_claim_that_allows_everything_hides_no_other(claim: Claim) -> None:
    """Neither beside it, under another definition, nor in a few of the runs."""
    free = dataclasses.replace(claim, bound=1.0, failure=1.0, definition="def:mine")
    runs = audited(claim, 0.5).runs
    for made in ((claim, free), (free, claim)):
        assert len(audited_as([made] * len(runs)).refuted) == 1
    seldom = dataclasses.replace(free, definition=claim.definition)
    for many, refuted in ((1, True), (6, True), (len(runs), False)):
        said = [(seldom,) if i < many else (claim,) for i in range(len(runs))]
        assert bool(audited_as(said).refuted) is refuted


def audited_as(claims: Sequence[tuple[Claim, ...]]) -> AuditResult:
    """Return an audit whose runs make these claims, each its own."""
    result = audited(claims[0][0], 0.5)
    runs = zip(result.runs, claims, strict=True)
    return dataclasses.replace(result, runs=tuple(run.but(claims=Claims(made)) for run, made in runs))


@pytest.mark.parametrize("conditions", ["it rains", (1,), ("",), [None]])
def test_conditions_are_texts(conditions: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="conditions must be"):
        dataclasses.replace(LOSES, conditions=conditions)


def test_training_code_is_judged_by_what_it_states() -> None:
    def train(shared_seed: int, sample_seed: int) -> rr.Run:
        return rr.Run.of({"policy": np.zeros(RIVER.n_states, dtype=int)}, claims=Claims((LOSES, AGREES)))

    (refuted,) = rr.audit_callable(train, shared_seeds=40, problem=RIVER).refuted
    assert "within 0.1 of optimal" in refuted  # and not the other claim
    assert "not by this library" in refuted
    assert not rr.audit_callable(train, shared_seeds=40).refuted  # without the table, losses are not known


def test_what_this_library_proves_is_not_refuted() -> None:
    for algorithm in (
        HONEST,
        rr.ReplicablePhasedVI(0.1, 0.001, 0.2, target="value"),
        rr.PhasedVI(0.1, 0.001),
        rr.PlugInPolicy(0.1, 0.01, 0.2),
        rr.PlugInPolicy(0.1, 0.01, 0.2, rule="rounded"),
        rr.ReplicableApproximateMDP(0.05, 0.001, 0.2),
    ):
        result = rr.audit(GRID, algorithm, shared_seeds=20)
        assert len(result.runs[0].claims) >= 1
        assert not result.refuted


REGISTERS = """
import dataclasses, numpy as np, replicable_rl as rr

proved = rr.plan(rr.make("riverswim-v1"), rr.ReplicablePhasedVI(0.1, 0.001, 0.2))

@rr.register
@dataclasses.dataclass(frozen=True)
class Mine(rr.Algorithm):
    epsilon: float = 0.1
    id = "my-rpvi-v1"

    def solve(self, source, shared, rng):
        policy = np.zeros(source.n_states, dtype=int)  # ignores its data
        return rr.Run.of({"policy": policy}, samples=10, claims=proved.claims())
"""


@pytest.mark.parametrize("more", [(), ("--require", "0.5")], ids=["", "require"])
def test_a_refuted_claim_is_the_exit_code(more: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "forging.py").write_text(REGISTERS)
    command = [str(Path(sys.executable).parent / "replicable-rl"), "--plugin", "forging", "audit"]
    asked = ["riverswim-v1", "my-rpvi-v1", "--shared-seeds", "20", "--store", "runs.sqlite", *more]
    made = subprocess.run([*command, *asked], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 1, made.stderr
    assert "stated by my-rpvi-v1, not by this library" in " ".join(made.stdout.split())
    assert "proved" not in made.stdout.lower()
    read = [command[0], "audit", "--store", "runs.sqlite", *more]  # without the plugin
    again = subprocess.run(read, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stderr
    assert "stated by my-rpvi-v1, not by this library" in " ".join(again.stdout.split())
