"""Somebody's own code: known by the version that its author gives it.

No program can tell whether another one still does the same. So a store takes runs of somebody's own code only under a
version that its author names, and that version is the promise. What can be seen of the code, its source, is compared
as a warning: a source that has changed under the same version is said, and one that has not proves nothing.
"""

import functools
import hashlib
import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from replicable_rl.audit.evidence import AuditSpec
from replicable_rl.errors import InvalidInput
from replicable_rl.problem.source import Source
from replicable_rl.problem.table import TabularMDP
from replicable_rl.registry import build
from replicable_rl.runs import OURS, Algorithm, provider
from replicable_rl.runs.specs import Setting
from replicable_rl.wording import brief


class ChangedSource(UserWarning):
    """The source of somebody's own code has changed, and its version has not."""


def refuse_nameless(owner: str, what: str, remedy: str) -> None:
    """Refuse to keep runs of code that nobody gave a version."""
    raise InvalidInput(
        f"{owner}: {what} is code of your own, which a store knows only by the version that you give it. {remedy}, and "
        "change it whenever the code changes; or leave the store out."
    )


def refuse_misnamed(owner: str, table: TabularMDP) -> None:
    """Refuse to keep runs on a table whose source names a problem that has other numbers."""
    spec = table.spec
    try:
        digest = spec.params.get("digest") if spec.id == "mdp" else build(spec).digest
    except InvalidInput:  # there is no such problem
        digest = None
    if digest != table.digest:
        raise InvalidInput(
            f"{owner}: the table calls itself {brief(spec.text, 60)}, which is another problem. Leave its source out "
            "(a store then knows it by its numbers), or register it under an id of its own; or leave the store out."
        )


def own_source(problem: Source, algorithm: Algorithm) -> str | None:
    """Return the digest of the source of the parts of an audit that are not this package's; None if all are."""
    parts = [one for one in vars(algorithm).values() if isinstance(one, Setting)]
    return source_digest(algorithm, *parts, problem, *problem.code)


def source_digest(*parts: object) -> str | None:
    """Return the digest of the source of functions, and of the classes of objects; None where nothing is to be seen.

    >>> source_digest(functools.partial(brief, longest=3)) is source_digest(max) is None  # ours, and Python's
    True
    """
    texts = []
    for one in parts:
        part: Any = one
        while isinstance(part, functools.partial):
            part = part.func
        part = part if hasattr(part, "__qualname__") else type(part)
        if provider(part) != OURS:
            try:
                texts.append(inspect.getsource(part))
            except (OSError, TypeError):  # compiled, or typed in where nothing is kept
                continue
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16] if texts else None


def warn_of_other_source(spec: AuditSpec, known: Iterable[AuditSpec], where: str) -> None:
    """Warn of runs in a store whose code had another source under the same version."""
    seen = {other.code for other in known if other.family == spec.family and other.code is not None}
    if spec.code is not None and seen - {spec.code}:
        warnings.warn(
            f"The source of {brief(spec.algorithm.id, 60)}, or of what it is run on, is another than when its runs in "
            f"{where} were made. If it computes something else now, give it another version.",
            ChangedSource,
            stacklevel=2,
        )
