"""A run converts its problem once, and an audit asks its store once."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replicable_rl as rr
from replicable_rl.audit import api, jobs
from replicable_rl.records import LEVELS, RunFamily
from replicable_rl.registry import ALGORITHMS, PROBLEMS, SAMPLERS
from replicable_rl.sampling import Counts
from replicable_rl.solve import naming
from replicable_rl.solve import run as solving

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "replicable_rl"
MODULES = sorted(SOURCE.rglob("*.py"))

SHIPPED: list[Any] = [
    rr.PhasedVI(0.2, 0.05, calls=50, iterations=3),
    rr.PaperPhasedVI(0.2, 0.01, 0.3, calls=50, iterations=3),
    rr.ReplicablePhasedVI(0.2, 0.01, 0.3, calls=50, iterations=3),
    rr.ApproximateMDP(0.1, 0.01, calls=50),
    rr.PaperApproximateMDP(0.1, 0.01, 0.2, calls=50),
    rr.ReplicableApproximateMDP(0.1, 0.01, 0.2, calls=50),
    rr.RMax(0.1, 0.01, 10, episodes=5, rounds=3),
    rr.ReplicableRMax(0.1, 0.01, 0.2, 10, episodes=5, rounds=3),
    rr.PlugInPolicy(0.1, 0.01, 0.2, samples=50),
]


# --- solve ---------------------------------------------------------------------------------------


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a problem becomes a source, and a sampler is made, in what follows."""
    seen: Counter[str] = Counter()
    real = solving.source_of

    def source_of(*arguments: Any) -> Any:
        seen["source_of"] += 1
        return real(*arguments)

    class Counted(Counts):
        def __init__(self, mdp: rr.TabularMDP) -> None:
            seen["sampler"] += 1
            super().__init__(mdp)

    monkeypatch.setattr(solving, "source_of", source_of)
    monkeypatch.setitem(SAMPLERS, "counts-v1", Counted)
    return seen


@pytest.mark.parametrize("algorithm", SHIPPED, ids=lambda algorithm: algorithm.id)
def test_a_run_converts_its_problem_once(algorithm: Any, conversions: Counter[str]) -> None:
    rr.solve(rr.make("chain-v1"), algorithm, shared_seed=1, sample_seed=1)
    assert conversions == {"source_of": 1, "sampler": 1}


def test_what_is_a_source_is_not_converted(conversions: Counter[str]) -> None:
    source, got = Counts(rr.make("chain-v1")), []

    class Watching:
        def solve(self, source: Any, shared: Any, rng: Any) -> rr.Run:
            got.append(source)
            run: rr.Run = SHIPPED[0].solve(source, shared, rng)
            return run

    rr.solve(source, Watching(), shared_seed=1, sample_seed=1)
    assert conversions == {"source_of": 1}
    assert got == [source]


@pytest.mark.parametrize("rule", ["affordable", "greedy"])  # the latter spends no loss, and cuts do
def test_who_publishes_converts_the_problem_once(rule: str, conversions: Counter[str]) -> None:
    rr.publish(rr.make("chain-v1"), rr.PlugInPolicy(0.1, 0.01, 0.2, rule=rule, samples=50), sample_seed=1)
    assert conversions["sampler"] == 1


def test_a_plan_converts_nothing(conversions: Counter[str]) -> None:
    for algorithm in SHIPPED:
        rr.plan(rr.make("chain-v1"), algorithm)
    assert not conversions


@pytest.mark.parametrize("in_store", [False, True])
def test_an_audit_converts_once_for_every_run(in_store: bool, conversions: Counter[str], tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite" if in_store else None
    rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=5, store=store)
    assert conversions == {"source_of": 10, "sampler": 10}
    rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=6, store=store)
    assert conversions["sampler"] == (12 if in_store else 22)


def test_an_audit_names_its_algorithm_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[Any] = []
    real = naming.algorithm_spec

    def algorithm_spec(algorithm: Any) -> Any:
        named.append(algorithm)
        return real(algorithm)

    for module in (solving, jobs, api):
        monkeypatch.setattr(module, "algorithm_spec", algorithm_spec)
    rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=2)
    few, audited = len(named), rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=20)
    assert few == len(named) - few > 0
    assert {run.spec.algorithm for run in audited.runs if run.spec} == {real(SHIPPED[0])}


