"""Rows as runs."""

import contextlib
import functools
import gc
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from replicable_rl.canonical import Json, canonical_json, parse_json
from replicable_rl.records import Claims, Fingerprints, ObjectSpec, Run, RunFamily, RunSpec, Status
from replicable_rl.records.run import KeptHistory, KeptOutputs
from replicable_rl.store.blocks import Row, Stretch, block_seal
from replicable_rl.store.seals import CANNOT_READ, check_seal, pieces, text_digest


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


class _Filled:
    """A field that is filled when it is asked for: what `functools.cached_property` does, without its lock."""

    def __init__(self, fill: Callable[[Any], Any]) -> None:
        self._fill = fill

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, run: Any, owner: type | None = None) -> Any:
        if run is None:
            return self
        run.__dict__[self._name] = value = self._fill(run)
        return value


class _Kept(Run):
    """A run of a family as its row says it: most are only counted, so that all else is built when it is asked for."""

    _reader: "Reader"
    _family: RunFamily
    _row: tuple[Any, ...]

    outputs: Any = _Filled(lambda run: run._parts["outputs"])
    history: Any = _Filled(lambda run: run._reader.history(run._row[4]))
    samples: Any = _Filled(lambda run: None if run._row[5] is None else int(run._row[5]))
    seconds: Any = _Filled(lambda run: run._parts["seconds"])
    status: Any = _Filled(lambda run: run._reader.said(run._row)["status"])
    claims: Any = _Filled(lambda run: run._reader.said(run._row)["claims"])
    made_with: Any = _Filled(lambda run: run._reader.said(run._row)["made_with"])

    @functools.cached_property
    def spec(self) -> RunSpec:
        """The identity of the run."""
        return self._family.spec(*_seeds(self._family, self._row), self._row[0].hex())

    @property
    def shared_seed(self) -> int:
        """The shared seed."""
        return self.spec.shared_seed if "spec" in vars(self) else int(self._row[1])

    @functools.cached_property
    def _parts(self) -> dict[str, Any]:
        return self._reader.parts(self._row[3:])

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(Run)}  # without the reader of all the others


_OF_A_FAILURE, _OF_A_RUN = 4, 12  # columns: what a failure says, with the seal; a finished run, with key and seeds
_AT_ONCE = 500
_NOTHING: dict[str, Any] = {}  # one for all runs without a history: garbage is not looked for in it again


def in_chunks(rows: sqlite3.Cursor) -> Iterator[list[Row]]:
    """Yield so many rows at a time that they stay in the processor's cache while they are checked and taken in."""
    while some := rows.fetchmany(_AT_ONCE):
        yield some


