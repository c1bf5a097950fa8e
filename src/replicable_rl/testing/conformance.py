"""``check_algorithm``: every check on every problem, and what came of it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from replicable_rl.errors import InvalidInput
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import make
from replicable_rl.runs import Algorithm, check_level
from replicable_rl.runs.specs import algorithm_spec
from replicable_rl.solve import refuse_other
from replicable_rl.testing.cases import Case, DoesNotApply, Failed, Refused, short
from replicable_rl.testing.checks import CHECKS, Check
from replicable_rl.testing.processes import Worker

Verdict = Literal["passed", "failed", "does not apply"]


@dataclass(frozen=True)
class Finding:
    """What one check found on one problem; ``sentence`` says why, where it did not pass."""

    check: str
    problem: str
    verdict: Verdict
    sentence: str = ""
    cause: BaseException | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Conformance:
    """The findings of a suite that an algorithm passed; ``str()`` lists them."""

    algorithm: str
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
        lines: dict[str, list[str]] = {}  # of each problem
        for finding in self.findings:
            lines.setdefault(finding.problem, [f"  passed: {', '.join(self._passed_on(finding.problem))}"])
            if finding.verdict != "passed":
                lines[finding.problem].append(f"  {finding.check}: {finding.verdict}, {finding.sentence}")
        alike: dict[str, list[str]] = {}  # problems with the same lines
        for problem, listed in lines.items():
            alike.setdefault("\n".join(listed), []).append(problem)
        return "\n".join([f"{self.algorithm} conforms", *("; ".join(on) + "\n" + text for text, on in alike.items())])

    def _passed_on(self, problem: str) -> list[str]:
        return [finding.check for finding in self.passed if finding.problem == problem] or ["nothing"]


class ConformanceError(AssertionError):
    """An algorithm breaks rules; the message has a line for each, ``findings`` the details."""

    def __init__(self, algorithm: str, findings: tuple[Finding, ...]) -> None:
        self.algorithm, self.findings = algorithm, findings
        problems: dict[tuple[str, str], list[str]] = {}
        for finding in findings:
            problems.setdefault((finding.check, finding.sentence), []).append(finding.problem)
        lines = [f"  {check} ({'; '.join(on)}): {sentence}" for (check, sentence), on in problems.items()]
        super().__init__("\n".join([f"{algorithm} does not conform:", *lines]))


def check_algorithm(
    algorithm: Algorithm, *, problems: Iterable[Source] | None = None, level: str | None = None
) -> Conformance:
    """Run every check on an algorithm; raise `ConformanceError` with all that fail.

    Each check answers one question about ``solve(source, shared, rng)``:

    - *interface*: does it return a `Run` of the right types, shapes and fingerprints?
    - *same seeds*: do the same seeds give the same bits?
    - *global randomness*: is it independent of `random` and `np.random`, and does it leave them alone?
    - *memory*: does it forget earlier runs?
    - *threads*: are runs in several threads the same as one after another?
    - *another process*: is a run in another process, where texts have other hashes, the same?
    - *identity*: can its id and parameters be recorded, and are they its own?
    - *frozen*: do its attributes survive a run?
    - *copies*: does a copy give the same bits?
    - *fresh samples*: does it draw from ``rng``, and do all draws differ for other sample seeds?
    - *sample count*: is ``run.samples`` what was drawn?
    - *levels*: under one shared seed, does each level imply those below it, as model implies value and value policy?
    - *replicability*: do 40 pairs of runs, under 40 shared seeds, fit the rho that is claimed?

    Seeds are fixed, so the answer is the same every time, unless the algorithm depends on the process: what one other
    process happens to share with this one, such as one of two orders of a set, is not found. Two of the checks are
    statistical tests, fresh samples and replicability: over the choice of seeds, each fails an algorithm that keeps the
    rule with probability at most 1e-6 on a problem. Where a run claims nothing about a second run,
    replicability does not apply.

    Parameters
    ----------
    algorithm : Algorithm
        Anything with ``solve(source, shared, rng) -> Run``.
    problems : iterable of problems, optional
        What to run on, each about 40 times and 80 times more if a rho is claimed. By default five small ones:
        with ties, with rewards to be learned, with negative rewards, without structure, with one state and one
        action. Of those an algorithm may refuse some with `InvalidInput`, of yours none. All five allow every action
        everywhere: to see that an algorithm looks at ``source.support``, give a problem that does not.
    level : str, optional
        What the rho that is claimed is about; None means what the claim itself says.

    Raises
    ------
    ConformanceError
        With a sentence for each check that failed: what was seen and what to do.
    InvalidInput
        If an argument is not what it should be.

    Examples
    --------
    An algorithm that looks one step ahead, for rewards that are learned from m samples of every pair:

    >>> import dataclasses, numpy as np, replicable_rl as rr
    >>> from replicable_rl.testing import check_algorithm
    >>> @dataclasses.dataclass(frozen=True)
    ... class Myopic(rr.Algorithm):
    ...     m: int
    ...     id = "myopic-v1"
    ...     def solve(self, source, shared, rng):
    ...         counts = source.draw(self.m, rng)
    ...         q = counts.mean(counts.reward).reshape(source.n_states, source.n_actions)
    ...         return rr.Run.of(
    ...             {"value": q, "policy": q.argmax(axis=1)}, samples=self.m * q.size,
    ...             status=rr.Status(rr.StatusCode.COMPLETED, "looked one step ahead"))
    >>> print(check_algorithm(Myopic(100), problems=[rr.make("chain-v1")]))
    myopic-v1:m=100 conforms
    chain-v1
      passed: interface, same seeds, global randomness, memory, threads, another process, identity, frozen,
        copies, fresh samples, sample count
      levels: does not apply, no two of 9 runs with other samples had an equal value
      replicability: does not apply, the run claims nothing about a second run

    A mistake is named together with its remedy:

    >>> class Careless(Myopic):
    ...     id = "careless-v1"
    ...     def solve(self, source, shared, rng):
    ...         return super().solve(source, shared, np.random.default_rng(shared.seed))
    >>> check_algorithm(Careless(100), problems=[rr.make("chain-v1")])
    Traceback (most recent call last):
    ...
    replicable_rl.testing.conformance.ConformanceError: careless-v1:m=100 does not conform:
      fresh samples (chain-v1): a run with shared seed 2023 and sample seed 1 reports 1000 samples and never used rng.
      Draw every sample from rng.
    """
    _check_arguments(algorithm, level)
    chosen = default_problems() if problems is None else _check_problems(problems)
    findings: list[Finding] = []
    with Worker() as worker:
        for problem, neighbour in zip(chosen, chosen[1:] + chosen[:1], strict=True):
            case = Case(algorithm, problem, neighbour, level, worker)
            findings += examine(case, CHECKS, may_refuse=problems is None)
    return conclude(_text(algorithm), findings)


def conclude(name: str, findings: list[Finding]) -> Conformance:
    """Return the findings if none of them is a failure and some check applied; raise them otherwise."""
    failures = tuple(finding for finding in findings if finding.verdict == "failed")
    if all(finding.verdict == "does not apply" for finding in findings):
        remedy = "Mend it, or pass problems=[...] that it takes."
        failures = tuple(replace(f, verdict="failed", sentence=f"{f.sentence} {remedy}") for f in findings)
    if failures:
        raise ConformanceError(name, failures) from next((f.cause for f in failures if f.cause), None)
    return Conformance(name, tuple(findings))


def default_problems() -> tuple[TabularMDP, ...]:
    """Return small problems with ties, learned rewards, negative rewards, no structure, and one pair only."""
    return (
        make("two-goals-v1"),
        make("chain-v1", gamma=0.8),
        make("machine-repair-v1", n_states=4, gamma=0.8),
        make("garnet-v1", n_states=5, n_actions=2, branching=2, gamma=0.8),
        make("garnet-v1", n_states=1, n_actions=1, branching=1, gamma=0.5),
    )


def examine(case: Case, checks: Iterable[Check], *, may_refuse: bool = False) -> list[Finding]:
    """Run checks on an algorithm on a problem, and return what each found."""
    problem = re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1...", case.problem.spec.text)
    findings: list[Finding] = []
    failed: set[str] = set()
    for check in checks:
        if broken := [name for name in check.needs if name in failed]:
            findings.append(Finding(check.name, problem, "does not apply", f"{broken[0]} failed"))
            failed.add(check.name)
            continue
        try:
            check.run(case)
            findings.append(Finding(check.name, problem, "passed"))
        except DoesNotApply as reason:
            findings.append(Finding(check.name, problem, "does not apply", str(reason)))
        except Refused as refusal:
            verdict: Verdict = "does not apply" if may_refuse else "failed"
            return [Finding(check.name, problem, verdict, str(refusal), refusal.__cause__)]
        except Failed as seen:
            failed.add(check.name)
            findings.append(Finding(check.name, problem, "failed", str(seen), seen.__cause__))
        except Exception as error:  # a run that ends like this where an earlier one did not
            failed.add(check.name)
            findings.append(Finding(check.name, problem, "failed", f"a run raises {short(error)}", error))
    return findings


def _check_arguments(algorithm: object, level: str | None) -> None:
    refuse_other("check_algorithm", algorithm)
    if level is not None:
        check_level("check_algorithm", level)


def _check_problems(problems: object) -> tuple[Source, ...]:
    chosen = tuple(problems) if isinstance(problems, Iterable) and not isinstance(problems, str) else ()
    if not chosen:
        raise InvalidInput(f"check_algorithm: problems must be a list of at least one problem, got {problems!r}.")
    for problem in chosen:
        if not isinstance(problem, Source):
            hint = " Use replicable_rl.make(...) to turn an id into a problem." if isinstance(problem, str) else ""
            raise InvalidInput(f"check_algorithm: problems must hold problems, got {problem!r}.{hint}")
    return chosen


def _text(algorithm: Algorithm) -> str:
    try:
        return algorithm_spec(algorithm).text
    except Exception:  # the check of its identity says more
        return type(algorithm).__qualname__
