"""Rows as runs."""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from replicable_rl.canonical import Json, parse_json
from replicable_rl.records import Claims, Drawn, Fingerprints, ObjectSpec, Recorded, Run, RunFamily, RunSpec, Status
from replicable_rl.records.run import KeptHistory, KeptOutputs
from replicable_rl.store.seals import CANNOT_READ, check_seal, text_digest


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Do not look for garbage among many objects that all stay: that would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Kept(Run):
    """A run of a family: its identity is built when it is asked for, and most runs are only counted."""

    _family: RunFamily
    _seeds: tuple[int, int]

    @functools.cached_property
    def spec(self) -> RunSpec:  # a field that is filled later
        """The identity of the run."""
        return self._family.spec(*self._seeds)


_NOTHING: dict[str, Any] = {}  # one for all runs without a history: garbage is not looked for in it again


class _Documents(dict[int, Any]):
    """Documents by number, each read once."""

    def __init__(self, read: Callable[[int], str], parse: Callable[[str], Any]) -> None:
        self._read, self._parse = read, parse

    def __missing__(self, id: int) -> Any:
        self[id] = value = self._parse(self._read(id))
        return value


class Reader:
    """Rows as runs; the store brings outputs when they are asked for; ``damaged`` names rows that are left out."""

    def __init__(self, text: Callable[[int], str], fetch: Callable[[str, str], Any]) -> None:
        self._fetch = fetch
        self.damaged: list[str] = []
        self._outputs: dict[tuple[int, bytes], KeptOutputs] = {}  # equal ones once
        self._families: dict[tuple[Any, ...], RunFamily] = {}
        parsers = (ObjectSpec.from_json, _names, Status.from_json, Claims.from_json, _versions)
        kinds = (_Documents(text, functools.partial(_parsed, parse)) for parse in parsers)
        self.objects, self._levels, self._statuses, self._claims, self._made_with = kinds
        self._digests = _Documents(text, text_digest)

    def of_family(self, family: RunFamily, rows: Iterable[Sequence[Any]]) -> dict[str, Run]:
        """Return the runs in rows, finished or failed, by their keys; damaged ones are left out."""
        found: dict[str, Run] = {}
        for key, shared, sample, *rest in rows:
            try:
                seeds = int(shared), int(sample)
                name = family.key(*seeds)
                parts = self._parts(rest, key, name)
            except CANNOT_READ as error:
                self.damaged.append(f"run {_shown(key)}: {error}")
                continue
            parts["_family"], parts["_seeds"] = family, seeds
            found[name] = run = object.__new__(_Kept)
            object.__setattr__(run, "__dict__", parts)
        return found

    def alone(self, row: Sequence[Any]) -> Run:
        """Return the run in a row with its whole identity."""
        key, problem, algorithm, sampler, shared, sample, *rest = row
        drawn = Recorded(sample) if sampler is None else Drawn(int(sample), sampler)
        spec = RunSpec(self.objects[problem], self.objects[algorithm], int(shared), drawn)
        return Run(**self._parts(rest, key, spec.digest), spec=spec)

    def intact(self, *row: Any) -> bool:
        """Whether a row can be believed: it has the key of what it says was run, and its seal."""
        key, problem, algorithm, sampler, shared, sample, *rest = row
        try:
            if sampler is None:
                self.alone(row)
                return True
            ids = problem, algorithm, sampler
            if ids not in self._families:
                self._families[ids] = RunFamily(self.objects[problem], self.objects[algorithm], sampler)
            self._check(rest, key, self._families[ids].key(int(shared), int(sample)))
        except CANNOT_READ as error:
            self.damaged.append(f"run {_shown(key)}: {error}")
            return False
        return True

    def _check(self, row: Sequence[Any], key: bytes, name: str) -> bool:
        """Refuse a row with another key than its identity or another seal than its content; return if it has one."""
        if key.hex() != name:
            raise ValueError(f"run {key.hex()} is another than its key says")
        *_, made_with, seal = row
        digests = self._digests
        if len(row) == 4:
            seconds, error, *_ = row
            return check_seal(seal, key, seconds, error, digests[made_with])
        levels, prints, history, samples, seconds, status, claims, *_ = row
        said = None if status is None else digests[status]
        documents = digests[levels], said, digests[claims], digests[made_with]
        return check_seal(seal, key, prints, history, samples, seconds, *documents)

    def _parts(self, row: Sequence[Any], key: bytes, name: str) -> dict[str, Any]:
        """Return all fields of a run but its identity, which must have the key in the row."""
        sealed = self._check(row, key, name)
        if len(row) == 4:
            seconds, error, made_with, _ = row
            more = {"made_with": self._made_with[made_with], "sealed": sealed}
            failed = vars(Run.failed(None, error, _seconds(seconds))) | more
            return {name: part for name, part in failed.items() if name != "spec"}
        levels, digests, history, samples, seconds, status, claims, made_with, _ = row
        outputs = self._outputs.get((levels, digests)) or self._read_outputs(levels, digests)
        return {
            "fingerprints": outputs.fingerprints,
            "outputs": outputs,
            "status": None if status is None else self._statuses[status],
            "claims": self._claims[claims],
            "samples": None if samples is None else int(samples),
            "history": _NOTHING if history is None else KeptHistory(history.hex(), self._fetch),
            "made_with": self._made_with[made_with],
            "seconds": _seconds(seconds),
            "sealed": sealed,
        }

    def _read_outputs(self, levels: int, digests: bytes) -> KeptOutputs:
        names, text = self._levels[levels], digests.hex()
        if len(text) != 64 * len(names):
            raise ValueError(f"there are fingerprints of other levels than {', '.join(names)}")
        prints = (text[i : i + 64] for i in range(0, len(text), 64))
        outputs = KeptOutputs(Fingerprints(zip(names, prints, strict=True)), self._fetch)
        self._outputs[levels, digests] = outputs
        return outputs


def _parsed(parse: Callable[[Json], Any], text: str) -> Any:
    return parse(parse_json(text))


def _names(data: Json) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"expected the names of levels, got {data!r:.200}")
    return tuple(data)


def _versions(data: Json) -> dict[str, str]:
    if not isinstance(data, dict) or not all(isinstance(version, str) for version in data.values()):
        raise ValueError(f"expected versions by name, got {data!r:.200}")
    return data


def _seconds(value: Any) -> float:
    if type(value) is not float:
        raise TypeError(f"expected seconds, got {value!r:.60}")
    return value


def _shown(key: Any) -> str:
    return key.hex()[:16] if isinstance(key, bytes) else f"{key!r:.16}"
