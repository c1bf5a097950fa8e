"""Rows as runs."""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from replicable_rl.canonical import Json
from replicable_rl.records import Claims, Drawn, Fingerprints, ObjectSpec, Recorded, Run, RunFamily, RunSpec, Status
from replicable_rl.records.run import KeptHistory, KeptOutputs


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

    def __init__(self, read: Callable[[int], Json], parse: Callable[[Json], Any]) -> None:
        self._read, self._parse = read, parse

    def __missing__(self, id: int) -> Any:
        self[id] = value = self._parse(self._read(id))
        return value


class Reader:
    """Rows as runs, whose outputs the store brings when they are asked for."""

    def __init__(self, document: Callable[[int], Json], fetch: Callable[[str, str], Any]) -> None:
        self._fetch = fetch
        self._outputs: dict[tuple[int, bytes], KeptOutputs] = {}  # equal ones once
        parsers = (ObjectSpec.from_json, _names, Status.from_json, Claims.from_json, dict)
        kinds = (_Documents(document, parse) for parse in parsers)
        self.objects, self._levels, self._statuses, self._claims, self._made_with = kinds

    def of_family(self, family: RunFamily, rows: Iterable[Sequence[Any]]) -> dict[str, Run]:
        """Return the runs in rows, finished or failed, by their keys."""
        found: dict[str, Run] = {}
        for key, shared, sample, *rest in rows:
            seeds = int(shared), int(sample)
            name = family.key(*seeds)
            parts = self._parts(rest, key, name)
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

    def _parts(self, row: Sequence[Any], key: bytes, name: str) -> dict[str, Any]:
        """Return all fields of a run but its identity, which must have the key in the row."""
        if key.hex() != name:
            raise ValueError(f"run {key.hex()} is another than its key says")
        if len(row) == 3:
            seconds, error, made_with = row
            failed = vars(Run.failed(None, error, seconds)) | {"made_with": self._made_with[made_with]}
            return {name: part for name, part in failed.items() if name != "spec"}
        levels, digests, history, samples, seconds, status, claims, made_with = row
        outputs = self._outputs.get((levels, digests)) or self._read_outputs(levels, digests)
        return {
            "fingerprints": outputs.fingerprints,
            "outputs": outputs,
            "status": None if status is None else self._statuses[status],
            "claims": self._claims[claims],
            "samples": None if samples is None else int(samples),
            "history": _NOTHING if history is None else KeptHistory(history.hex(), self._fetch),
            "made_with": self._made_with[made_with],
            "seconds": seconds,
        }

    def _read_outputs(self, levels: int, digests: bytes) -> KeptOutputs:
        names, text = self._levels[levels], digests.hex()
        if len(text) != 64 * len(names):
            raise ValueError(f"there are fingerprints of other levels than {', '.join(names)}")
        prints = (text[i : i + 64] for i in range(0, len(text), 64))
        outputs = KeptOutputs(Fingerprints(zip(names, prints, strict=True)), self._fetch)
        self._outputs[levels, digests] = outputs
        return outputs


def _names(data: Json) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"expected the names of levels, got {data!r:.200}")
    return tuple(data)
