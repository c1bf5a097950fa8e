"""Rows as runs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from replicable_rl.canonical import Json
from replicable_rl.records import Claims, Drawn, Fingerprints, ObjectSpec, Recorded, Run, RunSpec, Status, StatusCode
from replicable_rl.records.run import _KeptHistory, _Outputs


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
        parsers = (ObjectSpec.from_json, _names, Status.from_json, Claims.from_json, dict)
        kinds = (_Documents(document, parse) for parse in parsers)
        self.objects, self._levels, self._statuses, self._claims, self._made_with = kinds

    def spec(self, problem: int, algorithm: int, sampler: str | None, shared: str, sample: str) -> RunSpec:
        """Return the identity in a row."""
        what = self.objects[problem], self.objects[algorithm]
        return RunSpec(*what, int(shared), Recorded(sample) if sampler is None else Drawn(int(sample), sampler))

    def run(self, key: bytes, spec: RunSpec, row: Sequence[Any]) -> Run:
        """Return a finished run."""
        levels, digests, history, samples, seconds, status, claims, made_with = row
        names, text = self._levels[levels], digests.hex()
        prints = [text[i : i + 64] for i in range(0, 64 * len(names), 64)]
        if len(text) != 64 * len(names):
            raise ValueError(f"run {key.hex()} has fingerprints of other levels")
        _check_key(key, spec)
        fingerprints = Fingerprints(zip(names, prints, strict=True))
        return Run(  # what `Run.kept` would make of it in twice the time
            fingerprints,
            _Outputs(fingerprints, self._fetch),
            None if status is None else self._statuses[status],
            self._claims[claims],
            None if samples is None else int(samples),
            {} if history is None else _KeptHistory(history.hex(), self._fetch),
            spec,
            self._made_with[made_with],
            seconds,
        )

    def failure(self, key: bytes, spec: RunSpec, row: Sequence[Any]) -> Run:
        """Return a run that failed."""
        seconds, error, made_with = row
        _check_key(key, spec)
        status = Status(StatusCode.FAILED, error)
        return Run(
            Fingerprints(), {}, status, spec=spec, made_with=self._made_with[made_with], seconds=seconds, error=error
        )


def _check_key(key: bytes, spec: RunSpec) -> None:
    if spec.digest != key.hex():
        raise ValueError(f"run {key.hex()} is another than its key says")


def _names(data: Json) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"expected the names of levels, got {data!r:.200}")
    return tuple(data)
