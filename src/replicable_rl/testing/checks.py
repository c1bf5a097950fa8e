"""The checks after the interface, one function each: it returns, or raises `Failed` or `DoesNotApply`."""

import copy
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import numpy as np

from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.randomness import sample_stream
from replicable_rl.registry import ALGORITHMS, unshipped_levels
from replicable_rl.runs import LEVELS, Algorithm, Level, Run, implied, in_order
from replicable_rl.runs.specs import algorithm_spec, inexact_setting
from replicable_rl.testing.cases import (
    OTHER_SEEDS,
    SAMPLE_SEEDS,
    SEEDS,
    Case,
    DoesNotApply,
    Failed,
    Seeds,
    attributes,
    differences,
    global_states,
    global_world,
    recorded,
    short,
    unlike,
    with_seeds,
)
from replicable_rl.testing.counting import Tap, counting
from replicable_rl.testing.interface import interface, recompute_fingerprints
from replicable_rl.testing.processes import CannotBeSent, RunFailed

PAIRS = 40  # pairs of runs, each with its own shared seed, that a claimed rho is held against
FALSE_ALARM = 1e-6  # probability, over the seeds, that a true claim is refuted on one problem
_CONTROL_SEED = 201  # the first of the sample seeds of draws made for comparison
_THREADS = 4
_RANDOM = "Take every random number from shared, by an address, or from rng"
_REFERENCE = with_seeds()


@dataclass(frozen=True)
class Check:
    """A check by its name; it is not run where one of those that it ``needs`` failed."""

    name: str
    run: Callable[[Case], None]  # of the case: an algorithm on a problem
    needs: tuple[str, ...] = ("interface",)


def same_seeds(case: Case) -> None:
    """Two runs with the same seeds give the same bits."""
    if changed := differences(case.reference, case.run()):
        raise Failed(f"a second run {_REFERENCE} differs from the first in {changed}. {_RANDOM}; record no times.")


def global_randomness(case: Case) -> None:
    """The global generators of Python and numpy neither change the result nor are changed."""
    if changed := differences(case.reference, case.run(world=1)):
        raise Failed(f"runs {_REFERENCE} differ in {changed} after random.seed and np.random.seed. {_RANDOM}.")
    with global_world(0):
        before = global_states()
        case.solve(SEEDS)
        moved = [name for name, state in global_states().items() if state != before[name]]
    if moved:
        raise Failed(f"a run {_REFERENCE} changes the state of {' and '.join(moved)}. {_RANDOM}.")


def memory(case: Case) -> None:
    """What was run before leaves no trace in a run, nor a later run in an earlier run."""
    kept = case.run()
    case.run(OTHER_SEEDS)
    if recompute_fingerprints(kept) != kept.fingerprints:
        raise Failed("a later run overwrote the arrays of an earlier run. Return copies; Run.of makes them.")
    with suppress(Exception):  # the algorithm need not take every problem
        replace(case, problem=case.neighbour).run(OTHER_SEEDS)
    if changed := differences(case.reference, case.run()):
        raise Failed(
            f"a run {_REFERENCE} after runs with other seeds differs from the first in {changed}. Keep no caches "
            "or warm starts from one run to the next."
        )


def threads(case: Case) -> None:
    """Runs in several threads at once give the bits of runs one after another."""
    if not isinstance(case.problem, TabularMDP):
        raise DoesNotApply("only a table is known to stand several threads at once")
    expected = {SEEDS: case.reference, OTHER_SEEDS: case.run(OTHER_SEEDS)}
    tasks = [SEEDS, OTHER_SEEDS] * _THREADS
    with global_world(0), _restless(), ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(case.solve, tasks))
    for seeds, run in zip(tasks, found, strict=True):
        if changed := differences(expected[seeds], run):
            raise Failed(
                f"a run {with_seeds(seeds)} in one of {_THREADS} threads differs in {changed} from the same run "
                "alone. Keep what a run computes in local variables, not in the object or the module."
            )


def another_process(case: Case) -> None:
    """A run in another process, where texts have other hashes, gives the same bits."""
    remedy = "Let nothing depend on the process: no hash() of a text, no order of a set, no os.getpid()"
    try:
        found = case.worker.call(_run_there, case.algorithm, case.problem, unshipped_levels())
    except CannotBeSent as reason:
        raise DoesNotApply(f"this cannot be sent to another process: {short(str(reason))}") from reason
    except RunFailed as error:
        raise Failed(f"a run {_REFERENCE} in another process ends with {short(str(error))} {remedy}.") from error
    if changed := unlike(recorded(case.reference), found):
        raise Failed(f"a run {_REFERENCE} in another process differs in {changed} from the same run here. {remedy}.")


