"""What is said of an audit over logs, and otherwise of other audits: what was run, on what its intervals rest."""

from replicable_rl.audit import AuditResult
from replicable_rl.logs.several import LogPair, Logs
from replicable_rl.runs import ObjectSpec, Run
from replicable_rl.wording import brief, listed, number, p_value, percent, plural

_NAMED = 6  # logs
_PAIRS = 3  # pairs of logs
_LONGEST = 40  # letters of the name of a log
_LONGEST_OF_PAIR = 60  # and where two are said to differ


def first_of_all(result: AuditResult) -> str:
    """Say whether the logs come from one process; '' where samples were drawn."""
    return "" if result.logs is None else process_text(result.logs)


def process_text(logs: Logs) -> str:
    """Say whether logs come from one process, as far as a test can tell."""
    pairs = f"{plural(logs.compared, 'pair')} of logs"
    if not logs.compared:
        return (
            "Nobody knows whether these logs come from one process: no action was tried in one state by two of "
            "them often enough to compare."
        )
    if not logs.differ:
        least = f", smallest {p_value(logs.pairs[0].p_value)}, corrected for their number" if logs.pairs else ""
        return f"No difference between the logs was found ({pairs} compared{least}). A small one may be there."
    named = listed([_pair_text(logs, pair) for pair in logs.pairs[: min(_PAIRS, logs.differing)]])
    more = f" {logs.differing} of {pairs} differ." if logs.compared > 1 else ""
    return (
        f"THE LOGS COME FROM DIFFERENT PROCESSES: {named}.{more} Where they decide otherwise, that need not be chance, "
        f"and nothing is shown about replicability. A false alarm comes in {percent(logs.alarm)} of audits."
    )


def _pair_text(logs: Logs, pair: LogPair) -> str:
    names = (brief(logs.names[i], _LONGEST_OF_PAIR) for i in (pair.one, pair.two))
    where = f"action {brief(pair.action, _LONGEST_OF_PAIR)} in state {brief(pair.state, _LONGEST_OF_PAIR)}"
    return f"{' and '.join(names)} differ by more than chance ({p_value(pair.p_value)}, most of all {where})"


def subject(result: AuditResult) -> str:
    """Return what was solved: the problem, or the logs."""
    return _sorted(result.problem) if result.logs is None else logs_text(result.logs)


def logs_text(logs: Logs) -> str:
    """Name logs and their sizes.

    >>> logs_text(Logs(("a.csv", "b.csv"), ("0" * 64, "1" * 64), (5, 7)))
    '2 logs: a.csv (5 rows), b.csv (7 rows)'
    """
    some = list(zip(logs.names, logs.rows, strict=True))[:_NAMED]
    named = [f"{brief(name, _LONGEST)} ({number(rows)} row{'s' * (rows != 1)})" for name, rows in some]
    more = [f"{len(logs.names) - _NAMED} more"] if len(logs.names) > _NAMED else []
    return f"{plural(len(logs.names), 'log')}: {', '.join(named + more)}"


def size(result: AuditResult) -> str:
    """Return how many shared seeds and runs there are."""
    runs = "runs" if result.logs is None else "logs"
    return f"{plural(result.spec.n_seeds, 'shared seed')} × {result.spec.runs_per_seed} {runs}"


def about_looks(result: AuditResult) -> str:
    """Say what both intervals hold for."""
    if result.logs is None:
        return (
            "One look: the interval holds if the number of shared seeds was fixed beforehand. Every look: it holds "
            "however often seeds are added, and verdicts go by it."
        )
    found = next(iter(result.agreements.values()), None)
    n = 0 if found is None else found.independent
    return (
        f"Logs are the evidence, and shared seeds are not: {plural(len(result.logs.names), 'log')} make "
        f"{plural(n, 'independent comparison')} of two logs, and the intervals rest on no more. One look: the interval "
        "holds if the logs were chosen beforehand. Every look: it holds however often logs are added at the end, and "
        "verdicts go by it."
    )


def undecided(result: AuditResult) -> str:
    """Say why there is no verdict."""
    if result.logs is None:
        return "undecided (more shared seeds would tell)"
    return "not judged" if result.logs.differ else "undecided (more logs would tell)"


def compared(result: AuditResult) -> str:
    """Return what is counted where runs agree."""
    return "pairs" if result.logs is None else "comparisons of two logs"


def sample_of(result: AuditResult, run: Run) -> str:
    """Name the sample of a run."""
    return f"sample seed {run.sample_seed}" if result.logs is None else brief(result.logs.name_of(run), _LONGEST)


def _sorted(spec: ObjectSpec) -> str:
    """Return id and parameters in the order of their names, which is the order that a store keeps."""
    return ObjectSpec(spec.id, dict(sorted(spec.params.items()))).text