ASKED = re.compile(r"(?:hasattr|isinstance)\((?:source|problem|query|rule|self\.rule), (.*?)\)")


def test_algorithms_never_ask_what_they_were_given() -> None:
    """But for what the protocol of queries leaves to each of them; a source says its kind in sampling/problem.py."""
    asked = {
        (path.name, found)
        for path in sorted((SOURCE / "algorithms").glob("*.py"))
        for found in ASKED.findall(path.read_text(encoding="utf-8"))
    }
    assert {found for _, found in asked} == {'"room"'}, asked


def test_all_that_ships_is_walked() -> None:
    assert {type(algorithm) for algorithm in SHIPPED} == set(ALGORITHMS.values())


# --- audit ---------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often stores are asked."""
    seen: Counter[str] = Counter()

    def counting(name: str) -> None:
        real = getattr(rr.RunStore, name)

        def counted(self: rr.RunStore, *arguments: Any) -> Any:
            seen[name] += 1
            return real(self, *arguments)

        monkeypatch.setattr(rr.RunStore, name, counted)

    for name in ("runs", "audits", "run", "families", "summary"):
        counting(name)
    return seen


@pytest.mark.parametrize("where", ["memory", "file"])
def test_an_audit_asks_its_store_once(where: str, asked: Counter[str], tmp_path: Path) -> None:
    store = rr.RunStore() if where == "memory" else rr.RunStore(tmp_path / "a.sqlite")
    for _ in range(2):  # to make the runs, and to find them
        asked.clear()
        rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=10, store=store)
        assert asked == {"runs": 1, "audits": 1}
    asked.clear()
    rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=20, store=store)
    assert asked == {"runs": 1, "audits": 1}


def test_reading_builds_no_identity_that_nobody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    store = rr.RunStore()
    made = rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=10, store=store)
    built: list[tuple[int, int]] = []
    real = RunFamily.spec

    def spec(self: RunFamily, shared_seed: int, sample_seed: int, key: str | None = None) -> rr.RunSpec:
        built.append((shared_seed, sample_seed))
        return real(self, shared_seed, sample_seed, key)

    monkeypatch.setattr(RunFamily, "spec", spec)
    found = rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=10, store=store)
    assert found.agreement("policy").same == made.agreement("policy").same
    assert found.runs_asked == made.runs_asked == len(made.runs) == 20
    assert not built
    assert found.runs[3].spec == made.runs[3].spec
    assert built == [(made.runs[3].shared_seed, made.runs[3].sample_seed)]
    assert [run.spec for run in found.runs] == [run.spec for run in made.runs]
    assert found.runs == made.runs


def test_workers_ask_no_more(asked: Counter[str], tmp_path: Path) -> None:
    rr.audit(rr.make("chain-v1"), SHIPPED[0], shared_seeds=10, store=tmp_path / "a.sqlite", n_jobs=2)
    assert asked == {"runs": 1, "audits": 1}


def test_many_audits_ask_once_for_every_family(asked: Counter[str]) -> None:
    families = [
        (rr.make(problem).spec, algorithm) for problem in ("chain-v1", "riverswim-v1") for algorithm in SHIPPED[:2]
    ]
    specs = [
        rr.AuditSpec(problem, solving.algorithm_spec(algorithm), shared_seeds=seeds)
        for problem, algorithm in families
        for seeds in (2, 3)
    ]
    store = rr.RunStore()
    for _ in range(2):
        asked.clear()
        assert len(list(rr.run_audits(specs, store))) == 8
        assert asked == {"runs": 4, "audits": 1}


def test_the_runs_of_an_audit_are_those_of_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    result = rr.audit(rr.make("chain-v1"), SHIPPED[1], shared_seeds=3)
    for run in result.runs:
        alone = rr.solve(rr.make("chain-v1"), SHIPPED[1], shared_seed=run.shared_seed, sample_seed=run.sample_seed)
        assert alone == run
    assert [run.spec for run in result.runs] == result.spec.runs