def copies(case: Case) -> None:
    """An equal algorithm has the same identity and gives the same bits."""
    twins = _twins(case.algorithm)
    if not twins:
        raise DoesNotApply("the algorithm cannot be copied")
    for how, twin in twins:
        if (spec := algorithm_spec(twin)) != algorithm_spec(case.algorithm):
            raise Failed(f"{how} is recorded as {spec.text}. Let the identity depend on the parameters alone.")
        if changed := differences(case.reference, replace(case, algorithm=twin).run()):
            raise Failed(
                f"{how} gives a run {_REFERENCE} that differs in {changed}. Make everything that a run depends on "
                "a parameter: a field of the dataclass."
            )


def frozen(case: Case) -> None:
    """A run changes no attribute of the algorithm."""
    before = attributes(case.algorithm)
    case.run()
    after = attributes(case.algorithm)
    if changed := sorted(name for name in {*before, *after} if before.get(name) != after.get(name)):
        raise Failed(
            f"a run {_REFERENCE} changes the attribute {changed[0]!r}. Make the class a frozen dataclass, and keep "
            "what a run computes in local variables."
        )


def identity(case: Case) -> None:
    """The identity of the algorithm can be recorded, and says which one it is."""
    spec = algorithm_spec(case.algorithm)
    if not isinstance(spec.id, str) or not spec.id:
        raise Failed(f"the id must be a text that is not empty, got {spec.id!r}.")
    if setting := inexact_setting(case.algorithm):
        remedy = "Make it a frozen dataclass whose fields are numbers, texts and lists"
        raise Failed(f"JSON cannot say {setting!r} exactly. {remedy}.")
    owner = ALGORITHMS.get(spec.id)
    if owner is not None and type(case.algorithm) is not owner:
        raise Failed(f"the id {spec.id!r} belongs to {getattr(owner, '__name__', owner)}. Give your class its own id.")


def fresh_samples(case: Case) -> None:
    """What is drawn comes from ``rng``, and other sample seeds draw other samples."""
    rng, run = sample_stream(SEEDS[1]), case.reference
    if run.samples == 0:
        raise DoesNotApply("the algorithm reports no samples")
    before = _progress(rng)
    with global_world(0):
        case.solve(SEEDS, rng)
    if _progress(rng) == before:
        raise Failed(
            f"a run {_REFERENCE} reports {run.samples} samples and never used rng. Draw every sample from rng."
        )
    first = _tapped(case, SEEDS)[1].draws
    alike = {i: [redraw] for i, (_, redraw) in enumerate(first)}  # the draws so far equal in all runs
    for seed in SAMPLE_SEEDS:
        draws = _tapped(case, (SEEDS[0], seed))[1].draws if alike else []
        alike = {
            i: [*redraws, draws[i][1]] for i, redraws in alike.items() if i < len(draws) and draws[i][0] == first[i][0]
        }
    times = _redraws(len(first))
    for i, redraws in alike.items():
        seeds = itertools.count(_CONTROL_SEED)
        controls = (redraw(sample_stream(next(seeds))) for _ in range(times) for redraw in redraws)
        if first[i][0] not in controls:
            raise Failed(
                f"runs with shared seed {SEEDS[0]} and {len(redraws)} different sample seeds draw the same samples in "
                f"draw {i + 1} of {len(first)}. Pass the rng of solve on to every draw and play; one seeded from "
                "shared gives every run the same data."
            )
    if first and len(alike) == len(first):
        raise DoesNotApply("on this problem every sample seed draws the same samples")


def sample_count(case: Case) -> None:
    """The samples reported are the samples drawn."""
    run, tap = _tapped(case, SEEDS)
    if isinstance(run, Exception):
        raise DoesNotApply(f"on a source that counts, solve raises {short(run)}")
    if not tap.draws:
        raise DoesNotApply("the algorithm does not sample by draw or play")
    if run.samples != tap.transitions:
        raise Failed(
            f"a run {_REFERENCE} reports {run.samples} samples and drew {tap.transitions}. Count calls for "
            "every pair, in every iteration, and the steps of every episode."
        )


def levels(case: Case) -> None:
    """Under one shared seed, an equal level implies equal levels below it: model, value, policy."""
    prints = [run.fingerprints for run in (case.reference, *case.others)]
    upper = [level for level in in_order(prints[0]) if implied(level) & set(prints[0])]
    if not upper:
        raise DoesNotApply("the run has no level that implies another of its levels")
    agreed = False
    for level in upper:
        for lower in in_order(implied(level) & set(prints[0])):
            pairs = {(one.get(level), one.get(lower)) for one in prints}
            if len(pairs) > len({above for above, _ in pairs}):
                raise Failed(
                    f"two of {len(prints)} runs with shared seed {SEEDS[0]} have the same {level} but not the same "
                    f"{lower}. Compute the {lower} from the {level} that is reported, and from nothing else."
                )
        agreed |= any(count > 1 for count in Counter(one.get(level) for one in prints).values())
    if not agreed:
        raise DoesNotApply(f"no two of {len(prints)} runs with other samples had an equal {' or '.join(upper)}")


