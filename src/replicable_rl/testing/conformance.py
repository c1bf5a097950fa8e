"""Checks that an algorithm, a rule or a source of your own keeps the rules that every audit leans on.

Checks go from the plain to the subtle. On each problem they stop at the first that fails: the later ones lean on it.
Seeds are fixed, so the answer is the same every time, unless the code depends on the process. The checks that are
statistical tests fail what keeps the rule with probability at most 1e-6 on a problem, over the choice of seeds.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from replicable_rl.algorithms import PhasedVI, PlugInPolicy, RMax
from replicable_rl.canonical import canonical_json, to_json
from replicable_rl.errors import InvalidInput, shown
from replicable_rl.problem.source import Generative, Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.randomness import SharedRandomness, sample_stream
from replicable_rl.registry import ALGORITHMS, make, unshipped_levels
from replicable_rl.rules import Rule
from replicable_rl.runs import LEVELS, Algorithm, Level, Run, algorithm_spec, implied, in_order, inexact_setting
from replicable_rl.solve import refuse_other, solve, source_of
from replicable_rl.testing.sources import CountedSource
from replicable_rl.training.playing import lent_generators, seed_generators
from replicable_rl.wording import brief, sentence

SHARED, SAMPLE = 2023, 1  # the seeds of the run that others are compared with
SAMPLES = range(101, 109)  # of runs with the same shared seed and other samples
FALSE_ALARM = 1e-6  # probability, over the seeds, that what keeps a rule fails a statistical check on one problem
_CONTROLS = 201  # the first of the sample seeds of draws made for comparison
_REDRAWS = 10  # for each run, before draws that are equal in all runs are called a fraud: see `_fresh_samples`
_CALLS = 4000  # samples of every pair that a law is held against


@dataclass(frozen=True)
class Finding:
    """What one check found on one problem; ``sentence`` says why, where it did not pass."""

    check: str
    problem: str
    verdict: Literal["passed", "failed", "does not apply"]
    sentence: str = ""
    cause: BaseException | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Conformance:
    """The findings of a suite that was passed; ``str()`` lists them."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> tuple[Finding, ...]:
        """The checks that ran, problem by problem."""
        return tuple(finding for finding in self.findings if finding.verdict == "passed")

    @property
    def skipped(self) -> tuple[Finding, ...]:
        """The checks that did not apply, and why."""
        return tuple(finding for finding in self.findings if finding.verdict == "does not apply")

    def __str__(self) -> str:
        lines = [f"{self.subject} conforms"]
        for problem in dict.fromkeys(finding.problem for finding in self.findings):
            passed = ", ".join(finding.check for finding in self.passed if finding.problem == problem)
            skipped = (finding for finding in self.skipped if finding.problem == problem)
            lines += [problem, f"  passed: {passed or 'nothing'}"]
            lines += [f"  {finding.check}: does not apply, {finding.sentence}" for finding in skipped]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """A rule is broken; the message has a line for each problem, ``findings`` the details."""

    def __init__(self, subject: str, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        lines = (f"  {finding.check} ({finding.problem}): {finding.sentence}" for finding in findings)
        super().__init__("\n".join([f"{subject} does not conform:", *lines]))


def check_algorithm(algorithm: Algorithm, *, problems: Iterable[Source] | None = None) -> Conformance:
    """Check an algorithm on small problems; raise `ConformanceError` if it breaks a rule.

    ``problems`` are run about 30 times each. By default they are five small
    ones, of which an algorithm may refuse some with `InvalidInput`. All five allow every action everywhere: to see that
    an algorithm looks at ``source.support``, give a problem that does not.

    Each check answers one question about ``solve(source, shared, rng)``:

    - *interface*: does `rr.solve` take what it returns, and can the run be recorded?
    - *same seeds*: do the same seeds give the same bits, whatever ran before and whatever `random.seed` was given?
    - *identity*: can its id and parameters be recorded, and are they its own?
    - *another process*: is a run in another process, where texts have other hashes, the same?
    - *fresh samples*: do all its draws differ for other sample seeds?
    - *sample count*: is ``run.samples`` what was drawn?
    - *levels*: under one shared seed, does each level imply those below it, as model implies value and value policy?

    Whether a claimed rho holds is not asked: :func:`replicable_rl.audit` measures that.

    >>> import dataclasses, numpy as np, replicable_rl as rr
    >>> from replicable_rl.testing import check_algorithm
    >>> @dataclasses.dataclass(frozen=True)
    ... class Myopic(rr.Algorithm):
    ...     m: int
    ...     id = "myopic-v1"
    ...     def solve(self, source, shared, rng):
    ...         counts = source.draw(self.m, rng)
    ...         q = counts.mean(counts.reward).reshape(source.n_states, source.n_actions)
    ...         return rr.Run.of({"value": q, "policy": q.argmax(axis=1)}, samples=self.m * q.size)
    >>> print(check_algorithm(Myopic(100), problems=[rr.make("chain-v1")]))
    myopic-v1:m=100 conforms
    chain-v1
      passed: interface, same seeds, identity, another process, fresh samples, sample count
      levels: does not apply, no two of 9 runs with other samples were equal at a level above another
    """
    refuse_other("check_algorithm", algorithm)
    chosen = default_problems() if problems is None else tuple(problems)
    if not chosen or not all(isinstance(problem, Source) for problem in chosen):
        raise InvalidInput(f"check_algorithm: problems must be a list of problems, got {shown(problems)}.")
    findings: list[Finding] = []
    with other_process() as process:
        for problem in chosen:
            case = _Case(algorithm, problem, process, may_refuse=problems is None)
            findings += _examine(case, problem)
    return _conclude(algorithm_spec(algorithm).text, findings)


def check_rule(rule: Rule, *, problems: Iterable[Source] | None = None, samples: int = 1000) -> Conformance:
    """Check a rule as `check_algorithm` checks `PlugInPolicy` with this rule, from ``samples`` of every pair.

    >>> import replicable_rl as rr
    >>> len(check_rule(rr.rules.Greedy(), problems=[rr.make("chain-v1")]).passed)
    6
    """
    return check_algorithm(PlugInPolicy(0.1, 0.01, 0.2, samples=samples, rule=rule), problems=problems)


def check_source(source: Source, *, table: TabularMDP | None = None) -> Conformance:
    """Check a source as `check_algorithm` checks an algorithm on it, and its draws against the law of a table.

    The algorithm is `PhasedVI` where every pair can be drawn, else `RMax`, and then the law is not checked.

    >>> import replicable_rl as rr
    >>> chain = rr.make("chain-v1")
    >>> check_source(rr.testing.PerSample(chain), table=chain).passed[-1].check
    'law'
    """
    if not isinstance(source, Generative):
        return check_algorithm(RMax(0.1, 0.1, 10, episodes=9, rounds=3), problems=[source])
    report = check_algorithm(PhasedVI(0.1, 0.1, calls=50, iterations=3), problems=[source])
    wrong = "" if table is None else _other_law(source, table)
    law = () if table is None else (Finding("law", source.spec.text, "failed" if wrong else "passed", wrong),)
    return _conclude(source.spec.text, [*report.findings, *law])


def _other_law(source: Generative, table: TabularMDP) -> str:
    """Say which transition is drawn too often or too seldom, by exact tests of all of them; '' if none."""
    from scipy.special import bdtr, bdtrc

    seen = source.draw(_CALLS, sample_stream(SAMPLE)).transitions(table.n_states, table.n_actions)
    exact = table.drawn(table.rows.probability, 1).transitions(table.n_states, table.n_actions)  # type: ignore[arg-type]
    times = dict(zip(seen.key.tolist(), seen.count.tolist(), strict=True))
    law = dict(zip(exact.key.tolist(), np.minimum(exact.count, 1.0).tolist(), strict=True))
    for key in {*law, *times}:
        n, p = times.get(key, 0.0), law.get(key, 0.0)
        chance = min(bdtr(n, _CALLS, p), bdtrc(n - 1, _CALLS, p) if n else 1.0)
        if 2 * len(law) * chance < FALSE_ALARM:
            pair, successor = divmod(key, table.n_states)
            where = f"action {pair % table.n_actions} in state {pair // table.n_actions} leads to state {successor}"
            return f"{where} in {n:g} of {_CALLS} samples; the table says with probability {p:.3g}."
    return ""


def default_problems() -> tuple[TabularMDP, ...]:
    """Return small problems with ties, learned rewards, negative rewards, no structure, and one pair only."""
    return (
        make("two-goals-v1"),
        make("machine-repair-v1", n_states=4, gamma=0.8),
        make("garnet-v1", n_states=5, n_actions=2, branching=2, gamma=0.8),
        make("garnet-v1", n_states=1, n_actions=1, branching=1, gamma=0.5),
    )


def other_process() -> Any:
    """Return an executor with one process besides this one, where texts have other hashes; it starts when used."""
    from joblib.externals.loky import ProcessPoolExecutor

    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    return ProcessPoolExecutor(max_workers=1, env={"PYTHONHASHSEED": hashes})


# --- how checks are made ------------------------------------------------------------------------------------------


class _Skipped(Exception):
    """The check says nothing here; the message says why."""


@dataclass(frozen=True)
class _Case:
    """An algorithm on a problem, with the runs that several checks look at."""

    algorithm: Algorithm
    problem: Source
    process: Any = None
    may_refuse: bool = False

    def run(self, sample: int = SAMPLE, shared: int = SHARED, *, world: int = 0) -> Run:
        """Run with the global generators seeded by ``world``, and leave those as they were."""
        with lent_generators():
            seed_generators(world)
            source = source_of(self.problem, self.algorithm)
            return self.algorithm.solve(source, SharedRandomness(shared), sample_stream(sample))

    @cached_property
    def reference(self) -> Run:
        """The run that others are compared with."""
        return self.run()

    def counted(self, sample: int = SAMPLE) -> tuple[Run, CountedSource]:
        """Run on the problem behind a counter."""
        problem = CountedSource(self.problem)
        run = replace(self, problem=problem).run(sample)
        if not problem.draws:
            raise _Skipped("the algorithm does not sample by draw or play")
        return run, problem

    def changed(self, run: Run | dict[str, str]) -> str:
        """Return the names of what differs from the reference, '' if nothing does."""
        reference, recorded = _recorded(self.reference), _recorded(run) if isinstance(run, Run) else run
        return ", ".join(name for name in {**reference, **recorded} if reference.get(name) != recorded.get(name))


def _examine(case: _Case, problem: Source) -> Iterator[Finding]:
    """Yield what each check finds, up to the first that fails."""
    for check in _CHECKS:
        title, cause = check.__name__.strip("_").replace("_", " "), None
        verdict: Any = "failed"
        try:
            reason = check(case)
            verdict = "failed" if reason else "passed"
        except _Skipped as skipped:
            verdict, reason = "does not apply", str(skipped)
        except Exception as error:  # whatever somebody's code raises
            reason, cause = _short(error), error
            if case.may_refuse and check is _interface and isinstance(error, InvalidInput):
                verdict = "does not apply"
        yield Finding(title, problem.spec.text, verdict, reason, cause)
        if cause is not None or verdict == "failed":
            return


def _conclude(subject: str, findings: list[Finding]) -> Conformance:
    """Return the findings if some check passed and none failed; raise them otherwise."""
    failures = tuple(finding for finding in findings if finding.verdict == "failed")
    if not any(finding.verdict == "passed" for finding in findings):
        failures = tuple(findings)
    if failures:
        raise ConformanceError(subject, failures) from failures[0].cause
    return Conformance(subject, tuple(findings))


def _short(error: Exception) -> str:
    return f"{brief(sentence(f'{type(error).__name__}: {error}'), 200)}."


def _recorded(run: Run) -> dict[str, str]:
    """Return the parts of a run as texts, the sentences too: a time of day in them makes two records of one run."""
    parts = run.to_json()
    return dict(run.fingerprints) | {name: repr(parts[name]) for name in ("samples", "status", "claims", "history")}


# --- the checks: each returns what is wrong, '' if nothing is -----------------------------------------------------


def _interface(case: _Case) -> str:
    run = case.reference
    with lent_generators():
        solve(case.problem, case.algorithm, shared_seed=SHARED, sample_seed=SAMPLE)
    canonical_json(to_json(run.to_json()))
    same = Run.of(run.outputs).fingerprints == run.fingerprints
    return "" if same else "the fingerprints are not those of the outputs. Build the run with Run.of."


def _same_seeds(case: _Case) -> str:
    case.run(SAMPLE + 1, SHARED + 1)
    changed = case.changed(case.run(world=1))
    remedy = "Take random numbers from shared, by an address, or from rng; keep nothing between runs; record no times"
    return changed and f"a second run with the same seeds, after another run, differs in {changed}. {remedy}."


def _identity(case: _Case) -> str:
    spec = algorithm_spec(case.algorithm)
    if not spec.id or ALGORITHMS.get(spec.id, type(case.algorithm)) is not type(case.algorithm):
        return f"the id {spec.id!r} is empty or belongs to another class. Give your class its own id."
    setting = inexact_setting(case.algorithm)
    return f"JSON cannot say {setting!r} exactly. Let all fields be numbers, texts and lists." if setting else ""


def _another_process(case: _Case) -> str:
    try:
        recorded = case.process.submit(_run_there, case.algorithm, case.problem, unshipped_levels()).result()
    except Exception as error:  # what cannot be written here or read there
        raise _Skipped(f"the case cannot be sent to another process: {_short(error)}") from error
    changed = recorded.get("end") or case.changed(recorded)
    remedy = "Let nothing depend on the process: no hash() of a text, no order of a set, no os.getpid()"
    return changed and f"a run in another process differs in {changed}. {remedy}."


def _run_there(algorithm: Algorithm, problem: Source, own: dict[str, Level]) -> dict[str, str]:
    """Run in another process, and return texts alone: nobody needs the classes of the algorithm to read them."""
    LEVELS.update(own)
    try:
        return _recorded(_Case(algorithm, problem).run())
    except Exception as error:  # whatever somebody's code raises
        return {"end": f"its end: {_short(error).rstrip('.')}"}


def _fresh_samples(case: _Case) -> str:
    """Compare all draws of runs with one shared seed; those that are equal in all runs are drawn again.

    A fresh draw that comes out as x with probability p does so, and not in k more draws of the same kind, with
    probability p (1 - p)**k <= k**k / (k + 1)**(k + 1) = 0.035. The 8 runs other than the first, whose x it is, are
    independent: at most 2.4e-12 for each draw of an algorithm.
    """
    rng = sample_stream(SAMPLE)
    run = case.algorithm.solve(source_of(case.problem, case.algorithm), SharedRandomness(SHARED), rng)
    if run.samples and pickle.dumps(rng) == pickle.dumps(sample_stream(SAMPLE)):
        return "a run reports samples and never used rng. Draw every sample from rng."
    problems = [case.counted(sample)[1] for sample in (SAMPLE, *SAMPLES)]
    first, seeds = problems[0].draws, itertools.count(_CONTROLS)
    for i, (bits, _) in enumerate(first):
        draws = [problem.draws[i] for problem in problems if i < len(problem.draws) and problem.draws[i][0] == bits]
        if len(draws) == len(problems):
            controls = (redraw(sample_stream(next(seeds))) for _, redraw in draws * _REDRAWS)
            if bits not in controls:
                return (
                    f"runs with other sample seeds draw the same in draw {i + 1} of {len(first)}. Pass the rng of "
                    "solve on to every draw and play."
                )
    return ""


def _sample_count(case: _Case) -> str:
    run, problem = case.counted()
    counts = f"a run reports {run.samples} samples and drew {problem.transitions}"
    remedy = "Count calls for every pair, in every iteration, and the steps of every episode"
    return "" if run.samples == problem.transitions else f"{counts}. {remedy}."


def _levels(case: _Case) -> str:
    fingerprints = [dict(run.fingerprints) for run in (case.reference, *map(case.run, SAMPLES))]
    levels = in_order(fingerprints[0])
    upper = [level for level in levels if implied(level) & set(levels)]
    for above in upper:
        for below in implied(above) & set(levels):
            pairs = {(prints.get(above), prints.get(below)) for prints in fingerprints}
            if len(pairs) > len({digest for digest, _ in pairs}):
                return (
                    f"two runs with one shared seed have the same {above} but not the same {below}. Compute the "
                    f"{below} from the {above} that is reported, and from nothing else."
                )
    if all(len({prints.get(level) for prints in fingerprints}) == len(fingerprints) for level in upper):
        raise _Skipped(f"no two of {len(fingerprints)} runs with other samples were equal at a level above another")
    return ""


_CHECKS: tuple[Callable[[_Case], str], ...] = (
    *(_interface, _same_seeds, _identity, _another_process, _fresh_samples, _sample_count, _levels),
)
