"""Rows as runs."""

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


_EMPTY: dict[str, Any] = {}
_NOTHING = Run(Fingerprints(), _EMPTY)  # which a row fills


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
        self._outputs: dict[tuple[int, bytes], _Outputs] = {}  # equal ones once
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
        if spec.digest != key.hex():
            raise _wrong(key)
        outputs = self._outputs.get((levels, digests)) or self._read_outputs(levels, digests)
        return _NOTHING.but(
            fingerprints=outputs.fingerprints,
            outputs=outputs,
            status=None if status is None else self._statuses[status],
            claims=self._claims[claims],
            samples=None if samples is None else int(samples),
            history=_EMPTY if history is None else _KeptHistory(history.hex(), self._fetch),
            spec=spec,
            made_with=self._made_with[made_with],
            seconds=seconds,
        )

    def _read_outputs(self, levels: int, digests: bytes) -> _Outputs:
        names, text = self._levels[levels], digests.hex()
        if len(text) != 64 * len(names):
            raise ValueError(f"there are fingerprints of other levels than {', '.join(names)}")
        prints = (text[i : i + 64] for i in range(0, len(text), 64))
        outputs = _Outputs(Fingerprints(zip(names, prints, strict=True)), self._fetch)
        self._outputs[levels, digests] = outputs
        return outputs

    def failure(self, key: bytes, spec: RunSpec, row: Sequence[Any]) -> Run:
        """Return a run that failed."""
        seconds, error, made_with = row
        if spec.digest != key.hex():
            raise _wrong(key)
        status = Status(StatusCode.FAILED, error)
        return Run(
            Fingerprints(), {}, status, spec=spec, made_with=self._made_with[made_with], seconds=seconds, error=error
        )


def _wrong(key: bytes) -> ValueError:
    return ValueError(f"run {key.hex()} is another than its key says")


def _names(data: Json) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"expected the names of levels, got {data!r:.200}")
    return tuple(data)