class _Documents(dict[Any, Any]):
    """What documents say, by their numbers, each read once."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def __missing__(self, number: Any) -> Any:
        self[number] = value = self._read(number)
        return value


class Reader:
    """Rows as runs; the store brings outputs when they are asked for; ``damaged`` names rows that are left out.

    Rows are what `runs.py` selects.
    """

    def __init__(self, text: Callable[[int], str], fetch: Callable[[str, str], Any]) -> None:
        self._fetch = fetch
        self.damaged: list[str] = []
        self._outputs: dict[tuple[int, bytes], KeptOutputs] = {}  # equal ones once
        self._families: dict[Row, RunFamily] = {}  # by documents, and sampler
        self._said: dict[Row, tuple[bytes, dict[str, Any]]] = {}  # by documents: most rows have the same
        parsers = (ObjectSpec.from_json, _names, Status.from_json, Claims.from_json, _versions)
        kinds = (_Documents(functools.partial(_parsed, parse, text)) for parse in parsers)
        self._objects, self.levels, self._statuses, self._claims, self._made_with = kinds
        self._digests = _Documents(lambda number: text_digest(text(number)))

    def of_family(self, family: RunFamily, rows: Sequence[Row], *, vouched: bool = False) -> dict[str, Run]:
        """Return the runs in rows, finished or failed, by their keys; damaged ones are left out.

        A row is key, shared seed, sample, what only it says, its documents, its seal; those that a block vouches for
        are not looked at one by one.
        """
        found: dict[str, Run] = {}
        for row in rows:
            sealed = True if vouched else self._is_believed(family, row)
            if sealed is None:
                continue
            parts = {"sealed": sealed, "_reader": self, "_family": family, "_row": row}
            if len(row) == _OF_A_RUN:
                outputs = self._outputs.get((row[7], row[3])) or self._read_outputs(row[7], row[3])
                parts["fingerprints"] = outputs.fingerprints
            else:
                parts |= self.parts(row[3:])
            found[row[0].hex()] = run = object.__new__(_Kept)
            object.__setattr__(run, "__dict__", parts)
        return found

    def block_seal(self, ids: Row, rows: list[Row]) -> bytes:
        """Return the digest that a block of a family, by its numbers, must have."""
        problem, algorithm, sampler = ids
        of_family = pieces(self._digests[problem], self._digests[algorithm], sampler)
        named = dict.fromkeys(row[7:11] for row in rows)
        return block_seal(rows, b"".join([of_family, *(self._documents(numbers)[0] for numbers in named)]))

    def vouched(self, block: Stretch, rows: list[Row]) -> bool:
        """Whether these rows are those of a block, as they were added, and all that there are."""
        try:
            return len(rows) == block.last - block.first + 1 and self.block_seal(block.family, rows) == block.seal
        except CANNOT_READ:
            return False

    def sound(self, ids: Row, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of a family, by its numbers, that can be believed; the others are named in ``damaged``."""
        try:
            family = self.family(ids)
        except CANNOT_READ as error:
            for row in rows:
                self._leave_out(row[0], error)
            return []
        return [row for row in rows if self._is_believed(family, row) is not None]

    def _is_believed(self, family: RunFamily, row: Row) -> bool | None:
        """Say of a row of a family whether it has a seal; None where it is left out.

        It must have the key of what it says was run, and its own seal, or, without one, a meaning.
        """
        key, own = row[0], row[3:]
        try:
            _check_types(own)
            if [key] != family.digests([_seeds(family, row)]):
                raise ValueError(f"run {key.hex()} is another than its key says")
            sealed = self._is_sealed(key, own)
            if not sealed:
                self.parts(own)  # nothing vouches for it but that it can be read
        except CANNOT_READ as error:
            self._leave_out(key, error)
            return None
        return sealed

    def _leave_out(self, key: Any, error: Exception) -> None:
        shown = key.hex()[:16] if isinstance(key, bytes) else f"{key!r:.16}"
        self.damaged.append(f"run {shown}: {error}")

    def alone(self, row: Row) -> Run:
        """Return the run in a row, which begins with the numbers of its family, with its whole identity."""
        family, found = self.family(row[:3]), row[3:]
        sealed = self._is_believed(family, found)
        if sealed is None:
            raise ValueError(self.damaged.pop())
        return Run(**self.parts(found[3:]), spec=family.spec(*_seeds(family, found)), sealed=sealed)

    def family(self, ids: Row) -> RunFamily:
        """Return the family with these documents and this sampler."""
        if ids not in self._families:
            problem, algorithm, sampler = ids
            self._families[ids] = RunFamily(self._own(problem), self._own(algorithm), sampler)
        return self._families[ids]

    def _own(self, number: int) -> ObjectSpec:
        """Return the problem or algorithm that a document says in its own words: by these it is found."""
        spec: ObjectSpec = self._objects[number]
        if text_digest(canonical_json(spec.to_json()).decode()) != self._digests[number]:
            raise ValueError(f"document {number} was changed")
        return spec

    def _is_sealed(self, key: bytes, row: Row) -> bool:
        """Whether a row has a seal; one that is not its own is refused."""
        if len(row) == _OF_A_FAILURE:
            seconds, error, made_with, seal = row
            digests, _ = self._documents((made_with,))
            return check_seal(seal, key, seconds, error, rest=digests)
        prints, history, samples, seconds, *_, seal = row
        digests, _ = self._documents(row[4:8])
        return check_seal(seal, key, prints, history, samples, seconds, rest=digests)

    def parts(self, row: Row) -> dict[str, Any]:
        """Return all fields of a run but its identity."""
        if len(row) == _OF_A_FAILURE:
            seconds, error, made_with, _ = row
            failed = vars(Run.failed(None, error, _seconds(seconds))) | self._documents((made_with,))[1]
            return {name: part for name, part in failed.items() if name not in ("spec", "sealed")}
        prints, history, samples, seconds, levels, *_ = row
        outputs = self._outputs.get((levels, prints)) or self._read_outputs(levels, prints)
        return {
            "fingerprints": outputs.fingerprints,
            "outputs": outputs,
            "samples": None if samples is None else int(samples),
            "history": self.history(history),
            "seconds": _seconds(seconds),
            **self._documents(row[4:8])[1],
        }

    def history(self, digest: bytes | None) -> Mapping[str, Any]:
        """Return a history, which is fetched when it is looked at."""
        return _NOTHING if digest is None else KeptHistory(digest.hex(), self._fetch)

    def said(self, row: Row) -> dict[str, Any]:
        """Return what the documents of a finished run say, by field."""
        return self._documents(row[7:11])[1]

    def _documents(self, numbers: Row) -> tuple[bytes, dict[str, Any]]:
        """Return the pieces of a seal that documents make, and what they say of a run."""
        if found := self._said.get(numbers):
            return found
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


def _seeds(family: RunFamily, row: Row) -> tuple[int, int | str]:
    """Return the shared seed and the sample of a row."""
    return _seed(row[1]), row[2] if family.sampler is None else _seed(row[2])


def _seed(text: Any) -> int:
    if type(text) is not str or str(int(text)) != text:
        raise ValueError(f"no seed is written {text!r:.60}")
    return int(text)


def _check_types(own: Row) -> None:
    """Refuse what a seal does not tell apart, such as a text and its bytes."""
    *said, sealed = own
    kinds = (float, str, int) if len(own) == _OF_A_FAILURE else (bytes, bytes, str, float, int, int, int, int)
    may_lack = () if len(own) == _OF_A_FAILURE else (1, 2, 5)  # history, samples, status
    for i, (value, kind) in enumerate(zip(said, kinds, strict=True)):
        if type(value) is not kind and not (value is None and i in may_lack):
            raise TypeError(f"expected {kind.__name__}, got {value!r:.60}")
    if sealed is not None and type(sealed) is not bytes:
        raise TypeError(f"no seal is {sealed!r:.60}")


def _parsed(parse: Callable[[Json], Any], text: Callable[[int], str], number: int) -> Any:
    return parse(parse_json(text(number)))


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