def replicability(case: Case) -> None:
    """Where rho is claimed, pairs of runs do not refute it."""
    claim = case.reference.claims.replicability
    if claim is None:
        raise DoesNotApply("the run claims nothing about a second run")
    from scipy.special import bdtrc

    pairs = [tuple(case.run((j, 2 * j + i)) for i in (0, 1)) for j in range(PAIRS)]
    claims = [run.claims.replicability for pair in pairs for run in pair]
    if None in claims:
        raise DoesNotApply("some runs claim nothing about a second run")
    rho = max(one.bound for one in claims if one is not None)
    level = case.level or claim.level or in_order(case.reference.fingerprints)[0]
    prints = [tuple(run.fingerprints.get(level) for run in pair) for pair in pairs]
    if (None, None) in prints:
        raise DoesNotApply(f"the run has no {level}")
    differ = sum(one != two for one, two in prints)
    chance = float(bdtrc(differ - 1, PAIRS, rho)) if differ else 1.0  # of so many pairs or more
    if chance < FALSE_ALARM:
        raise Failed(
            f"rho={rho:g} is claimed, but {differ} of {PAIRS} pairs of runs (shared seeds 0 to {PAIRS - 1}) differ in "
            f"their {level}, which has probability {chance:.1g}. Claim rho only where it is proved."
        )


def _run_there(algorithm: Algorithm, problem: Source, own: dict[str, Level]) -> dict[str, str]:
    """Run in a worker, and return the texts alone: they need no classes of the algorithm to be read."""
    LEVELS.update(own)
    return recorded(Case(algorithm, problem, problem, None).run())


def _twins(algorithm: Algorithm) -> list[tuple[str, Algorithm]]:
    """Return algorithms that should be equal to this one, and how they were made."""
    twins: list[tuple[str, Algorithm]] = []
    with suppress(Exception):  # some objects cannot be copied
        twins.append(("a copy by copy.deepcopy", copy.deepcopy(algorithm)))
    with suppress(Exception):  # no dataclass, or one that needs an InitVar
        twins.append(("a copy by dataclasses.replace", replace(algorithm)))  # type: ignore[type-var]
    return twins


def _tapped(case: Case, seeds: Seeds) -> tuple[Run | Exception, Tap]:
    """Run on the problem behind a counter, which an algorithm need not take."""
    problem, tap = counting(case.problem)
    try:
        return replace(case, problem=problem).run(seeds), tap
    except Exception as error:  # it ran on the problem itself: the counter is what it cannot handle
        return error, tap


def _redraws(draws: int) -> int:
    """Return how often to draw again for each run, before draws that are equal in all runs are called a fraud.

    A fresh draw that comes out as x with probability p does so, and not in k more draws of the same kind, with
    probability p (1 - p)**k <= k**k / (k + 1)**(k + 1). The runs other than the first, whose x it is, are independent
    given what each drew before (so they may ask for different things by now): the power of that by their number
    bounds a false alarm at one draw, and times the number of draws at any.
    """
    bounds = ((k, draws * (k**k / (k + 1) ** (k + 1)) ** len(SAMPLE_SEEDS)) for k in itertools.count(1))
    return next(k for k, bound in bounds if bound <= FALSE_ALARM)


def _progress(rng: np.random.Generator) -> tuple[object, object]:
    """What any use of a generator changes: its state, or the number of its children."""
    return rng.bit_generator.state, getattr(rng.bit_generator.seed_seq, "n_children_spawned", None)


@contextmanager
def _restless() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


_SAME = ("interface", "same seeds", "global randomness")
CHECKS = (
    Check("interface", interface, needs=()),
    Check("same seeds", same_seeds),
    Check("global randomness", global_randomness, needs=_SAME[:2]),
    Check("memory", memory, needs=_SAME),
    Check("threads", threads, needs=(*_SAME, "memory")),
    Check("another process", another_process, needs=(*_SAME, "memory")),
    Check("identity", identity, needs=()),
    Check("frozen", frozen),
    Check("copies", copies, needs=(*_SAME, "memory", "identity", "frozen")),
    Check("fresh samples", fresh_samples),
    Check("sample count", sample_count),
    Check("levels", levels),
    Check("replicability", replicability),
)
