"""Rows as runs."""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from replicable_rl.canonical import Json, parse_json
from replicable_rl.records import Claims, Drawn, Fingerprints, ObjectSpec, Recorded, Run, RunFamily, RunSpec, Status
from replicable_rl.records.run import KeptHistory, KeptOutputs
from replicable_rl.store.seals import CANNOT_READ, check_seal, check_seal_of_run, pieces, text_digest


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
    _seeds: tuple[int, int | str]  # shared seed and sample

    @functools.cached_property
    def spec(self) -> RunSpec:  # a field that is filled later
        """The identity of the run."""
        return self._family.spec(*self._seeds)


_OF_A_FAILURE = 4  # columns, with the seal
_NOTHING: dict[str, Any] = {}  # one for all runs without a history: garbage is not looked for in it again


class _Documents(dict[int, Any]):
    """Documents by number, each read once."""

    def __init__(self, read: Callable[[int], str], parse: Callable[[str], Any]) -> None:
        self._read, self._parse = read, parse

    def __missing__(self, id: int) -> Any:
        self[id] = value = self._parse(self._read(id))
        return value


class Reader:
    """Rows as runs; the store brings outputs when they are asked for; ``damaged`` names rows that are left out.

    A row ends with what only it says, the numbers of its documents, and its seal, as `runs.py` selects them.
    """

    def __init__(self, text: Callable[[int], str], fetch: Callable[[str, str], Any]) -> None:
        self._fetch = fetch
        self.damaged: list[str] = []
        self._outputs: dict[tuple[int, bytes], KeptOutputs] = {}  # equal ones once
        self.families: dict[tuple[Any, ...], RunFamily] = {}  # by the numbers of problem and algorithm, and sampler
        self._said: dict[tuple[Any, ...], tuple[bytes, dict[str, Any]]] = {}  # by documents: most rows have the same
        parsers = (ObjectSpec.from_json, _names, Status.from_json, Claims.from_json, _versions)
        kinds = (_Documents(text, functools.partial(_parsed, parse)) for parse in parsers)
        self._objects, self.levels, self._statuses, self._claims, self._made_with = kinds
        self._digests = _Documents(text, text_digest)

    def of_family(self, family: RunFamily, rows: Iterable[tuple[Any, ...]]) -> dict[str, Run]:
        """Return the runs in rows, finished or failed, by their keys; damaged ones are left out."""
        found: dict[str, Run] = {}
        for row in rows:
            key, shared, sample = row[:3]
            try:
                seeds = int(shared), sample if family.sampler is None else int(sample)
                parts = self._parts(row[3:], key, family.digest(*seeds))
            except CANNOT_READ as error:
                self._leave_out(key, error)
                continue
            parts["_family"], parts["_seeds"] = family, seeds
            found[key.hex()] = run = object.__new__(_Kept)
            object.__setattr__(run, "__dict__", parts)
        return found

    def alone(self, row: tuple[Any, ...]) -> Run:
        """Return the run in a row with its whole identity."""
        key, problem, algorithm, sampler, shared, sample = row[:6]
        drawn = Recorded(sample) if sampler is None else Drawn(int(sample), sampler)
        spec = RunSpec(self._objects[problem], self._objects[algorithm], int(shared), drawn)
        return Run(**self._parts(row[6:], key, bytes.fromhex(spec.digest)), spec=spec)

    def intact(self, row: tuple[Any, ...]) -> bool:
        """Whether a row of a finished run can be believed: it has the key of what it says was run, and its seal."""
        key, problem, algorithm, sampler, shared, sample = row[:6]
        try:
            family = self.families.get(row[1:4])
            if family is None:
                family = RunFamily(self._objects[problem], self._objects[algorithm], sampler)
                self.families[row[1:4]] = family
            digest = family.digest(int(shared), sample if sampler is None else int(sample))
            _check_key(key, digest)
            prints, history, samples, seconds, *_, seal = row[6:]
            digests, _ = self._said.get(row[10:14]) or self._read_documents(row[10:14])
            if not check_seal_of_run(seal, key, prints, history, samples, seconds, digests):
                self._parts(row[6:], key, digest)  # nothing vouches for it but that it can be read
        except CANNOT_READ as error:
            self._leave_out(key, error)
            return False
        return True

    def _leave_out(self, key: Any, error: Exception) -> None:
        shown = key.hex()[:16] if isinstance(key, bytes) else f"{key!r:.16}"
        self.damaged.append(f"run {shown}: {error}")

    def _parts(self, row: tuple[Any, ...], key: bytes, digest: bytes) -> dict[str, Any]:
        """Return all fields of a run but its identity, whose digest must be its key."""
        _check_key(key, digest)
        if len(row) == _OF_A_FAILURE:
            seconds, error, made_with, seal = row
            digests, said = self._read_documents((made_with,))
            sealed = check_seal(seal, key, seconds, error, rest=digests)
            failed = vars(Run.failed(None, error, _seconds(seconds))) | said | {"sealed": sealed}
            return {name: part for name, part in failed.items() if name != "spec"}
        prints, history, samples, seconds, levels, _, _, _, seal = row
        digests, said = self._said.get(row[4:8]) or self._read_documents(row[4:8])
        sealed = check_seal_of_run(seal, key, prints, history, samples, seconds, digests)
        outputs = self._outputs.get((levels, prints)) or self._read_outputs(levels, prints)
        return {
            "fingerprints": outputs.fingerprints,
            "outputs": outputs,
            "samples": None if samples is None else int(samples),
            "history": _NOTHING if history is None else KeptHistory(history.hex(), self._fetch),
            "seconds": _seconds(seconds),
            "sealed": sealed,
            **said,
        }

    def _read_documents(self, numbers: tuple[Any, ...]) -> tuple[bytes, dict[str, Any]]:
        """Return the pieces of a seal that documents make, and what they say of a run."""
        digests = pieces(*(None if number is None else self._digests[number] for number in numbers))
        said = {"made_with": self._made_with[numbers[-1]]}
        if len(numbers) > 1:
            _, status, claims, _ = numbers
            said |= {"status": None if status is None else self._statuses[status], "claims": self._claims[claims]}
        self._said[numbers] = digests, said
        return digests, said

    def _read_outputs(self, levels: int, digests: bytes) -> KeptOutputs:
        names, text = self.levels[levels], digests.hex()
        if len(text) != 64 * len(names):
            raise ValueError(f"there are fingerprints of other levels than {', '.join(names)}")
        prints = Fingerprints()
        for i, name in enumerate(names):
            prints[name] = text[64 * i : 64 * i + 64]
        outputs = self._outputs[levels, digests] = KeptOutputs(prints, self._fetch)
        return outputs


def _check_key(key: bytes, digest: bytes) -> None:
    if key != digest:
        raise ValueError(f"run {key.hex()} is another than its key says")


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
