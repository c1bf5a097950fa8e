"""The logs of an audit: which they are, and whether they look like one process."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from replicable_rl.canonical import Json
from replicable_rl.display import short_repr
from replicable_rl.errors import InvalidInput, check_in_open_interval, check_integer, check_real, shown
from replicable_rl.wording import brief, listed, p_value, percent, plural

if TYPE_CHECKING:
    from replicable_rl.records.run import Run

_DIGEST = re.compile("[0-9a-f]{64}")
_FEWEST, _MOST = 2, 200
_PAIRS = _MOST * (_MOST - 1) // 2
_COUNTS = ("compared", "differing")
_NAMED = 3  # pairs of logs that a sentence names
_LONGEST = 60  # letters of a name in a sentence


class LogPair(NamedTuple):
    """Two logs compared: by their places, how likely chance makes such differences, and where they differ most.

    ``p_value`` is corrected for the number of pairs of logs.
    """

    one: int
    two: int
    p_value: float
    state: str
    action: str


@dataclass(frozen=True)
class Logs:
    """The recorded samples of an audit.

    Attributes
    ----------
    names : tuple of str
        What people call them: their files, or "log 1", "log 2", ...
    digests : tuple of str
        Which data they are.
    rows : tuple of int
        How many transitions each has.
    compared : int
        Pairs of logs that had anything in common to be compared by.
    differing : int
        How many of these differ by more than chance.
    pairs : tuple of LogPair
        The pairs that were compared, the most different first; of very many, the first ones.
    alarm : float
        The probability that logs of one process are said to differ.
    states, actions : tuple of str or None
        Their names; None where there are very many.
    """

    names: tuple[str, ...]
    digests: tuple[str, ...]
    rows: tuple[int, ...]
    compared: int = 0
    differing: int = 0
    pairs: tuple[LogPair, ...] = ()
    alarm: float = 1e-3
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        K = len(self.digests)
        if not _FEWEST <= K <= _MOST:
            raise InvalidInput(f"audit: takes {_FEWEST} to {_MOST} logs, got {K}.")
        if not len(self.names) == len(self.rows) == K:
            raise InvalidInput(f"audit: {K} logs need {K} names and numbers of rows, got {shown(self.names)}.")
        for i, digest in enumerate(self.digests):
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise InvalidInput(f"audit: a log is known by 64 hexadecimal digits, got {shown(digest)}.")
            if digest in self.digests[:i]:
                twice = self.names[self.digests.index(digest)], self.names[i]
                raise InvalidInput(
                    f"audit: {twice[0]} and {twice[1]} hold the same data, which is no evidence. Give each log once."
                )

    def name_of(self, run: Run) -> str:
        """Return the name of the log that a run decided on."""
        digest = getattr(None if run.spec is None else run.spec.sample, "digest", None)
        return self.names[self.digests.index(digest)] if digest in self.digests else "a log"

    @property
    def differ(self) -> bool:
        """Whether some of them come from different processes, as far as a test can tell."""
        return self.differing > 0

    @property
    def sentence(self) -> str:
        """What is to be said of them before anything else."""
        if not self.compared:
            return (
                "Nobody knows whether these logs come from one process: no action was tried in one state by two of "
                "them often enough to compare."
            )
        alarm = f"A false alarm comes in {percent(self.alarm)} of audits."
        if not self.differ:
            least = f"smallest {p_value(self.pairs[0].p_value)}, corrected for their number" if self.pairs else ""
            said = f"No difference between the logs was found ({plural(self.compared, 'pair')} of logs compared"
            return f"{said}{', ' * bool(least)}{least}). A small one may be there."
        named = [self._named(pair) for pair in self.pairs[: min(_NAMED, self.differing)]]
        more = f" {self.differing} of {plural(self.compared, 'pair')} of logs differ." if self.compared > 1 else ""
        return (
            f"THE LOGS COME FROM DIFFERENT PROCESSES: {listed(named)}.{more} Where they decide otherwise, that need "
            f"not be chance, and nothing is shown about replicability. {alarm}"
        )

    def _named(self, pair: LogPair) -> str:
        names = (brief(self.names[i], _LONGEST) for i in (pair.one, pair.two))
        where = f"action {brief(pair.action, _LONGEST)} in state {brief(pair.state, _LONGEST)}"
        return f"{' and '.join(names)} differ by more than chance ({p_value(pair.p_value)}, most of all {where})"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {**asdict(self), "pairs": [pair._asdict() for pair in self.pairs]}

    @classmethod
    def from_json(cls, data: Json) -> Logs:
        """Read the JSON form back."""
        if not isinstance(data, dict) or set(data) != set(cls.__dataclass_fields__):
            raise InvalidInput(f"Logs: expected {', '.join(cls.__dataclass_fields__)}; got {shown(data)}.")
        names, digests = (_texts(data, name) for name in ("names", "digests"))
        K = len(digests)
        read: dict[str, Any] = {name: check_integer("Logs", name, data[name], low=0, high=_PAIRS) for name in _COUNTS}
        return cls(
            names,
            digests,
            tuple(check_integer("Logs", "rows", one, low=0, high=2**63) for one in _list(data, "rows")),
            **read,
            pairs=tuple(_pair(one, K) for one in _list(data, "pairs")),
            alarm=check_in_open_interval("Logs", "alarm", data["alarm"]),
            states=None if data["states"] is None else _texts(data, "states"),
            actions=None if data["actions"] is None else _texts(data, "actions"),
        )


def _list(data: dict[str, Json], name: str) -> list[Any]:
    found: Any = data[name]
    if not isinstance(found, list):
        raise InvalidInput(f"Logs: {name} must be a list, got {shown(found)}.")
    return found


def _texts(data: dict[str, Json], name: str) -> tuple[str, ...]:
    texts = _list(data, name)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"Logs: {name} must be texts, got {shown(texts)}.")
    return tuple(texts)


def _pair(data: Any, K: int) -> LogPair:
    if not isinstance(data, dict) or set(data) != set(LogPair._fields):
        raise InvalidInput(f"Logs: a pair has {', '.join(LogPair._fields)}; got {shown(data)}.")
    one, two = (check_integer("Logs", name, data[name], low=0, high=K - 1) for name in ("one", "two"))
    p_value = check_real("Logs", "p_value", data["p_value"], low=0.0, high=1.0, rule="a probability")
    for name in ("state", "action"):
        if not isinstance(data[name], str):
            raise InvalidInput(f"Logs: {name} must be a text, got {shown(data[name])}.")
    return LogPair(one, two, p_value, data["state"], data["action"])