# --- the source ------------------------------------------------------------------------------------


def nodes(path: Path) -> Iterator[ast.AST]:
    yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def names(node: ast.AST) -> set[str]:
    """Every name inside a piece of code; texts too, for an annotation may be one."""
    words = (
        getattr(one, "id", None) or getattr(one, "attr", None) or getattr(one, "value", None) for one in ast.walk(node)
    )
    return {word for text in words if isinstance(text, str) for word in re.findall(r"\w+", text)}


SAMPLED = {"Table", "Counts", "PerSample", "Simulator", "EpisodicEnv", "GenerativeModel", "EpisodicModel", "Problem"}
SOURCES = {"TabularMDP", *SAMPLED}
IN_ROOMS = [path for path in MODULES if path.parent.name in ("algorithms", "queries")]


@pytest.mark.parametrize("path", IN_ROOMS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_algorithms_never_ask_what_a_source_is(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass", "type"):
            assert not SOURCES & names(node), ast.unparse(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            assert not ("TabularMDP" in names(node) and names(node) & SAMPLED), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replicable_rl.sampling"):
            imported = {alias.name for alias in node.names}
            assert not imported & {"Table", "Counts", "PerSample", "Simulator", "EpisodicEnv", "check_source"}


def test_algorithms_get_a_source_under_that_name() -> None:
    for algorithm in ALGORITHMS.values():
        assert list(inspect.signature(algorithm.solve).parameters) == ["self", "source", "shared", "rng"]  # type: ignore[attr-defined]  # they are classes


def test_the_problem_is_converted_in_one_place() -> None:
    """Others make a sampler only to look at what it draws."""
    making = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if any(
            isinstance(node, ast.Call)
            and (getattr(node.func, "id", "") == "Counts" or "SAMPLERS" in names(node.func))
            and not isinstance(node.func, ast.Attribute)
            for node in nodes(path)
        )
    ]
    looking = ["experiments/claims/errata.py", "testing/counting.py"]
    assert sorted(making) == sorted(["solve/run.py", *looking])


def listed_levels(node: ast.AST) -> set[Any]:
    """The texts that a list, a tuple, a set or a table of constants consists of; empty for everything else."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        first = [one.elts[0] if isinstance(one, ast.Tuple) and one.elts else one for one in node.elts]
        return {one.value for one in first if isinstance(one, ast.Constant)}
    if isinstance(node, ast.Dict) and all(isinstance(value, ast.Constant) for value in node.values):
        return {one.value for one in node.keys if isinstance(one, ast.Constant)}
    return set()


def test_nobody_lists_the_levels_by_hand() -> None:
    """The list is open; where code means just these three, a comment says why."""
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in nodes(path):
            if path.parent.name != "records" and listed_levels(node) >= {"model", "value", "policy"}:
                where = range(node.lineno - 1, node.end_lineno or node.lineno)  # type: ignore[attr-defined]  # it is an expression
                assert any("#" in lines[i] for i in where), f"{path}:{where.start + 1}"


def test_no_public_signature_has_an_owner() -> None:
    """Who speaks in a message is nothing that callers pass; see errors.speaking_as."""
    public = [(name, getattr(rr, name)) for name in rr.__all__]
    public += [(f"theory.{name}", getattr(rr.theory, name)) for name in rr.theory.__all__]
    public += [(f"queries.{name}", getattr(rr.queries, name)) for name in rr.queries.__all__]
    public += [
        (f"{name}.{method}", value)
        for name, thing in public
        if inspect.isclass(thing)
        for method, value in vars(thing).items()
        if callable(value) and not method.startswith("_")
    ]
    checked = 0
    for name, thing in public:
        with contextlib.suppress(TypeError, ValueError):  # no function, or one of Python's own
            assert "owner" not in inspect.signature(thing).parameters, name
            checked += 1
    assert checked > 100


ONE_PLACE = {
    r"\bjson\.(dumps?|loads?)\(": ["canonical.py", "data/jsonlines.py"],  # which reads other people's rows
    r"\bproduct\(": ["records/combinations.py"],
    r"in enumerate\(line\)": ["mdp/labels.py"],
    r"\.[0-9]f\}–": [],  # an interval: wording.interval
    r"p = \{": ["wording.py"],
}


@pytest.mark.parametrize("pattern", ONE_PLACE)
def test_one_module_does_it_for_all(pattern: str) -> None:
    """JSON, combinations of values, cells of a map, intervals and p-values."""
    found = [path.relative_to(SOURCE).as_posix() for path in MODULES if re.search(pattern, path.read_text("utf-8"))]
    assert found == ONE_PLACE[pattern]


# --- claims about a table that was itself estimated ---------------------------------------------------

SAID = "about the estimated table, not about the process behind it"
SURE: list[Callable[[], Any]] = [
    lambda: rr.ReplicablePhasedVI(0.2, 0.01, 0.3),
    lambda: rr.ReplicableApproximateMDP(0.1, 0.001, 0.2),
    lambda: rr.ReplicableRMax(0.05, 0.001, 0.2, 10),
]


def estimated_tables() -> Iterator[rr.TabularMDP]:
    P, R = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]]), np.array([[0.0, 1.0], [0.5, 0.0]])
    true = rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas")
    assert not true.estimated
    yield rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas", estimated=True)
    model = rr.solve(true, rr.ApproximateMDP(0.1, 0.1), shared_seed=1, sample_seed=1).model
    assert model is not None
    yield model


@pytest.mark.parametrize("sure", SURE, ids=["rpvi", "model", "rmax"])
def test_claims_about_an_estimated_table_end_there(sure: Callable[[], Any]) -> None:
    algorithm = sure()
    for table in estimated_tables():
        run, planned = rr.solve(table, algorithm, shared_seed=1, sample_seed=1), rr.plan(table, algorithm)
        for claims in (run.claims, planned.claims(), rr.Claims.from_json(planned.to_json()["claims"])):
            assert {claim.about for claim in claims} == {"accuracy", "replicability"}
            assert all(claim.statement.count(SAID) == 1 for claim in claims)
        assert planned == rr.plan(table, algorithm)
        assert algorithm.plan(table).samples == planned.samples
        assert algorithm.plan(table).claims() == planned.claims()


class Forgetful(Counts):
    """A sampler that would have an estimate taken for the truth."""

    def __init__(self, mdp: rr.TabularMDP) -> None:
        super().__init__(mdp)
        self.estimated = False


class Bare:
    """Draws, and says nothing else."""

    def __init__(self, mdp: rr.TabularMDP) -> None:
        self.draw = Counts(mdp).draw
        self.n_states, self.n_actions, self.gamma = mdp.n_states, mdp.n_actions, mdp.gamma


def test_a_sampler_cannot_take_back_that_a_table_was_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS, "forgetful-v1", Forgetful)
    for table in estimated_tables():
        run = rr.solve(table, SURE[0](), shared_seed=1, sample_seed=1, sampler="forgetful-v1")
        assert len(run.claims) == 2
        assert all(claim.statement.count(SAID) == 1 for claim in run.claims)


def test_what_a_sampler_returns_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS, "bare-v1", lambda mdp: Bare(mdp))
    message = (
        r"^the sampler bare-v1 must return an object with the methods of GenerativeModel or EpisodicModel, got Bare\. "
        r"It has no reward_range, known_rewards, initial, estimated(,)? and spec\.$"
    )
    with pytest.raises(rr.InvalidInput, match=message):
        rr.solve(rr.make("chain-v1"), SHIPPED[0], shared_seed=1, sampler="bare-v1")


@pytest.mark.parametrize("sure", SURE, ids=["rpvi", "model", "rmax"])
def test_claims_about_the_process_itself_do_not_say_so(sure: Callable[[], Any]) -> None:
    mdp = rr.make("riverswim-v1", gamma=0.5)
    assert SAID not in str(rr.solve(mdp, sure(), shared_seed=1, sample_seed=1).claims)
    assert SAID not in str(rr.plan(mdp, sure()).claims())


def test_what_ships_is_no_estimate() -> None:
    for id in PROBLEMS:
        if id != "gridworld-v1":
            assert not rr.make(id).estimated
    assert set(LEVELS) == {"model", "value", "bytes", "action-probabilities", "policy"}
